//! Jobs of the writer: what may be made into one segment, by whom, and how it takes its place.
//!
//! A job reads parts that nobody else may take meanwhile, and runs without the writer's lock; what is
//! here, its begin and its end, is done under it.

use super::{Writer, is_removed};
use crate::error::{DiskError, WriteError};
use crate::index::{self, IndexOf};
use crate::layout::UNFINISHED;
use crate::limits::SEGMENTS_MAX;
use crate::manifest::SegmentEntry;
use crate::os::disk::Disk;
use crate::part::Part;
use crate::store::job::{Job, Made};
use crate::store::opening::ReadLog;
use crate::store::rows::Rows;

impl Writer {
    /// Begins to make one segment of the tail and of small segments before it, so that many short
    /// runs do not leave many files. Later commits go to a new log. `None` when there is no tail.
    pub(crate) fn begin_flush(
        &mut self,
        disk: &dyn Disk,
        merge_bytes_max: usize,
    ) -> Result<Option<Job>, WriteError> {
        if self.rows.tail().is_empty() {
            self.drop_empty_logs(disk)?;
            return Ok(None);
        }
        let first = self.first_to_flush(merge_bytes_max);
        if first == SEGMENTS_MAX {
            let why = format!("the store has {SEGMENTS_MAX} segments, which is the most");
            return Err(WriteError::refused("segments", why));
        }
        // Where there is none yet, the next commit makes one. An opening that found as many logs as
        // there may be can so still seal them. And while nobody knows whether the older logs are on
        // disk, none may follow them: the segment takes their place first.
        if let Some(log) = self.log.take() {
            // No frame of a later log may count when one of this log was lost. A mark is not needed:
            // the next log's first commit says where this one ends.
            self.older_logs.push(ReadLog { mark: log.mark(), file_bytes: log.file_bytes() });
            log.sync().map_err(|error| self.stop(error))?;
            self.new_log(disk)?;
            self.publish(disk)?;
        }
        self.rows.freeze();
        Ok(Some(self.job(first, self.rows.all().len() - first)))
    }

    /// Logs without one whole frame: nothing to keep of them.
    fn drop_empty_logs(&mut self, disk: &dyn Disk) -> Result<(), WriteError> {
        if self.older_logs.is_empty() {
            return Ok(());
        }
        self.drop_older_logs();
        self.publish(disk)
    }

    /// Where the run of parts begins that one file is made of: the tail, and each segment before
    /// it that is at most twice as large as what follows it. A row is then copied about as often
    /// as the store has doubled, up to `merge_bytes_max`.
    fn first_to_flush(&self, merge_bytes_max: usize) -> usize {
        let sealed = self.rows.sealed_parts();
        let mut first = sealed.len();
        let mut bytes = Rows::bytes(self.rows.tail());
        while let Some(before) = first.checked_sub(1) {
            let size = sealed[before].segment.file_bytes();
            let is_taken = self.claimed.contains(&self.manifest.segments[before].number);
            // A flush waits for nothing that lies elsewhere.
            let is_here = sealed[before].segment.is_whole();
            if is_taken || !is_here || size > bytes * 2 || bytes + size > merge_bytes_max {
                break;
            }
            bytes += size;
            first = before;
        }
        first
    }

    /// A job over `count` parts from `first` on, which nobody else may take meanwhile.
    pub(crate) fn job(&mut self, first: usize, count: usize) -> Job {
        let number = self.take_number();
        let sealed = self.rows.sealed_parts().len();
        let numbers: Vec<u64> = self.manifest.segments
            [first.min(sealed)..(first + count).min(sealed)]
            .iter()
            .map(|entry| entry.number)
            .collect();
        self.claimed.extend(&numbers);
        Job {
            number,
            inputs: self.rows.all()[first..first + count].to_vec(),
            sealed: numbers,
            last_seq: self.last_seq(),
        }
    }

    /// A job over one sealed segment; `None` where a flush has it, or has taken it up since.
    pub(crate) fn job_over(&mut self, number: u64) -> Option<Job> {
        let at = self.manifest.segments.iter().position(|entry| entry.number == number)?;
        (!self.is_claimed(at)).then(|| self.job(at, 1))
    }

    /// The sealed segments and their numbers.
    pub(crate) fn sealed(&self) -> Vec<(u64, Part)> {
        let numbers = self.manifest.segments.iter().map(|entry| entry.number);
        numbers.zip(self.rows.sealed_parts().iter().cloned()).collect()
    }

    /// Sealed segments that no job has, in their order.
    pub(crate) fn unclaimed(&self) -> impl Iterator<Item = (usize, &SegmentEntry)> {
        let entries = self.manifest.segments.iter().enumerate();
        entries.filter(|(_, entry)| !self.claimed.contains(&entry.number))
    }

    /// Whether a job has the sealed segment at a place.
    pub(crate) fn is_claimed(&self, at: usize) -> bool {
        self.claimed.contains(&self.manifest.segments[at].number)
    }

    /// A sealed segment that is to get an index, the largest first: no job has it, it has none yet, and
    /// none has met damage in it.
    pub(crate) fn to_index(&self) -> Option<(IndexOf, Part)> {
        let vectors = self.rows.all().iter().map(|part| u64::from(part.segment.header().vectors));
        if !self.searching.wants_indexes(vectors.sum()) {
            return None;
        }
        let parts = self.rows.sealed_parts();
        let lacks = |part: &Part| {
            part.segment.index().is_none()
                && index::gains(&part.segment, self.searching.index_rows_min)
        };
        let can = |entry: &SegmentEntry| !self.unindexable.contains(&entry.number);
        let there = self.unclaimed().filter(|(at, entry)| can(entry) && lacks(&parts[*at]));
        let (at, entry) = there.max_by_key(|(_, entry)| entry.vectors)?;
        Some((IndexOf::segment(entry), parts[at].clone()))
    }

    /// Makes no index of this segment any more: it would end with the same damage each time.
    pub(crate) fn give_up_index(&mut self, of: &IndexOf) {
        if self.manifest.segments.iter().any(|entry| entry.number == of.number) {
            self.unindexable.insert(of.number);
        }
    }

    /// Gives a whole index its name, if its segment is still there; otherwise it goes.
    pub(crate) fn install_index(
        &mut self,
        disk: &dyn Disk,
        of: &IndexOf,
    ) -> Result<bool, DiskError> {
        let name = of.name();
        let fresh = format!("{name}{UNFINISHED}");
        let is_there = self.manifest.segments.iter().any(|it| IndexOf::segment(it) == *of);
        let named = if is_there { disk.rename(&fresh, &name) } else { Ok(()) };
        if !is_there || named.is_err() {
            self.abandon_index(disk, of);
        } else if let Some(far) = &self.far {
            far.indexed(&name, disk);
        }
        named.map(|()| is_there)
    }

    /// Removes what is left of an index that came to nothing. Centroids are made of rows: no erasure is
    /// done before it is gone.
    pub(crate) fn abandon_index(&mut self, disk: &dyn Disk, of: &IndexOf) {
        self.doomed.push(format!("{}{UNFINISHED}", of.name()));
        self.remove_doomed(disk);
    }

    /// Puts what a job made in the place of what it read, in a new manifest.
    pub(crate) fn install(
        &mut self,
        disk: &dyn Disk,
        job: &Job,
        made: Made,
    ) -> Result<(), WriteError> {
        self.replace(job, made);
        self.publish(disk)
    }

    /// The same before the manifest.
    pub(crate) fn replace(&mut self, job: &Job, made: Made) {
        let sealed = self.manifest.segments.len();
        let first = match job.sealed.first() {
            Some(&number) => self.manifest.segments.iter().position(|it| it.number == number),
            None => Some(sealed),
        };
        let first = first.expect("a claimed segment stays listed until its job is done");
        let with_tail = job.has_tail();
        let now = &self.rows.all()[first..first + job.inputs.len()];
        let part = made.part(now);
        let taken = first..first + job.sealed.len();
        let old: Vec<_> = self.manifest.segments.splice(taken, [made.entry]).collect();
        old.iter().for_each(|entry| self.doom(entry));
        self.rows.replace(first, job.inputs.len(), part, with_tail);
        if with_tail {
            self.manifest.last_seq = job.last_seq;
            self.must_seal = false;
            self.drop_older_logs();
        }
        self.release(job);
    }

    /// Takes back what a move to another model has made of a sealed segment, if it has: it must not
    /// name that any more.
    pub(crate) fn take_back(&mut self, disk: &dyn Disk, number: u64) {
        if let Some(at) = self.remade.iter().position(|(job, _)| job.sealed == [number]) {
            let (job, _) = self.remade.swap_remove(at);
            self.discard(disk, [job]);
        }
    }

    /// Takes back all that a move has made. Also done once the writer has stopped: no manifest
    /// names any of it.
    pub(crate) fn take_all_back(&mut self, disk: &dyn Disk) {
        let jobs: Vec<Job> = self.remade.drain(..).map(|(job, _)| job).collect();
        self.discard(disk, jobs);
    }

    fn discard(&mut self, disk: &dyn Disk, jobs: impl IntoIterator<Item = Job>) {
        for job in jobs {
            self.abandon(&job);
            // Of what is doomed no more than this: where a manifest failed, the files that it leaves
            // behind are needed still.
            let names = job.names();
            self.doomed.retain(|name| !names.contains(name) || !is_removed(disk, name));
        }
    }

    /// Forgets a job that came to nothing. What it may have left holds bytes of rows: no erasure is done
    /// before that is gone.
    pub(crate) fn abandon(&mut self, job: &Job) {
        self.doomed.extend(job.names());
        if job.has_tail() {
            self.rows.thaw();
        }
        self.release(job);
    }

    fn release(&mut self, job: &Job) {
        job.sealed.iter().for_each(|number| {
            self.claimed.remove(number);
        });
    }
}
