//! Salvage of a damaged log: finds every intact frame by its checksums.
//!
//! Unlike a replay, the search continues after damage, so commits may be missing between two frames.

use super::frame::{FrameChecksum, HEAD_BYTES, HEADER_BYTES, HEADER_CRC};
use super::reader::Frame;
use crate::byte_reader::ByteReader;
use crate::ids::StoreId;
use crate::layout::LOG_MAGIC;
use crate::manifest::READ_VERSION;

/// Intact frames of a log, and the damaged ranges between them.
#[derive(Debug, Default)]
pub(crate) struct SalvagedFrames<'a> {
    pub(crate) frames: Vec<Frame<'a>>,
    /// Byte ranges (start, end) that are neither an intact frame nor zeros.
    pub(crate) damaged_ranges: Vec<(usize, usize)>,
}

/// Returns store and version from a log's header, if the header is intact.
fn header(bytes: &[u8]) -> Option<(StoreId, u16)> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let crc = crc32c::crc32c(&header[..HEADER_CRC]).to_le_bytes();
    if !header.starts_with(LOG_MAGIC) || header[HEADER_CRC..] != crc {
        return None;
    }
    let mut fields = ByteReader::new(&header[LOG_MAGIC.len()..], "LOG-01");
    let version = fields.u16().ok()?;
    fields.read_slice(6).ok()?;
    Some((StoreId(fields.u128().ok()?), version))
}

/// Finds the intact frames of log `number`. If the header is damaged, the log is read as one of `store` in our version.
/// Returns `None` if frames cannot be recognized: for a newer version, or an unknown store.
pub(crate) fn salvage_frames(
    bytes: &[u8],
    number: u64,
    store: Option<StoreId>,
) -> Option<SalvagedFrames<'_>> {
    let (store, version) = header(bytes).or(store.map(|store| (store, READ_VERSION)))?;
    let check = match version {
        1 => FrameChecksum::Unplaced,
        READ_VERSION => FrameChecksum::placed(store, number),
        _ => return None,
    };
    let mut pieces = SalvagedFrames::default();
    let mut at = HEADER_BYTES;
    let mut wrong_from = None;
    // Only reserved space follows the last nonzero byte.
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    while at < end {
        let Some(head) = check.decode_head(bytes, at).filter(|head| head.synced_bytes <= at as u64)
        else {
            wrong_from.get_or_insert(at);
            at += 1;
            continue;
        };
        let Some(payload) = check.checked_payload(bytes, at, &head) else {
            wrong_from.get_or_insert(at);
            // With a valid head, the payload cannot contain frames of the log, so the search skips it.
            at += if version == 1 { 1 } else { head.frame_bytes().max(HEAD_BYTES) };
            continue;
        };
        pieces.damaged_ranges.extend(wrong_from.take().map(|from| (from, at)));
        if head.records > 0 {
            let (seq, records) = (head.seq, head.records);
            pieces.frames.push(Frame { seq, payload, records, version });
        }
        at += head.frame_bytes();
    }
    pieces.damaged_ranges.extend(wrong_from.map(|from| (from, end)));
    Some(pieces)
}
