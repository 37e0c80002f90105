//! A job: many parts of a store become one segment file, while others read and write.
//!
//! Owns the making of the file; who may take which parts, and what takes their place, is the
//! writer's. A job that fails leaves a file that nothing names, which the next opening removes.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::compact::Pace;
use crate::error::{Damage, DiskError, OpenError};
use crate::ids::Seq;
use crate::layout::{self, FileKind, UNFINISHED};
use crate::limits::JOB_PIECE_BYTES;
use crate::manifest::SegmentEntry;
use crate::merge::{Erased, RowMap, carry_states, merge_segments};
use crate::opening::open_part;
use crate::os::disk::Disk;
use crate::segment::Segment;
use crate::snapshot::Part;

/// What to read, and the number of the file to make.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) number: u64,
    /// Sealed parts, then the tail's where it is a flush.
    pub(crate) inputs: Vec<Part>,
    /// Numbers of the sealed ones.
    pub(crate) sealed: Vec<u64>,
    /// The newest commit when it began.
    pub(crate) last_seq: Seq,
}

/// A segment file that is on disk and that no manifest names yet.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) entry: SegmentEntry,
    segment: Arc<Segment>,
    rows: Vec<RowMap>,
}

/// Why a job made nothing.
#[derive(Debug)]
pub(crate) enum JobError {
    /// Its pace ended it.
    Cancelled,
    /// Something that it read is damaged.
    Damaged(Damage),
    /// The file could not be written.
    Disk(DiskError),
}

impl From<Damage> for JobError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<DiskError> for JobError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl Job {
    /// Whether the tail is among what it reads.
    pub(crate) fn has_tail(&self) -> bool {
        self.inputs.len() > self.sealed.len()
    }

    /// Makes the file, without the rows that are erased.
    pub(crate) fn run(
        &self,
        disk: &dyn Disk,
        erased: &Erased,
        pace: &dyn Pace,
    ) -> Result<Made, JobError> {
        let made = self.make(disk, erased, pace);
        if made.is_err() {
            let name = layout::name(FileKind::Segment, self.number);
            let _opening_removes_it = disk.remove(&format!("{name}{UNFINISHED}"));
        }
        made
    }

    fn make(&self, disk: &dyn Disk, erased: &Erased, pace: &dyn Pace) -> Result<Made, JobError> {
        let merged = merge_segments(&self.inputs, erased)?;
        let name = layout::name(FileKind::Segment, self.number);
        let fresh = format!("{name}{UNFINISHED}");
        let file = disk.create(&fresh)?;
        let bytes = merged.segment.raw();
        let mut hash = Sha256::new();
        for piece in bytes.chunks(JOB_PIECE_BYTES) {
            hash.update(piece);
            file.append(piece)?;
            if !pace.wrote(piece.len()) {
                return Err(JobError::Cancelled);
            }
        }
        file.sync()?;
        disk.rename(&fresh, &name)?;
        let entry = SegmentEntry::of(
            self.number,
            bytes.len() as u64,
            hash.finalize().into(),
            merged.segment.header(),
        );
        let opened = open_part(disk, &entry).map_err(|error| match error {
            OpenError::Disk(error) => JobError::Disk(error),
            OpenError::Damaged(damage) => JobError::Damaged(damage),
            other => JobError::Damaged(Damage::new("MAN-03", other.to_string()).within(&name)),
        })?;
        Ok(Made { entry, segment: opened.segment, rows: merged.rows })
    }
}

impl Made {
    /// The new part, with what has happened by now to the rows of those it was made of.
    pub(crate) fn part(&self, now: &[Part]) -> Part {
        let state = carry_states(&self.rows, now, &self.segment);
        Part { segment: Arc::clone(&self.segment), state: Arc::new(state) }
    }
}
