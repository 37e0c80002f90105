//! A job: many parts of a store become one segment file, while others read and write.
//!
//! Owns the making of the file; who may take which parts, and what takes their place, is the
//! writer's. A job that fails removes what it made; a name that stays is the writer's to remove, since
//! it may hold rows that are erased later.

use std::sync::Arc;

use crate::error::{Damage, DiskError, OpenError, WriteError};
use crate::ids::Seq;
use crate::layout::{self, FileKind, UNFINISHED};
use crate::manifest::SegmentEntry;
use crate::merge::{Embeddings, Erased, MergeError, Merged, merge_to, with_embeddings};
use crate::os::disk::{Disk, DiskFile};
use crate::pace::Pace;
use crate::part::Part;
use crate::segment::{FileSink, Segment};
use crate::store::opening::open_segment;

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
    merged: Merged,
}

/// What the new segment has of the rows that are read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    /// All that are not erased.
    Without(&'a Erased),
    /// All of one part, with other embeddings.
    With(&'a Embeddings),
}

/// Why a job made nothing.
#[derive(Debug)]
pub(crate) enum JobError {
    /// Its pace ended it.
    Cancelled,
    /// Something that it read is damaged.
    Damaged(Damage),
    /// Something that it reads is not here yet, and did not come.
    Away(Damage),
    /// The rows do not fit one segment.
    TooLarge(String),
    /// The file could not be written.
    Disk(DiskError),
    /// The names of the directory could not be synced. That is final: those that the writer made
    /// before may be lost with them.
    Names(DiskError),
}

impl JobError {
    /// What is to be said of a job that was nobody's write; `None` if it was called off.
    pub(crate) fn told(self) -> Option<WriteError> {
        match self {
            Self::Cancelled => None,
            Self::Damaged(damage) | Self::Away(damage) => Some(damage.into()),
            Self::TooLarge(why) => Some(WriteError::refused("segments", why)),
            Self::Disk(error) => Some(WriteError::postponed(&error)),
            Self::Names(error) => Some(WriteError::Disk(error)),
        }
    }
}

impl From<Damage> for JobError {
    fn from(damage: Damage) -> Self {
        if damage.is_away() { Self::Away(damage) } else { Self::Damaged(damage) }
    }
}

impl From<DiskError> for JobError {
    fn from(error: DiskError) -> Self {
        if is_cancelled(&error) { Self::Cancelled } else { Self::Disk(error) }
    }
}

impl From<MergeError> for JobError {
    fn from(error: MergeError) -> Self {
        match error {
            MergeError::Damaged(damage) => damage.into(),
            MergeError::TooLarge(why) => Self::TooLarge(why),
            MergeError::Disk(error) => error.into(),
            MergeError::Cancelled => Self::Cancelled,
        }
    }
}

/// A file that is written no faster than its pace allows.
struct Paced<'a> {
    file: Box<dyn DiskFile>,
    pace: &'a dyn Pace,
}

impl std::fmt::Debug for Paced<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}

/// What a pace that ends a job says through the file.
#[derive(Debug)]
struct Ended;

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "it was called off")
    }
}

impl std::error::Error for Ended {}

fn is_cancelled(error: &DiskError) -> bool {
    error.source.get_ref().is_some_and(|source| source.is::<Ended>())
}

impl DiskFile for Paced<'_> {
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.append(bytes)?;
        if self.pace.wrote(bytes.len()) {
            return Ok(());
        }
        Err(DiskError::new("write", "a segment", std::io::Error::other(Ended)))
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.file.sync()
    }

    fn reserve(&self, bytes: u64) -> Result<(), DiskError> {
        self.file.reserve(bytes)
    }
}

impl Job {
    /// Whether the tail is among what it reads.
    pub(crate) fn has_tail(&self) -> bool {
        self.inputs.len() > self.sealed.len()
    }

    /// Makes the file.
    pub(crate) fn run(
        &self,
        disk: &dyn Disk,
        content: Content<'_>,
        pace: &dyn Pace,
    ) -> Result<Made, JobError> {
        let made = self.make(disk, content, pace);
        if made.is_err() {
            for name in self.names() {
                let _writer_tries_again = disk.remove(&name);
            }
        }
        made
    }

    /// What its file is named, and what while it is written.
    pub(crate) fn names(&self) -> [String; 2] {
        let name = layout::name(FileKind::Segment, self.number);
        [format!("{name}{UNFINISHED}"), name]
    }

    fn make(
        &self,
        disk: &dyn Disk,
        content: Content<'_>,
        pace: &dyn Pace,
    ) -> Result<Made, JobError> {
        let [fresh, name] = self.names();
        // All of it is read, in an order of its own.
        self.inputs.iter().try_for_each(|part| part.segment.whole().map(drop))?;
        let file = Paced { file: disk.create(&fresh)?, pace };
        let mut sink = FileSink::new(&file, pace);
        let segments: Vec<_> = self.inputs.iter().map(|part| Arc::clone(&part.segment)).collect();
        segments.iter().for_each(|segment| segment.expect_copying());
        let merged = match content {
            Content::Without(erased) => merge_to(&segments, erased, &mut sink),
            Content::With(embeddings) => {
                let [segment] = &*segments else { unreachable!("embeddings are of one segment") };
                with_embeddings(segment, embeddings, &mut sink)
            }
        };
        // Questions go on coming to them until the new one is in their place.
        segments.iter().for_each(|segment| segment.expect_questions());
        let merged = merged?;
        let sha256 = sink.finish()?;
        file.sync()?;
        disk.rename(&fresh, &name)?;
        // The manifest that names it must not be on disk before the name is.
        disk.sync_names().map_err(JobError::Names)?;
        let entry = SegmentEntry::of(self.number, merged.bytes, sha256, &merged.header);
        let opened = open_segment(disk, &entry).map_err(|error| match error {
            OpenError::Disk(error) => JobError::Disk(error),
            OpenError::Damaged(damage) => damage.into(),
            other => JobError::Damaged(Damage::new("MAN-03", other.to_string()).within(&name)),
        })?;
        Ok(Made { entry, segment: Arc::new(opened.segment), merged })
    }
}

impl Made {
    /// The new part, with what has happened by now to the rows of those it was made of.
    pub(crate) fn part(&self, now: &[Part]) -> Part {
        let state = Arc::new(self.merged.carry_states(now));
        Part { segment: Arc::clone(&self.segment), state }
    }
}
