//! Jobs of the writer: selection of the segments to merge, exclusive claims on them, and installation of the result.
//!
//! A job reads segments that no other job may claim meanwhile, and runs without the writer's lock. The methods here
//! begin and end it, under the lock.

use super::{Writer, remove_if_exists};
use crate::error::{DiskError, WriteError};
use crate::layout::UNFINISHED_SUFFIX;
use crate::limits::SEGMENTS_MAX;
use crate::manifest::SegmentEntry;
use crate::os::disk::Disk;
use crate::segment_snapshot::SegmentSnapshot;
use crate::store::recovery::ReplayedLog;
use crate::store::segment_list::SegmentList;
use crate::store::segment_rewrite::{RewriteJob, UnpublishedSegment};
use crate::vector_index::{self, IndexKey};

impl Writer {
    /// Begins a job that merges the tail and the small segments before it, so that many short runs do not leave many
    /// files. Later commits go to a new log. Returns `None` if there is no tail.
    pub(crate) fn begin_flush(
        &mut self,
        disk: &dyn Disk,
        merge_bytes_max: usize,
    ) -> Result<Option<RewriteJob>, WriteError> {
        if self.segments.tail().is_empty() {
            self.drop_empty_logs(disk)?;
            return Ok(None);
        }
        let first = self.flush_start(merge_bytes_max);
        if first == SEGMENTS_MAX {
            let why = format!("the store has {SEGMENTS_MAX} segments, which is the most");
            return Err(WriteError::refused("segments", why));
        }
        // Without a log, the next commit creates one. So a store opened with the maximum number of logs can still be
        // sealed. While older logs may not be on disk, no log may follow them: the segment must replace them first.
        if let Some(log) = self.log.take() {
            // Synced, as no frame of a later log may count if a frame of this log is lost. A closing mark is not
            // needed: the next log's first commit determines the end of this log.
            self.older_logs
                .push(ReplayedLog { position: log.position(), file_bytes: log.file_bytes() });
            log.sync().map_err(|error| self.stop(error))?;
            self.new_log(disk)?;
            self.publish(disk)?;
        }
        self.segments.freeze();
        Ok(Some(self.begin_job(first, self.segments.all().len() - first)))
    }

    /// Drops logs without a complete frame.
    fn drop_empty_logs(&mut self, disk: &dyn Disk) -> Result<(), WriteError> {
        if self.older_logs.is_empty() {
            return Ok(());
        }
        self.drop_older_logs();
        self.publish(disk)
    }

    /// Returns the start of the run to merge into one file: the tail, and each segment before it that is at most twice
    /// as large as the run after it. So a row is copied about as often as the store has doubled, up to
    /// `merge_bytes_max`.
    fn flush_start(&self, merge_bytes_max: usize) -> usize {
        let sealed = self.segments.sealed();
        let mut first = sealed.len();
        let mut bytes = SegmentList::heap_bytes(self.segments.tail());
        while let Some(before) = first.checked_sub(1) {
            let size = sealed[before].segment.file_bytes();
            let is_taken = self.claimed.contains(&self.manifest.segments[before].number);
            // A flush must not wait for absent pages.
            let is_here = sealed[before].segment.is_complete();
            if is_taken || !is_here || size > bytes * 2 || bytes + size > merge_bytes_max {
                break;
            }
            bytes += size;
            first = before;
        }
        first
    }

    /// Begins a job over `count` segments from `first` on, and claims the sealed ones.
    pub(crate) fn begin_job(&mut self, first: usize, count: usize) -> RewriteJob {
        let number = self.allocate_file_number();
        let sealed = self.segments.sealed().len();
        let numbers: Vec<u64> = self.manifest.segments
            [first.min(sealed)..(first + count).min(sealed)]
            .iter()
            .map(|entry| entry.number)
            .collect();
        self.claimed.extend(&numbers);
        RewriteJob {
            segment: number,
            inputs: self.segments.all()[first..first + count].to_vec(),
            sealed_numbers: numbers,
            last_seq: self.last_seq(),
        }
    }

    /// Begins a job over one sealed segment; `None` if another job has claimed it, or a flush has replaced it.
    pub(crate) fn begin_job_over(&mut self, number: u64) -> Option<RewriteJob> {
        let at = self.manifest.segments.iter().position(|entry| entry.number == number)?;
        (!self.is_claimed(at)).then(|| self.begin_job(at, 1))
    }

    /// Sealed segments with their numbers.
    pub(crate) fn sealed(&self) -> Vec<(u64, SegmentSnapshot)> {
        let numbers = self.manifest.segments.iter().map(|entry| entry.number);
        numbers.zip(self.segments.sealed().iter().cloned()).collect()
    }

    /// Sealed segments that no job has claimed, in order.
    pub(crate) fn unclaimed(&self) -> impl Iterator<Item = (usize, &SegmentEntry)> {
        let entries = self.manifest.segments.iter().enumerate();
        entries.filter(|(_, entry)| !self.claimed.contains(&entry.number))
    }

    /// Returns true if a job has claimed the sealed segment at position `at`.
    pub(crate) fn is_claimed(&self, at: usize) -> bool {
        self.claimed.contains(&self.manifest.segments[at].number)
    }

    /// Returns the largest sealed segment that needs an index: unclaimed, without an index, and without known
    /// corruption.
    pub(crate) fn next_to_index(&self) -> Option<(IndexKey, SegmentSnapshot)> {
        let vectors =
            self.segments.all().iter().map(|part| u64::from(part.segment.header().vectors));
        if !self.ann_policy.wants_indexes(vectors.sum()) {
            return None;
        }
        let parts = self.segments.sealed();
        let lacks = |part: &SegmentSnapshot| {
            part.segment.index().is_none()
                && vector_index::is_worthwhile(&part.segment, self.ann_policy.index_rows_min)
        };
        let can = |entry: &SegmentEntry| !self.unindexable.contains(&entry.number);
        let there = self.unclaimed().filter(|(at, entry)| can(entry) && lacks(&parts[*at]));
        let (at, entry) = there.max_by_key(|(_, entry)| entry.vectors)?;
        Some((IndexKey::from_entry(entry), parts[at].clone()))
    }

    /// Excludes a corrupt segment from indexing: each attempt would fail on the same corruption.
    pub(crate) fn mark_unindexable(&mut self, of: &IndexKey) {
        if self.manifest.segments.iter().any(|entry| entry.number == of.number) {
            self.unindexable.insert(of.number);
        }
    }

    /// Renames a complete index file to its name if its segment still exists; otherwise removes the file and returns
    /// false.
    pub(crate) fn install_index(
        &mut self,
        disk: &dyn Disk,
        of: &IndexKey,
    ) -> Result<bool, DiskError> {
        let name = of.file_name();
        let fresh = format!("{name}{UNFINISHED_SUFFIX}");
        let is_there = self.manifest.segments.iter().any(|it| IndexKey::from_entry(it) == *of);
        let named = if is_there { disk.rename(&fresh, &name) } else { Ok(()) };
        if !is_there || named.is_err() {
            self.abandon_index(disk, of);
        } else if let Some(far) = &self.replication_sink {
            far.on_index_created(&name, disk);
        }
        named.map(|()| is_there)
    }

    /// Removes the remains of a failed index. Centroids are computed from rows, so no erasure completes before the
    /// remains are removed.
    pub(crate) fn abandon_index(&mut self, disk: &dyn Disk, of: &IndexKey) {
        self.obsolete_files.push(format!("{}{UNFINISHED_SUFFIX}", of.file_name()));
        self.remove_obsolete_files(disk);
    }

    /// Replaces a job's inputs with its result, and publishes a manifest.
    pub(crate) fn install(
        &mut self,
        disk: &dyn Disk,
        job: &RewriteJob,
        made: UnpublishedSegment,
    ) -> Result<(), WriteError> {
        self.replace(job, made);
        self.publish(disk)
    }

    /// As [`Self::install`], without the manifest.
    pub(crate) fn replace(&mut self, job: &RewriteJob, made: UnpublishedSegment) {
        let sealed = self.manifest.segments.len();
        let first = match job.sealed_numbers.first() {
            Some(&number) => self.manifest.segments.iter().position(|it| it.number == number),
            None => Some(sealed),
        };
        let first = first.expect("a claimed segment stays listed until its job is done");
        let with_tail = job.includes_tail();
        let now = &self.segments.all()[first..first + job.inputs.len()];
        let part = made.to_snapshot(now);
        let taken = first..first + job.sealed_numbers.len();
        let old: Vec<_> = self.manifest.segments.splice(taken, [made.entry]).collect();
        old.iter().for_each(|entry| self.mark_obsolete(entry));
        self.segments.replace(first, job.inputs.len(), part, with_tail);
        if with_tail {
            self.manifest.last_seq = job.last_seq;
            self.has_unsynced_frames = false;
            self.drop_older_logs();
        }
        self.release(job);
    }

    /// Discards the re-embedded copy of a sealed segment, if there is one: the final manifest of the re-embedding must
    /// not list that copy any more.
    pub(crate) fn discard_reembedded(&mut self, disk: &dyn Disk, number: u64) {
        if let Some(at) = self.reembedded.iter().position(|(job, _)| job.sealed_numbers == [number])
        {
            let (job, _) = self.reembedded.swap_remove(at);
            self.discard(disk, [job]);
        }
    }

    /// Discards all re-embedded segments. Done for a stopped writer too, as no manifest lists them.
    pub(crate) fn discard_all_reembedded(&mut self, disk: &dyn Disk) {
        let jobs: Vec<RewriteJob> = self.reembedded.drain(..).map(|(job, _)| job).collect();
        self.discard(disk, jobs);
    }

    fn discard(&mut self, disk: &dyn Disk, jobs: impl IntoIterator<Item = RewriteJob>) {
        for job in jobs {
            self.abandon(&job);
            // Removes only these of the obsolete files: after a failed manifest, the files that it would have made
            // obsolete are still needed.
            let names = job.file_names();
            self.obsolete_files
                .retain(|name| !names.contains(name) || !remove_if_exists(disk, name));
        }
    }

    /// Ends a failed job. The job's remains have bytes of rows, so no erasure completes before the remains are removed.
    pub(crate) fn abandon(&mut self, job: &RewriteJob) {
        self.obsolete_files.extend(job.file_names());
        if job.includes_tail() {
            self.segments.thaw();
        }
        self.release(job);
    }

    fn release(&mut self, job: &RewriteJob) {
        job.sealed_numbers.iter().for_each(|number| {
            self.claimed.remove(number);
        });
    }
}
