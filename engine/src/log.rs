//! The write-ahead log: append, sync, replay (`format-spec/log.md`).
//!
//! Owns frames and their checksums; does not know what a payload means.

use crate::cursor::{Cursor, Put};
use crate::error::{Damage, DiskError, OpenError};
use crate::ids::{Seq, StoreId};
use crate::layout::{self, FileKind};
use crate::limits::{FRAME_BYTES_MAX, LOG_BYTES_MAX};
use crate::os::disk::{Disk, DiskFile};

const HEADER_BYTES: usize = 64;
const HEAD_BYTES: usize = 32;

/// Whether an acknowledged write has reached the disk, or only the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Synced before it is acknowledged: survives a power cut.
    #[default]
    Sync,
    /// Written but not synced by the write itself: survives the end of the process.
    Written,
}

/// A log open for appending.
#[derive(Debug)]
pub(crate) struct LogWriter {
    file: Box<dyn DiskFile>,
    bytes: u64,
    synced_bytes: u64,
}

impl LogWriter {
    /// A new log whose first frame will be `first_seq`.
    pub(crate) fn create(
        disk: &dyn Disk,
        store: StoreId,
        number: u64,
        first_seq: Seq,
    ) -> Result<Self, DiskError> {
        let file = disk.create(&layout::name(FileKind::Log, number))?;
        file.append(&header(store, number, first_seq))?;
        file.sync()?;
        disk.sync_names()?;
        let bytes = HEADER_BYTES as u64;
        Ok(Self { file, bytes, synced_bytes: bytes })
    }

    /// Length of the file so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends one frame, and with [`Durability::Sync`] waits for the disk.
    pub(crate) fn append(
        &mut self,
        seq: Seq,
        payload: &[u8],
        records: u32,
        durability: Durability,
    ) -> Result<(), DiskError> {
        let mut frame = Vec::with_capacity(HEAD_BYTES + payload.len());
        let length = u32::try_from(payload.len()).expect("the caller keeps to FRAME_BYTES_MAX");
        frame.put(&length.to_le_bytes());
        frame.put(&[0; 4]);
        frame.put(&seq.to_le_bytes());
        frame.put(&self.synced_bytes.to_le_bytes());
        frame.put(&records.to_le_bytes());
        frame.put(&[0; 4]);
        frame.put(payload);
        let crc = crc32c::crc32c(&frame[8..]);
        frame[4..8].copy_from_slice(&crc.to_le_bytes());
        self.file.append(&frame)?;
        self.bytes += frame.len() as u64;
        if durability == Durability::Sync {
            self.sync()?;
        }
        Ok(())
    }

    pub(crate) fn sync(&mut self) -> Result<(), DiskError> {
        if self.synced_bytes < self.bytes {
            self.file.sync()?;
            self.synced_bytes = self.bytes;
        }
        Ok(())
    }
}

fn header(store: StoreId, number: u64, first_seq: Seq) -> [u8; HEADER_BYTES] {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.put(layout::LOG_MAGIC);
    header.put(&layout::READ_VERSION.to_le_bytes());
    header.put(&layout::WRITE_VERSION.to_le_bytes());
    header.put(&[0; 4]);
    header.put(&store.0.to_le_bytes());
    header.put(&number.to_le_bytes());
    header.put(&first_seq.to_le_bytes());
    header.put(&[0; 12]);
    header.put(&crc32c::crc32c(&header).to_le_bytes());
    header.try_into().expect("the fields above are 64 bytes")
}

/// Bytes that a frame of this payload adds to a log.
pub(crate) fn frame_bytes(payload: &[u8]) -> u64 {
    (HEAD_BYTES + payload.len()) as u64
}

/// One frame of a log that is being replayed.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) seq: Seq,
    pub(crate) payload: &'a [u8],
    pub(crate) records: u32,
}

/// A log's bytes, read whole.
pub(crate) struct LogReader {
    name: String,
    bytes: Vec<u8>,
}

impl LogReader {
    pub(crate) fn open(disk: &dyn Disk, number: u64) -> Result<Self, OpenError> {
        let name = layout::name(FileKind::Log, number);
        Ok(Self { bytes: disk.read(&name, LOG_BYTES_MAX)?, name })
    }

    /// Length of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The whole frames, in order. `next_seq` is the commit that must come first. The header is
    /// synced before the first frame is written, so a file no longer than it never had one, and
    /// a power cut may have left its length without its bytes.
    pub(crate) fn frames(
        &self,
        store: StoreId,
        number: u64,
        next_seq: Seq,
    ) -> Result<Vec<Frame<'_>>, OpenError> {
        if self.bytes.len() <= HEADER_BYTES {
            return Ok(Vec::new());
        }
        self.check_header(store, number, next_seq)?;
        let mut frames = Vec::new();
        let mut at = HEADER_BYTES;
        let mut seq = next_seq;
        while let Some((frame, length)) = whole_frame(&self.bytes, at) {
            if frame.seq != seq {
                let detail = format!("commit {} where {seq} was due, at byte {at}", frame.seq);
                return Err(Damage::new("LOG-02", detail).within(&self.name).into());
            }
            frames.push(frame);
            seq += 1;
            at += length;
        }
        self.check_torn(at, seq)?;
        Ok(frames)
    }

    fn check_header(&self, store: StoreId, number: u64, next_seq: Seq) -> Result<(), OpenError> {
        let damage = |rule, detail: String| Damage::new(rule, detail).within(&self.name);
        let mut cursor = Cursor::new(&self.bytes, "LOG-01");
        let found: [u8; HEADER_BYTES] = cursor.array().map_err(|d| d.within(&self.name))?;
        let mut fields = Cursor::new(&found, "LOG-01");
        let magic: [u8; 8] = fields.array()?;
        if &magic != layout::LOG_MAGIC {
            return Err(damage("LOG-01", "the magic is missing".to_owned()).into());
        }
        let version = fields.u16()?;
        if version > layout::READ_VERSION {
            return Err(OpenError::TooNew { file: self.name.clone(), version });
        }
        let expected = header(store, number, next_seq);
        if found == expected {
            return Ok(());
        }
        let crc = u32::from_le_bytes(found[60..].try_into().expect("four bytes"));
        if crc != crc32c::crc32c(&found[..60]) {
            return Err(damage("LOG-01", "the header's checksum is wrong".to_owned()).into());
        }
        let first_seq = u64::from_le_bytes(found[40..48].try_into().expect("eight bytes"));
        if first_seq != next_seq {
            let detail = format!("starts at commit {first_seq}, {next_seq} is due");
            return Err(damage("LOG-03", detail).into());
        }
        Err(damage("LOG-01", "it belongs to another store or place".to_owned()).into())
    }

    /// Tells a torn tail from damage to bytes that had been synced (log.md, Torn writes).
    fn check_torn(&self, torn_at: usize, next_seq: Seq) -> Result<(), OpenError> {
        for at in torn_at + 1..self.bytes.len().saturating_sub(HEAD_BYTES - 1) {
            let seq = u64::from_le_bytes(self.bytes[at + 8..at + 16].try_into().expect("eight"));
            if seq <= next_seq || seq - next_seq > (self.bytes.len() / HEAD_BYTES) as u64 {
                continue; // cheap: nearly every position ends here, without a checksum
            }
            let synced =
                u64::from_le_bytes(self.bytes[at + 16..at + 24].try_into().expect("eight"));
            if synced > torn_at as u64 && whole_frame(&self.bytes, at).is_some() {
                let detail = format!(
                    "byte {torn_at} was on disk when commit {seq} was written, and is wrong now"
                );
                return Err(Damage::new("LOG-04", detail).within(&self.name).into());
            }
        }
        Ok(())
    }
}

/// The frame at `at` and its whole length, if all of it is there and its checksum is right.
fn whole_frame(bytes: &[u8], at: usize) -> Option<(Frame<'_>, usize)> {
    let rest = bytes.get(at..)?;
    let mut head = Cursor::new(rest, "LOG-04");
    let length = head.u32().ok()? as usize;
    let crc = head.u32().ok()?;
    let seq = head.u64().ok()?;
    head.u64().ok()?;
    let records = head.u32().ok()?;
    let reserved = head.u32().ok()?;
    let payload = head.take(length).ok()?;
    let end = HEAD_BYTES + length;
    let right = length <= FRAME_BYTES_MAX && reserved == 0 && crc == crc32c::crc32c(&rest[8..end]);
    right.then_some((Frame { seq, payload, records }, end))
}
