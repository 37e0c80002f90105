//! Rewrite job: merges segments of a store into one segment file, while others read and write.
//!
//! The writer selects the inputs and installs the result. A failed job removes its files. If a removal fails, the
//! writer must repeat it, as the file may have rows that are erased later.

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

/// Inputs of a rewrite, and the number of the new file.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) number: u64,
    /// Sealed segments, followed by those of the tail in a flush.
    pub(crate) inputs: Vec<Part>,
    /// File numbers of the sealed inputs.
    pub(crate) sealed: Vec<u64>,
    /// Newest commit at the start of the job.
    pub(crate) last_seq: Seq,
}

/// Segment file on disk that no manifest lists yet.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) entry: SegmentEntry,
    segment: Arc<Segment>,
    merged: Merged,
}

/// Rows and embeddings of the new segment.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    /// All rows that are not erased.
    Without(&'a Erased),
    /// All rows of one segment, with new embeddings.
    With(&'a Embeddings),
}

/// Error of a job, which then has no result.
#[derive(Debug)]
pub(crate) enum JobError {
    /// The throttle cancelled the job.
    Cancelled,
    /// An input is corrupt.
    Damaged(Damage),
    /// Pages of an input are absent and could not be fetched.
    Away(Damage),
    /// The rows exceed the limits of one segment.
    TooLarge(String),
    /// The file could not be written.
    Disk(DiskError),
    /// The names of the directory could not be synced. This error is final: names that the writer created before may be
    /// lost, too.
    Names(DiskError),
}

impl JobError {
    /// Converts to the error of an operation that is not a write; `None` if the job was cancelled.
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

/// File that reports each append to a throttle.
struct Paced<'a> {
    file: Box<dyn DiskFile>,
    pace: &'a dyn Pace,
}

impl std::fmt::Debug for Paced<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}

/// Marker error of a cancelled append.
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
    /// Returns true if the tail is among the inputs.
    pub(crate) fn has_tail(&self) -> bool {
        self.inputs.len() > self.sealed.len()
    }

    /// Writes the segment file; after an error, removes it.
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

    /// Unfinished name and final name of the file.
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
        // The merge reads all bytes, in its own order, so all must be present.
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
        // Searches continue on the inputs until the new segment replaces them.
        segments.iter().for_each(|segment| segment.expect_questions());
        let merged = merged?;
        let sha256 = sink.finish()?;
        file.sync()?;
        disk.rename(&fresh, &name)?;
        // The file's name must be durable before the manifest that lists it.
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
    /// Attaches the states that the inputs have now.
    pub(crate) fn part(&self, now: &[Part]) -> Part {
        let state = Arc::new(self.merged.carry_states(now));
        Part { segment: Arc::clone(&self.segment), state }
    }
}
