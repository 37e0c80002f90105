//! Reader of a log, for replay or beside the process that writes it.
//!
//! Distinguishes a torn end from damage to bytes that had been synced (log.md, Torn writes).

use std::io;

use super::frame::{FrameChecksum, FrameHead, HEAD_BYTES, HEADER_BYTES, HEADER_CRC, WalHeader};
use super::position::WalPosition;
use crate::byte_reader::ByteReader;
use crate::error::{CorruptionError, DiskError, OpenError};
use crate::ids::{Seq, StoreId};
use crate::layout::{self, FileKind};
use crate::limits::{LOG_BYTES_MAX, LOG_RESERVE_STEP};
use crate::manifest::READ_VERSION;
use crate::os::disk::Disk;

/// Largest log file: a closing mark, or reserved space after the last frame, may exceed `LOG_BYTES_MAX`.
pub(crate) const WAL_FILE_BYTES_MAX: u64 = LOG_BYTES_MAX + LOG_RESERVE_STEP;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) seq: Seq,
    pub(crate) payload: &'a [u8],
    pub(crate) records: u32,
    /// Format version of the log and its records.
    pub(crate) version: u16,
}

/// State of a log's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalEnd {
    /// The last frame is complete, followed by at most reserved space.
    Clean,
    /// A closing mark follows the last frame: the writer closed the log.
    Closed,
    /// Remains of a write that was never acknowledged follow the last frame.
    Torn,
    /// Bytes follow the last frame that may be a frame which another process is writing.
    Growing,
}

/// Bytes of a log, read whole or from a position on. Frames are read in place.
#[derive(Debug)]
pub(crate) struct WalReader {
    name: String,
    number: u64,
    is_named: bool,
    bytes: Vec<u8>,
    /// Bytes after the header that were not read.
    skipped: u64,
}

impl WalReader {
    /// Reads log `number`. If a manifest lists the log (`is_named`), it must have a header.
    pub(crate) fn open(disk: &dyn Disk, number: u64, is_named: bool) -> Result<Self, OpenError> {
        let bytes = disk.read(&layout::file_name(FileKind::Log, number), WAL_FILE_BYTES_MAX)?;
        Ok(Self::from_bytes(bytes, number, is_named))
    }

    pub(super) fn from_bytes(bytes: Vec<u8>, number: u64, is_named: bool) -> Self {
        Self { name: layout::file_name(FileKind::Log, number), number, is_named, bytes, skipped: 0 }
    }

    /// Reads the rest of a log that was read up to `mark` before: its header, and all bytes after the position.
    pub(crate) fn open_after(disk: &dyn Disk, mark: &WalPosition) -> Result<Self, OpenError> {
        let name = layout::file_name(FileKind::Log, mark.log);
        let file = disk.open(&name)?;
        let (header, skipped) = (HEADER_BYTES as u64, mark.end - HEADER_BYTES as u64);
        let length = file.bytes();
        let Some(behind) = length.checked_sub(mark.end) else {
            let detail = format!("{length} bytes long, it was {} long before", mark.end);
            return Err(CorruptionError::new("LOG-04", detail).in_file(&name).into());
        };
        let wanted = usize::try_from(header + behind).ok();
        let wanted = wanted.filter(|_| length <= WAL_FILE_BYTES_MAX).ok_or_else(|| {
            let why = format!("{length} bytes, at most {WAL_FILE_BYTES_MAX} are allowed");
            DiskError::new("read", &name, io::Error::new(io::ErrorKind::FileTooLarge, why))
        })?;
        let mut bytes = vec![0; wanted];
        file.read_at(0, &mut bytes[..HEADER_BYTES])?;
        file.read_at(mark.end, &mut bytes[HEADER_BYTES..])?;
        Ok(Self { skipped, ..Self::from_bytes(bytes, mark.log, true) })
    }

    /// Number of the log.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes that were read: the whole file, or the header and the rest after [`Self::open_after`].
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Length of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.bytes.len() as u64 + self.skipped
    }

    /// Returns the frames of a log without a running writer. `first_seq` is the required first commit.
    pub(crate) fn frames(&self, store: StoreId, first_seq: Seq) -> Result<Frames<'_>, OpenError> {
        self.frames_of(store, first_seq, first_seq, false)
    }

    /// As [`Self::frames`], for a log that another process may be writing: an incomplete end is no damage.
    pub(crate) fn frames_while_growing(
        &self,
        store: StoreId,
        first_seq: Seq,
    ) -> Result<Frames<'_>, OpenError> {
        self.frames_of(store, first_seq, first_seq, true)
    }

    /// As [`Self::frames_while_growing`], for a log that was [read after](Self::open_after) a position.
    pub(crate) fn frames_after(
        &self,
        store: StoreId,
        mark: &WalPosition,
    ) -> Result<Frames<'_>, OpenError> {
        self.frames_of(store, mark.first_seq, mark.seq + 1, true)
    }

    fn frames_of(
        &self,
        store: StoreId,
        first_seq: Seq,
        next_seq: Seq,
        is_growing: bool,
    ) -> Result<Frames<'_>, OpenError> {
        // The header is synced before the first frame is written. So a file no longer than a header never had a frame,
        // and a power cut may have kept the file's length without its bytes.
        let is_empty = !self.is_named && self.bytes.len() <= HEADER_BYTES;
        let version = if is_empty { READ_VERSION } else { self.check_header(store, first_seq)? };
        let check = if version == 1 {
            FrameChecksum::Unplaced
        } else {
            FrameChecksum::placed(store, self.number)
        };
        let (check, at) = (check.with_skipped(self.skipped), HEADER_BYTES);
        Ok(Frames { log: self, version, check, at, next_seq, is_growing, end: None })
    }

    /// Checks the header: first the magic, then checksum, version and the remaining fields. Returns the log's version.
    fn check_header(&self, store: StoreId, first_seq: Seq) -> Result<u16, OpenError> {
        let wrong = |detail: &str| self.damage("LOG-01", detail);
        let Some(found) = self.bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(wrong("shorter than its header"));
        };
        if !found.starts_with(layout::LOG_MAGIC) {
            return Err(wrong("the magic is missing"));
        }
        let crc = crc32c::crc32c(&found[..HEADER_CRC]).to_le_bytes();
        if found[HEADER_CRC..] != crc {
            return Err(wrong("the header's checksum is wrong"));
        }
        let mut fields = ByteReader::new(&found[layout::LOG_MAGIC.len()..], "LOG-01");
        let (read_version, write_version) = (fields.u16()?, fields.u16()?);
        if read_version > READ_VERSION {
            return Err(OpenError::TooNew { file: self.name.clone(), version: read_version });
        }
        if read_version == 0 {
            return Err(wrong("there is no version 0"));
        }
        let number = self.number;
        let expected = WalHeader { read_version, write_version, store, number, first_seq };
        if expected.encode() == *found {
            return Ok(read_version);
        }
        let first = u64::from_le_bytes(found[40..48].try_into().expect("eight bytes"));
        if (WalHeader { first_seq: first, ..expected }).encode() == *found {
            let detail = format!("starts at commit {first}, {first_seq} is due");
            return Err(self.damage("LOG-03", detail));
        }
        Err(wrong("it belongs to another store or place, or a reserved byte is not zero"))
    }

    fn damage(&self, rule: &'static str, detail: impl Into<String>) -> OpenError {
        CorruptionError::new(rule, detail).in_file(&self.name).into()
    }
}

/// Iterator over the frames of a log.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    log: &'a WalReader,
    version: u16,
    check: FrameChecksum,
    /// End of the last returned frame.
    at: usize,
    /// Commit that the next frame must have.
    next_seq: Seq,
    is_growing: bool,
    end: Option<WalEnd>,
}

impl<'a> Frames<'a> {
    /// Returns the next complete frame; `None` at the end.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame<'a>>, OpenError> {
        if self.end.is_some() {
            return Ok(None);
        }
        let (bytes, at) = (&self.log.bytes, self.at);
        let whole = self.check.decode_head(bytes, at).and_then(|head| {
            let payload = self.check.checked_payload(bytes, at, &head)?;
            Some((head, payload))
        });
        let Some((head, payload)) = whole else {
            self.end = Some(self.end_without_mark()?);
            return Ok(None);
        };
        if self.version > 1 {
            let at = self.at();
            if head.synced_bytes > at {
                let detail = format!("the frame at byte {at} says that it is on disk itself");
                return Err(self.log.damage("LOG-06", detail));
            }
            if head.records == 0 && payload.is_empty() {
                self.end_with_mark(&head)?;
                return Ok(None);
            }
        }
        if head.seq != self.next_seq {
            let (due, at) = (self.next_seq, self.at());
            let detail = format!("commit {} where {due} was due, at byte {at}", head.seq);
            return Err(self.log.damage("LOG-02", detail));
        }
        self.at += head.frame_bytes();
        self.next_seq += 1;
        let version = self.version;
        Ok(Some(Frame { seq: head.seq, payload, records: head.records, version }))
    }

    /// State of the log's end; `None` before [`Self::next_frame`] has reached the end.
    pub(crate) fn end(&self) -> Option<WalEnd> {
        self.end
    }

    /// Offset in the file after the last returned frame.
    pub(crate) fn at(&self) -> u64 {
        self.at as u64 + self.log.skipped
    }

    fn end_with_mark(&mut self, mark: &FrameHead) -> Result<(), OpenError> {
        let (at, next_seq) = (self.at(), self.next_seq);
        if mark.seq.checked_add(1) != Some(next_seq) {
            let detail =
                format!("the mark at byte {at} is of commit {}, {next_seq} was due next", mark.seq);
            return Err(self.log.damage("LOG-07", detail));
        }
        if !is_zero(&self.log.bytes[self.at + HEAD_BYTES..]) {
            let detail = format!("something follows the mark at byte {at}");
            return Err(self.log.damage("LOG-07", detail));
        }
        self.end = Some(WalEnd::Closed);
        Ok(())
    }

    fn end_without_mark(&self) -> Result<WalEnd, OpenError> {
        let rest = self.log.bytes.get(self.at..).unwrap_or_default();
        if is_zero(rest) {
            return Ok(WalEnd::Clean);
        }
        if self.is_growing {
            return Ok(WalEnd::Growing);
        }
        match self.later_head() {
            None => Ok(WalEnd::Torn),
            Some(later) => {
                let detail = format!(
                    "byte {} was on disk when commit {} was written, and is wrong now",
                    self.at, later.seq
                );
                Err(self.log.damage("LOG-04", detail))
            }
        }
    }

    /// Finds a later head that was written when the byte at the end of the frames had been synced. In version 2 each
    /// byte is examined once, whatever the payloads contain.
    fn later_head(&self) -> Option<FrameHead> {
        let (bytes, torn_at) = (&self.log.bytes, self.at);
        let seqs = (bytes.len() / HEAD_BYTES) as u64; // no log has more frames
        let last_start = bytes.len().checked_sub(HEAD_BYTES)?;
        let start = match (self.check, self.check.decode_head(bytes, torn_at)) {
            // The head is valid and only its payload is damaged, so the payload cannot contain frames of the log.
            (FrameChecksum::Placed { .. }, Some(head)) if head.seq == self.next_seq => {
                torn_at + head.frame_bytes()
            }
            _ => torn_at + 1,
        };
        (start..=last_start).find_map(|at| {
            // Cheap test first: nearly every offset fails it, without a checksum.
            let number = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes);
            let (seq, synced) = (number(at + 8).ok()?, number(at + 16).ok()?);
            let is_later = seq.checked_sub(self.next_seq).is_some_and(|step| step <= seqs);
            if !is_later || synced <= torn_at as u64 || synced > at as u64 {
                return None;
            }
            let head = self.check.decode_head(bytes, at)?;
            match self.check {
                FrameChecksum::Placed { .. } => Some(head),
                // The version 1 checksum covers the whole frame.
                FrameChecksum::Unplaced => {
                    self.check.checked_payload(bytes, at, &head).map(|_| head)
                }
            }
        })
    }
}

/// Tests chunks with a branch-free fold: the reserved space after the frames is about 1 MiB, and every open reads all
/// of it.
fn is_zero(bytes: &[u8]) -> bool {
    const PIECE_BYTES: usize = 4096;
    bytes.chunks(PIECE_BYTES).all(|piece| piece.iter().fold(0, |any, byte| any | byte) == 0)
}
