//! Checksums made right for bytes that a test has changed, as a fault of another program or a person
//! with a hex editor would leave them.

use std::ops::Range;

use sha2::{Digest, Sha256};

use crate::memory_disk::Files;
use crate::small_store::FRAME_HEAD_BYTES;

const FRAME_HEAD_CRC: usize = 28;
const PAGE_BYTES: usize = 64 << 10;
/// Bytes of a segment's trailer.
pub const SEGMENT_TRAILER_BYTES: usize = 64;

/// Puts the CRC-32C of a range of bytes at a place.
pub fn seal_at(bytes: &mut [u8], at: usize, covered: std::ops::Range<usize>) {
    let crc = crc32c::crc32c(&bytes[covered]);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// The `u64` at a place.
///
/// # Panics
/// When it is not one that was written here.
pub fn number(bytes: &[u8], at: usize) -> usize {
    let number = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    usize::try_from(number).expect("it was written here")
}

/// Makes page checks and trailer of a segment right for what it holds now.
pub fn reseal_segment(bytes: &mut [u8]) {
    let trailer = bytes.len() - SEGMENT_TRAILER_BYTES;
    let checks = number(bytes, trailer + 16);
    for (page, start) in (0..checks).step_by(PAGE_BYTES).enumerate() {
        seal_at(bytes, checks + page * 4, start..(start + PAGE_BYTES).min(checks));
    }
    seal_at(bytes, trailer + 28, checks..trailer);
    seal_at(bytes, trailer + 52, trailer..trailer + 52);
}

/// Makes the checksums of a state file right for what it holds now.
pub fn reseal_state(bytes: &mut [u8]) {
    seal_at(bytes, 56, 64..bytes.len());
    seal_at(bytes, 60, 0..60);
}

/// Makes the checksums of a log's frame right for what it holds now (log.md, Log).
pub fn reseal_frame(log: &mut [u8], frame: &Range<usize>) {
    let place = [&log[16..40], &(frame.start as u64).to_le_bytes()].concat();
    let place = crc32c::crc32c(&place);
    let frame = &mut log[frame.clone()];
    let head = crc32c::crc32c_append(place, &frame[8..FRAME_HEAD_CRC]);
    let crc = crc32c::crc32c_append(head, &frame[FRAME_HEAD_BYTES..]);
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c::crc32c_append(place, &frame[..FRAME_HEAD_CRC]);
    frame[FRAME_HEAD_CRC..FRAME_HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Makes the newest manifest right for the segments and states that are there now: lengths and
/// hashes, and its own.
///
/// # Panics
/// When there is no manifest.
pub fn reseal_manifest(files: &mut Files) {
    remake_manifest(files, |_| {});
}

/// The same, with other changes.
///
/// # Panics
/// When there is no manifest.
pub fn remake_manifest(files: &mut Files, change: impl FnOnce(&mut serde_json::Value)) {
    let name = files.keys().rfind(|name| name.starts_with("manifest-")).expect("a manifest");
    let name = name.clone();
    let text = String::from_utf8(files[&name].clone()).expect("it is text");
    let line = text.lines().next().expect("it has two lines");
    let mut manifest: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
    for entry in manifest["segments"].as_array_mut().expect("a list") {
        let segment = entry["number"].as_u64().expect("a number");
        let file = &files[&format!("segment-{segment:020}")];
        entry["bytes"] = file.len().into();
        entry["sha256"] = engine::hex(&Sha256::digest(file)).into();
        if let Some(generation) = entry["state"]["generation"].as_u64() {
            let file = &files[&format!("state-{segment:020}-{generation:020}")];
            entry["state"]["bytes"] = file.len().into();
            entry["state"]["sha256"] = engine::hex(&Sha256::digest(file)).into();
        }
    }
    change(&mut manifest);
    let line = manifest.to_string();
    let hash = engine::hex(&Sha256::digest(line.as_bytes()));
    files.insert(name, format!("{line}\nsha256 {hash}\n").into_bytes());
}
