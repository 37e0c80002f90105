//! All tables as one file of sealed frames: written for a full record, and read to load one.
//!
//! The last frame is marked as the last, so that a truncated file is detected.

use engine::os::clock::Random;
use engine::os::disk::{Disk, DiskFile, DiskRead, FsDisk};
use zeroize::Zeroizing;

use super::sealed::{FRAME_BYTES_MAX, Seals, Stands};
use recalld_metastore::{
    ControlError, KEY_BYTES_MAX, Operation, Operations, RECORD_BYTES_MAX, parse,
};

/// Bytes of operations at which a frame is written.
const FRAME_BYTES_WANTED: usize = 1 << 20;
const FRESH: &str = "tables.new";

const MORE: u8 = 0;
const LAST: u8 = 1;

/// Writer of a tables file.
pub(super) struct Writing<'a> {
    seals: &'a Seals,
    random: &'a dyn Random,
    file: Box<dyn DiskFile>,
    seq: u64,
    parts: u64,
    rows: Operations,
}

/// Creates an empty tables file; removes the remains of an earlier one.
pub(super) fn fresh(disk: &FsDisk) -> Result<Box<dyn DiskFile>, String> {
    let failed = |error: engine::DiskError| error.to_string();
    if disk.names().map_err(failed)?.iter().any(|name| name == FRESH) {
        disk.remove(FRESH).map_err(failed)?;
    }
    disk.create(FRESH).map_err(failed)
}

/// Opens the written tables file for reading.
pub(super) fn written(disk: &FsDisk) -> Result<Box<dyn DiskRead>, String> {
    disk.open(FRESH).map_err(|error| error.to_string())
}

/// Removes the tables file.
pub(super) fn forget(disk: &FsDisk) {
    let _gone_or_replaced_by_the_next = disk.remove(FRESH);
}

impl<'a> Writing<'a> {
    pub(super) fn begin(
        disk: &FsDisk,
        seq: u64,
        (seals, random): (&'a Seals, &'a dyn Random),
    ) -> Result<Self, String> {
        Ok(Self { seals, random, file: fresh(disk)?, seq, parts: 0, rows: Operations::default() })
    }

    pub(super) fn row(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.rows.push(table, key, Some(value));
        if self.rows.bytes().len() < FRAME_BYTES_WANTED { Ok(()) } else { self.part(MORE) }
    }

    pub(super) fn end(mut self) -> Result<(), String> {
        self.part(LAST)?;
        self.file.sync().map_err(|error| error.to_string())
    }

    fn part(&mut self, is_last: u8) -> Result<(), String> {
        let rows = std::mem::take(&mut self.rows);
        let mut bytes = Zeroizing::new(Vec::with_capacity(1 + rows.bytes().len()));
        bytes.push(is_last);
        bytes.extend_from_slice(rows.bytes());
        let frame = self.seals.seal(Stands::Tables(self.seq, self.parts), &bytes, self.random)?;
        self.parts += 1;
        self.file.append(&frame).map_err(|error| error.to_string())
    }
}

/// Reader of a tables file.
pub(super) struct Reading<'a> {
    seals: &'a Seals,
    file: &'a dyn DiskRead,
    seq: u64,
    at: u64,
    parts: u64,
    is_over: bool,
}

impl<'a> Reading<'a> {
    pub(super) fn begin(file: &'a dyn DiskRead, seq: u64, seals: &'a Seals) -> Self {
        Self { seals, file, seq, at: 0, parts: 0, is_over: false }
    }

    /// Next rows; `None` after the last frame.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Operation>>, ControlError> {
        if self.is_over {
            return Ok(None);
        }
        let failed =
            |why: String| ControlError::unavailable(format!("the tables of a full record: {why}"));
        let frame = self.frame().map_err(failed)?;
        let opened = self.seals.open(Stands::Tables(self.seq, self.parts), &mut &frame[..]);
        let opened = opened.map_err(failed)?;
        self.parts += 1;
        let (&is_last, rows) =
            opened.split_first().ok_or_else(|| failed("a part is empty".to_owned()))?;
        self.is_over = is_last == LAST;
        if self.is_over && self.at != self.file.bytes() {
            return Err(failed("there is more behind the last part".to_owned()));
        }
        parse(rows).map(Some)
    }

    fn frame(&mut self) -> Result<Vec<u8>, String> {
        let disk = |error: engine::DiskError| error.to_string();
        let left = self.file.bytes().saturating_sub(self.at);
        let mut length = [0; 4];
        if left < length.len() as u64 {
            return Err("it is cut off".to_owned());
        }
        self.file.read_at(self.at, &mut length).map_err(disk)?;
        let bytes = length.len() as u64 + u64::from(u32::from_le_bytes(length));
        let whole = usize::try_from(bytes).ok().filter(|whole| *whole <= FRAME_BYTES_MAX);
        let whole = whole.filter(|_| bytes <= left).ok_or("it is cut off")?;
        let mut frame = vec![0; whole];
        self.file.read_at(self.at, &mut frame).map_err(disk)?;
        self.at += bytes;
        Ok(frame)
    }
}

const _: () =
    assert!(FRAME_BYTES_WANTED + KEY_BYTES_MAX + RECORD_BYTES_MAX + 1024 < FRAME_BYTES_MAX);
