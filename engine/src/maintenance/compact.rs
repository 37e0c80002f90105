//! Compaction: merges runs of small segments into larger ones, beside readers and writers.
//!
//! Chooses the segments worth merging within the allowed cost; a [`RewriteJob`] does the merge. Sizes grow
//! geometrically from the newest segment to the oldest, so a row is copied about as often as the store has doubled. The
//! scheme is the tiered form of O'Neil et al., "The log-structured merge-tree", 1996.

use std::ops::Range;

use crate::error::WriteError;
use crate::limits::{COMPACT_FREE_BYTES_MIN, COMPACT_RUN_MIN, SEGMENTS_MANY};
use crate::merge::ErasedIds;
use crate::store::Store;
use crate::store::metrics::Counters;
use crate::store::segment_rewrite::{RewriteContent, RewriteJob};
use crate::throttle::Throttle;

/// Result of one compaction step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionOutcome {
    /// A run of segments became one segment.
    Merged {
        /// Number of merged segments.
        segments: usize,
        /// Bytes of the new segment.
        bytes: u64,
    },
    /// No run of segments is worth merging.
    NothingToDo,
    /// A run was found, but the disk has too little free space for the copy.
    NoRoom {
        /// Bytes that must be free.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The throttle cancelled the step.
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompactionGoal {
    /// Merge runs that are worth the copying.
    Amortized,
    /// Merge any run of neighbours.
    FewestSegments,
}

impl Store {
    /// Merges one run of segments, if a run is worth merging. Readers and writers continue meanwhile. A crash leaves
    /// either the old segments or the new segment.
    ///
    /// Old and new segments are on disk during the merge, so a run is skipped if the copy would leave less than
    /// [`COMPACT_FREE_BYTES_MIN`] free. A failure before a manifest lists the new segment is an error and does not stop
    /// the writer; a failure to sync the new file's name stops the writer.
    pub fn compact(&self, pace: &dyn Throttle) -> Result<CompactionOutcome, WriteError> {
        self.compact_run(CompactionGoal::Amortized, pace)
    }

    /// Merges any two or more neighbours that fit into one segment; otherwise as [`Store::compact`]. Repeated calls
    /// leave the fewest possible segments. For explicit requests only: run after every seal, it would copy each row
    /// each time.
    pub fn compact_fully(&self, pace: &dyn Throttle) -> Result<CompactionOutcome, WriteError> {
        self.compact_run(CompactionGoal::FewestSegments, pace)
    }

    fn compact_run(
        &self,
        aim: CompactionGoal,
        pace: &dyn Throttle,
    ) -> Result<CompactionOutcome, WriteError> {
        let _alone = self.rewriting.lock();
        let disk = &*self.env.disk;
        let job = {
            let mut writer = self.writer()?;
            let sizes: Vec<u64> = writer.manifest.segments.iter().map(|it| it.bytes).collect();
            let taken = |at: usize| writer.is_claimed(at);
            let bytes_max = self.options.compact_bytes_max as u64;
            let Some(run) = pick_run(&sizes, taken, bytes_max, aim) else {
                return Ok(CompactionOutcome::NothingToDo);
            };
            let wanted = sizes[run.clone()].iter().sum::<u64>() + COMPACT_FREE_BYTES_MIN;
            let free = disk.free_bytes().map_err(|error| WriteError::postponed(&error))?;
            if free < wanted {
                return Ok(CompactionOutcome::NoRoom { wanted, free });
            }
            writer.begin_job(run.start, run.len())
        };
        self.rewrite(&job, &ErasedIds::default(), pace)
    }

    /// Runs a job over sealed segments and replaces them with its segment.
    pub(crate) fn rewrite(
        &self,
        job: &RewriteJob,
        erased: &ErasedIds,
        pace: &dyn Throttle,
    ) -> Result<CompactionOutcome, WriteError> {
        let disk = &*self.env.disk;
        let made = job.run(disk, RewriteContent::Excluding(erased), pace);
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                let told = self.report_job_error(error);
                if let Ok(mut writer) = self.writer() {
                    writer.abandon(job);
                    writer.remove_obsolete_files(disk);
                }
                return told.map_or(Ok(CompactionOutcome::Cancelled), Err);
            }
        };
        let mut writer = self.writer()?;
        let done =
            CompactionOutcome::Merged { segments: job.inputs.len(), bytes: made.entry.bytes };
        writer.install(disk, job, made)?;
        Counters::increment(&self.counters.merges);
        self.publish_durable(&mut writer);
        Ok(done)
    }
}

/// Returns the run of neighbouring segments to merge next, by their sizes in commit order: the newest run of at least
/// [`COMPACT_RUN_MIN`] in which each segment is at most twice as large as all segments after it together. If there are
/// more than [`SEGMENTS_MANY`] segments, or with [`CompactionGoal::FewestSegments`], any two or more neighbours that
/// fit.
fn pick_run(
    sizes: &[u64],
    taken: impl Fn(usize) -> bool,
    bytes_max: u64,
    aim: CompactionGoal,
) -> Option<Range<usize>> {
    let run_ending = |end: usize, may_grow: &dyn Fn(u64, u64) -> bool| {
        let (mut first, mut bytes) = (end, 0);
        while let Some(before) = first.checked_sub(1) {
            let size = sizes[before];
            let fits = !taken(before) && bytes + size <= bytes_max;
            if !fits || first < end && !may_grow(size, bytes) {
                break;
            }
            bytes += size;
            first = before;
        }
        first..end
    };
    let doubling = |size: u64, after: u64| size <= after * 2;
    let mut ends = (1..=sizes.len()).rev();
    let tiered = ends.clone().map(|end| run_ending(end, &doubling));
    let any = |end: usize| Some(run_ending(end, &|_, _| true)).filter(|run| run.len() > 1);
    tiered.into_iter().find(|run| run.len() >= COMPACT_RUN_MIN).or_else(|| {
        let wants_any = aim == CompactionGoal::FewestSegments || sizes.len() > SEGMENTS_MANY;
        wants_any.then(|| ends.find_map(any))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const MAX: u64 = 512 * MIB;

    fn free(_: usize) -> bool {
        false
    }

    #[test]
    fn newest_run_of_similar_sizes_is_picked() {
        let sizes = [400, 60, 64, 33, 40].map(|mib| mib * MIB);
        assert_eq!(pick_run(&sizes, free, MAX, CompactionGoal::Amortized), Some(1..5));
        assert_eq!(
            pick_run(&sizes[..4], free, MAX, CompactionGoal::Amortized),
            None,
            "three are too few"
        );
        assert_eq!(
            pick_run(&sizes, |at| at == 4, MAX, CompactionGoal::Amortized),
            None,
            "a flush has one of them"
        );
        assert_eq!(pick_run(&[], free, MAX, CompactionGoal::Amortized), None);
    }

    #[test]
    fn older_runs_are_picked_behind_a_large_newest_segment() {
        let sizes = [10, 11, 12, 13, 500].map(|mib| mib * MIB);
        assert_eq!(pick_run(&sizes, free, MAX, CompactionGoal::Amortized), Some(0..4));
    }

    #[test]
    fn picked_run_stays_within_the_size_limit() {
        let sizes = [300, 300, 300, 300, 300].map(|mib| mib * MIB);
        assert_eq!(pick_run(&sizes, free, MAX, CompactionGoal::Amortized), None);
        assert_eq!(pick_run(&sizes, free, 1200 * MIB, CompactionGoal::Amortized), Some(1..5));
    }

    #[test]
    fn too_many_segments_are_merged_regardless_of_size() {
        let mut sizes = vec![MIB; 0];
        for at in 0..=SEGMENTS_MANY {
            sizes.push(if at % 2 == 0 { 200 * MIB } else { 1 });
        }
        let run = pick_run(&sizes, free, 300 * MIB, CompactionGoal::Amortized).unwrap();
        assert!(run.len() > 1, "{run:?}");
    }

    #[test]
    fn full_compaction_merges_any_neighbours_that_fit() {
        let mut sizes = [300, 100, 50, 60, 70].map(|mib| mib * MIB).to_vec();
        assert_eq!(pick_run(&sizes[..3], free, MAX, CompactionGoal::Amortized), None);
        assert_eq!(
            pick_run(&sizes, |at| at == 3, MAX, CompactionGoal::FewestSegments),
            Some(0..3),
            "a flush has one"
        );
        while let Some(run) = pick_run(&sizes, free, MAX, CompactionGoal::FewestSegments) {
            let bytes = sizes[run.clone()].iter().sum();
            sizes.splice(run, [bytes]);
        }
        assert_eq!(sizes, [300 * MIB, 280 * MIB]);
    }

    #[test]
    fn repeated_compaction_converges_to_few_segments() {
        let mut sizes: Vec<u64> = Vec::new();
        let mut copied = 0;
        for _ in 0..2000 {
            sizes.push(32 * MIB);
            while let Some(run) = pick_run(&sizes, free, 1 << 40, CompactionGoal::Amortized) {
                let bytes = sizes[run.clone()].iter().sum();
                copied += bytes;
                sizes.splice(run, [bytes]);
            }
        }
        assert!(sizes.len() < 40, "{} segments", sizes.len());
        assert!(
            copied < 2000 * 32 * MIB * 12,
            "each byte was copied {} times",
            copied / (64_000 * MIB)
        );
    }
}
