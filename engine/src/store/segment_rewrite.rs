//! Rewrite job: merges segments of a store into one segment file, while others read and write.
//!
//! The writer selects the inputs and installs the result. A failed job removes its files. If a removal fails, the
//! writer must repeat it, as the file may have rows that are erased later.

use std::sync::Arc;

use crate::error::{CorruptionError, DiskError, OpenError, WriteError};
use crate::ids::Seq;
use crate::layout::{self, FileKind, UNFINISHED_SUFFIX};
use crate::manifest::SegmentEntry;
use crate::merge::{
    ErasedIds, MergeError, MergeOutput, NewEmbeddings, merge_to, merge_with_embeddings,
};
use crate::os::disk::{Disk, DiskFile};
use crate::segment::{FileSink, Segment};
use crate::segment_snapshot::SegmentSnapshot;
use crate::store::recovery::open_segment;
use crate::throttle::Throttle;

/// Inputs of a rewrite, and the number of the new file.
#[derive(Debug)]
pub(crate) struct RewriteJob {
    pub(crate) segment: u64,
    /// Sealed segments, followed by those of the tail in a flush.
    pub(crate) inputs: Vec<SegmentSnapshot>,
    /// File numbers of the sealed inputs.
    pub(crate) sealed_numbers: Vec<u64>,
    /// Newest commit at the start of the job.
    pub(crate) last_seq: Seq,
}

/// Segment file on disk that no manifest lists yet.
#[derive(Debug)]
pub(crate) struct UnpublishedSegment {
    pub(crate) entry: SegmentEntry,
    segment: Arc<Segment>,
    merged: MergeOutput,
}

/// Rows and embeddings of the new segment.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RewriteContent<'a> {
    /// All rows that are not erased.
    Excluding(&'a ErasedIds),
    /// All rows of one segment, with new embeddings.
    Reembedded(&'a NewEmbeddings),
}

/// Error of a job, which then has no result.
#[derive(Debug)]
pub(crate) enum JobError {
    /// The throttle cancelled the job.
    Cancelled,
    /// An input is corrupt.
    Damaged(CorruptionError),
    /// Pages of an input are absent and could not be fetched.
    Unavailable(CorruptionError),
    /// The rows exceed the limits of one segment.
    TooLarge(String),
    /// The file could not be written.
    Disk(DiskError),
    /// The names of the directory could not be synced. This error is final: names that the writer created before may be
    /// lost, too.
    DirectorySync(DiskError),
}

impl JobError {
    /// Converts to the error of an operation that is not a write; `None` if the job was cancelled.
    pub(crate) fn into_write_error(self) -> Option<WriteError> {
        match self {
            Self::Cancelled => None,
            Self::Damaged(damage) | Self::Unavailable(damage) => Some(damage.into()),
            Self::TooLarge(why) => Some(WriteError::refused("segments", why)),
            Self::Disk(error) => Some(WriteError::postponed(&error)),
            Self::DirectorySync(error) => Some(WriteError::Disk(error)),
        }
    }
}

impl From<CorruptionError> for JobError {
    fn from(damage: CorruptionError) -> Self {
        if damage.is_unavailable() { Self::Unavailable(damage) } else { Self::Damaged(damage) }
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
struct ThrottledFile<'a> {
    file: Box<dyn DiskFile>,
    throttle: &'a dyn Throttle,
}

impl std::fmt::Debug for ThrottledFile<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}

/// Marker error of a cancelled append.
#[derive(Debug)]
struct CancelledError;

impl std::fmt::Display for CancelledError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "it was called off")
    }
}

impl std::error::Error for CancelledError {}

fn is_cancelled(error: &DiskError) -> bool {
    error.source.get_ref().is_some_and(|source| source.is::<CancelledError>())
}

impl DiskFile for ThrottledFile<'_> {
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.append(bytes)?;
        if self.throttle.after_write(bytes.len()) {
            return Ok(());
        }
        Err(DiskError::new("write", "a segment", std::io::Error::other(CancelledError)))
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.file.sync()
    }

    fn reserve(&self, bytes: u64) -> Result<(), DiskError> {
        self.file.reserve(bytes)
    }
}

impl RewriteJob {
    /// Returns true if the tail is among the inputs.
    pub(crate) fn includes_tail(&self) -> bool {
        self.inputs.len() > self.sealed_numbers.len()
    }

    /// Writes the segment file; after an error, removes it.
    pub(crate) fn run(
        &self,
        disk: &dyn Disk,
        content: RewriteContent<'_>,
        pace: &dyn Throttle,
    ) -> Result<UnpublishedSegment, JobError> {
        let made = self.write_segment(disk, content, pace);
        if made.is_err() {
            for name in self.file_names() {
                let _writer_tries_again = disk.remove(&name);
            }
        }
        made
    }

    /// Unfinished name and final name of the file.
    pub(crate) fn file_names(&self) -> [String; 2] {
        let name = layout::file_name(FileKind::Segment, self.segment);
        [format!("{name}{UNFINISHED_SUFFIX}"), name]
    }

    fn write_segment(
        &self,
        disk: &dyn Disk,
        content: RewriteContent<'_>,
        pace: &dyn Throttle,
    ) -> Result<UnpublishedSegment, JobError> {
        let [fresh, name] = self.file_names();
        // The merge reads all bytes, in its own order, so all must be present.
        self.inputs.iter().try_for_each(|part| part.segment.ensure_complete().map(drop))?;
        let file = ThrottledFile { file: disk.create(&fresh)?, throttle: pace };
        let mut sink = FileSink::new(&file, pace);
        let segments: Vec<_> = self.inputs.iter().map(|part| Arc::clone(&part.segment)).collect();
        segments.iter().for_each(|segment| segment.advise_copy());
        let merged = match content {
            RewriteContent::Excluding(erased) => merge_to(&segments, erased, &mut sink),
            RewriteContent::Reembedded(embeddings) => {
                let [segment] = &*segments else { unreachable!("embeddings are of one segment") };
                merge_with_embeddings(segment, embeddings, &mut sink)
            }
        };
        // Searches continue on the inputs until the new segment replaces them.
        segments.iter().for_each(|segment| segment.advise_queries());
        let merged = merged?;
        let sha256 = sink.finish()?;
        file.sync()?;
        disk.rename(&fresh, &name)?;
        // The file's name must be durable before the manifest that lists it.
        disk.sync_names().map_err(JobError::DirectorySync)?;
        let entry = SegmentEntry::new(self.segment, merged.bytes, sha256, &merged.header);
        let opened = open_segment(disk, &entry).map_err(|error| match error {
            OpenError::Disk(error) => JobError::Disk(error),
            OpenError::Damaged(damage) => damage.into(),
            other => {
                JobError::Damaged(CorruptionError::new("MAN-03", other.to_string()).in_file(&name))
            }
        })?;
        Ok(UnpublishedSegment { entry, segment: Arc::new(opened.segment), merged })
    }
}

impl UnpublishedSegment {
    /// Attaches the states that the inputs have now.
    pub(crate) fn to_snapshot(&self, now: &[SegmentSnapshot]) -> SegmentSnapshot {
        let state = Arc::new(self.merged.merge_states(now));
        SegmentSnapshot { segment: Arc::clone(&self.segment), state }
    }
}
