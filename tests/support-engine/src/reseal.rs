//! Checksum fix-up: recomputes checksums over corrupt bytes, so that a test passes the first check.
//!
//! For logs, segments, states, indexes and manifests as `format-spec/` describes them. No function panics for any
//! bytes, since the fuzz targets call them with arbitrary bytes.

use std::ops::Range;

use sha2::{Digest, Sha256};

/// Bytes of a log's header.
pub const LOG_HEADER_BYTES: usize = 64;
/// Bytes of a frame's header.
pub const FRAME_HEAD_BYTES: usize = 32;
const FRAME_HEAD_CRC: usize = 28;
const PAGE_BYTES: usize = 64 << 10;
const SEGMENT_TRAILER_BYTES: usize = 64;
const STATE_HEADER_BYTES: usize = 64;

fn seal_at(bytes: &mut [u8], at: usize, covered: Range<usize>) -> Option<()> {
    let crc = crc32c::crc32c(bytes.get(covered)?).to_le_bytes();
    bytes.get_mut(at..at + crc.len())?.copy_from_slice(&crc);
    Some(())
}

/// Reads the `u64` at an offset.
pub fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let cell = bytes.get(at..at + 8)?;
    usize::try_from(u64::from_le_bytes(cell.try_into().ok()?)).ok()
}

/// Recomputes both checksums of a frame. `None` if a frame does not fit.
pub fn frame(log: &mut [u8], frame: &Range<usize>) -> Option<()> {
    let place = [log.get(16..40)?, &(frame.start as u64).to_le_bytes()].concat();
    let place = crc32c::crc32c(&place);
    let frame = log.get_mut(frame.clone())?;
    let head = crc32c::crc32c_append(place, frame.get(8..FRAME_HEAD_CRC)?);
    let crc = crc32c::crc32c_append(head, frame.get(FRAME_HEAD_BYTES..)?);
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c::crc32c_append(place, &frame[..FRAME_HEAD_CRC]);
    frame[FRAME_HEAD_CRC..FRAME_HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
    Some(())
}

/// Returns the frames of a log, as far as their lengths are valid.
pub fn frames(log: &[u8]) -> Vec<Range<usize>> {
    let mut frames = Vec::new();
    let mut at = LOG_HEADER_BYTES;
    while let Some(length) = log.get(at..at + 4) {
        let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
        let end = at + FRAME_HEAD_BYTES + length as usize;
        if end > log.len() {
            break;
        }
        frames.push(at..end);
        at = end;
    }
    frames
}

/// Recomputes the checksum of a log's header.
pub fn log_header(log: &mut [u8]) -> Option<()> {
    seal_at(log, 60, 0..60)
}

/// Recomputes page checksums and trailer of a segment, as far as the trailer is valid.
pub fn segment(bytes: &mut [u8]) -> Option<()> {
    let trailer = bytes.len().checked_sub(SEGMENT_TRAILER_BYTES)?;
    let checks = number(bytes, trailer + 16)?.min(trailer);
    for (page, start) in (0..checks).step_by(PAGE_BYTES).enumerate() {
        seal_at(bytes, checks + page * 4, start..(start + PAGE_BYTES).min(checks))?;
    }
    seal_at(bytes, trailer + 28, checks..trailer)?;
    segment_trailer(bytes)
}

/// Recomputes the checksum of a segment's trailer only.
pub fn segment_trailer(bytes: &mut [u8]) -> Option<()> {
    let trailer = bytes.len().checked_sub(SEGMENT_TRAILER_BYTES)?;
    seal_at(bytes, trailer + 52, trailer..trailer + 52)
}

/// Recomputes both checksums of a state file.
pub fn state(bytes: &mut [u8]) -> Option<()> {
    seal_at(bytes, 56, STATE_HEADER_BYTES..bytes.len())?;
    seal_at(bytes, 60, 0..60)
}

/// Recomputes the header checksum and the page checksums of an index, and the checksum over them.
pub fn index(bytes: &mut [u8]) -> Option<()> {
    seal_at(bytes, 124, 0..124)?;
    let sum = bytes.len().checked_sub(4)?;
    let checks = sum.checked_sub(sum.div_ceil(PAGE_BYTES + 4) * 4)?;
    for (page, start) in (0..checks).step_by(PAGE_BYTES).enumerate() {
        seal_at(bytes, checks + page * 4, start..(start + PAGE_BYTES).min(checks))?;
    }
    seal_at(bytes, sum, checks..sum)
}

/// Returns a manifest whose first line is `line`.
pub fn manifest(line: &[u8]) -> Vec<u8> {
    let hash: String = Sha256::digest(line).iter().map(|byte| format!("{byte:02x}")).collect();
    [line, b"\nsha256 ", hash.as_bytes(), b"\n"].concat()
}

/// Returns the cells of a segment's column, by its number in format-spec/segment.md.
pub fn column(segment: &[u8], wanted: u16) -> Option<Range<usize>> {
    let trailer = segment.len().checked_sub(SEGMENT_TRAILER_BYTES)?;
    let (start, end) = (number(segment, trailer)?, number(segment, trailer + 16)?);
    let entry = segment.get(start..end)?.chunks_exact(32);
    let entry = entry.into_iter().find(|entry| entry[..2] == wanted.to_le_bytes())?;
    let at = number(entry, 8)?;
    Some(at..at.checked_add(number(entry, 16)?)?)
}

/// Recomputes the checksums of packed weights: those of the sections inside the file, of the directory, and of the
/// header.
pub fn weights(file: &mut [u8]) -> Option<()> {
    const HEADER_CRC: usize = 124;
    const DIRECTORY_CRC: usize = 100;
    const DIRECTORY: usize = 128;
    const ENTRY_BYTES: usize = 32;
    let sections = u32::from_le_bytes(file.get(96..100)?.try_into().ok()?) as usize;
    let directory = DIRECTORY..DIRECTORY + sections.checked_mul(ENTRY_BYTES)?;
    if directory.end <= file.len() {
        for entry in directory.clone().step_by(ENTRY_BYTES) {
            let start = number(file, entry + 8)?;
            if let Some(end) = start.checked_add(number(file, entry + 16)?) {
                // A section that overlaps the directory changes while checksums are written; its checksum stays wrong.
                let _outside = seal_at(file, entry + 4, start..end);
            }
        }
        seal_at(file, DIRECTORY_CRC, directory)?;
    }
    seal_at(file, HEADER_CRC, 0..HEADER_CRC)
}
