//! Byte layout of a log: its header, the heads of its frames, and the seeds of their checksums.
//!
//! Mirrors the tables of `format-spec/log.md`; files and the order of frames are handled elsewhere.

use crate::byte_reader::{ByteReader, ByteWriter};
use crate::ids::{Seq, StoreId};
use crate::layout::LOG_MAGIC;
use crate::limits::FRAME_BYTES_MAX;

pub(super) const HEADER_BYTES: usize = 64;
/// Offset of the header's `crc`, in every version.
pub(super) const HEADER_CRC: usize = 60;
pub(super) const HEAD_BYTES: usize = 32;
/// Offset of a frame's `head_crc`; reserved in version 1.
const HEAD_CRC: usize = 28;
const CRC: usize = 4;

/// Bytes that a frame with this payload adds to a log.
pub(crate) fn frame_bytes(payload: &[u8]) -> u64 {
    (HEAD_BYTES + payload.len()) as u64
}

/// Header of a log, without checksum and magic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WalHeader {
    pub(super) read_version: u16,
    pub(super) write_version: u16,
    pub(super) store: StoreId,
    pub(super) number: u64,
    pub(super) first_seq: Seq,
}

impl WalHeader {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.put(LOG_MAGIC);
        header.put(&self.read_version.to_le_bytes());
        header.put(&self.write_version.to_le_bytes());
        header.put(&[0; 4]);
        header.put(&self.store.0.to_le_bytes());
        header.put(&self.number.to_le_bytes());
        header.put(&self.first_seq.to_le_bytes());
        header.put(&[0; 12]);
        header.put(&crc32c::crc32c(&header).to_le_bytes());
        header.try_into().expect("the fields above are 64 bytes")
    }
}

/// Head of a frame, with a valid checksum in version 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) payload_bytes: usize,
    crc: u32,
    pub(super) seq: Seq,
    pub(super) synced_bytes: u64,
    pub(super) records: u32,
}

impl FrameHead {
    /// Bytes of head and payload.
    pub(super) fn frame_bytes(&self) -> usize {
        HEAD_BYTES + self.payload_bytes
    }
}

/// Checksum scheme of a log's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameChecksum {
    /// Version 1: one checksum for head and payload.
    Unplaced,
    /// Version 2: the head has a checksum of its own, and both checksums start from the frame's position.
    Placed {
        /// Checksum of store and log number: the common seed of all positions.
        log: u32,
        /// Bytes of the log that are missing from the examined bytes.
        skipped: u64,
    },
}

impl FrameChecksum {
    pub(super) fn placed(store: StoreId, number: u64) -> Self {
        let store = crc32c::crc32c(&store.0.to_le_bytes());
        Self::Placed { log: crc32c::crc32c_append(store, &number.to_le_bytes()), skipped: 0 }
    }

    /// Adjusts the positions for examined bytes that lack `bytes` bytes of the log after its header.
    pub(super) fn with_skipped(self, bytes: u64) -> Self {
        match self {
            Self::Unplaced => self,
            Self::Placed { log, .. } => Self::Placed { log, skipped: bytes },
        }
    }

    /// Decodes the head at offset `at`; in version 2 its checksum must match.
    pub(super) fn decode_head(self, bytes: &[u8], at: usize) -> Option<FrameHead> {
        let head: &[u8; HEAD_BYTES] = bytes.get(at..)?.first_chunk()?;
        let mut fields = ByteReader::new(head, "LOG-04");
        let payload_bytes = fields.u32().ok()? as usize;
        let crc = fields.u32().ok()?;
        let seq = fields.u64().ok()?;
        let synced_bytes = fields.u64().ok()?;
        let records = fields.u32().ok()?;
        let wanted = match self {
            Self::Unplaced => 0, // the bytes are reserved
            Self::Placed { log, skipped } => head_crc(place_seed(log, at as u64 + skipped), head),
        };
        let right = fields.u32().ok()? == wanted && payload_bytes <= FRAME_BYTES_MAX;
        right.then_some(FrameHead { payload_bytes, crc, seq, synced_bytes, records })
    }

    /// Returns the payload of `head`, which is at offset `at`, if the frame is complete and its checksum matches.
    pub(super) fn checked_payload<'a>(
        self,
        bytes: &'a [u8],
        at: usize,
        head: &FrameHead,
    ) -> Option<&'a [u8]> {
        let frame = bytes.get(at..)?.get(..head.frame_bytes())?;
        let crc = match self {
            Self::Unplaced => crc32c::crc32c(&frame[8..]),
            Self::Placed { log, skipped } => frame_crc(place_seed(log, at as u64 + skipped), frame),
        };
        (crc == head.crc).then_some(&frame[HEAD_BYTES..])
    }

    /// Encodes a version 2 frame for offset `at`.
    pub(super) fn encode_frame(
        self,
        at: u64,
        seq: Seq,
        synced_bytes: u64,
        records: u32,
        payload: &[u8],
    ) -> Vec<u8> {
        let Self::Placed { log, .. } = self else {
            unreachable!("logs of version 1 are only read")
        };
        let length = u32::try_from(payload.len()).expect("the caller keeps to FRAME_BYTES_MAX");
        let mut frame = Vec::with_capacity(HEAD_BYTES + payload.len());
        frame.put(&length.to_le_bytes());
        frame.put(&[0; 4]);
        frame.put(&seq.to_le_bytes());
        frame.put(&synced_bytes.to_le_bytes());
        frame.put(&records.to_le_bytes());
        frame.put(&[0; 4]);
        frame.put(payload);
        let place = place_seed(log, at);
        let crc = frame_crc(place, &frame);
        frame[CRC..8].copy_from_slice(&crc.to_le_bytes());
        let crc = head_crc(place, &frame);
        frame[HEAD_CRC..HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
        frame
    }
}

/// Checksum seed of the frame at offset `at`.
fn place_seed(log: u32, at: u64) -> u32 {
    crc32c::crc32c_append(log, &at.to_le_bytes())
}

fn head_crc(place: u32, frame: &[u8]) -> u32 {
    crc32c::crc32c_append(place, &frame[..HEAD_CRC])
}

fn frame_crc(place: u32, frame: &[u8]) -> u32 {
    let head = crc32c::crc32c_append(place, &frame[8..HEAD_CRC]);
    crc32c::crc32c_append(head, &frame[HEAD_BYTES..])
}
