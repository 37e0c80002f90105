//! Latencies: fixed-size histograms that any thread updates without a lock.

mod text;

pub use text::{Kind, Page};

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets per doubling; a percentile is accurate to within a fifth.
const STEPS: u32 = 4;
/// Number of buckets, from one microsecond to about 70 minutes.
const BUCKETS: usize = 128;

/// A histogram of durations.
#[derive(Debug)]
pub struct Latencies {
    buckets: [AtomicU64; BUCKETS],
    sum_micros: AtomicU64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum_micros: AtomicU64::new(0) }
    }
}

impl Latencies {
    /// Adds a duration.
    pub fn record(&self, took: Duration) {
        self.buckets[bucket(took)].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the number of durations up to each of [`BOUNDS_MICROS`], and the total number.
    pub(crate) fn cumulative(&self) -> ([u64; BOUNDS_MICROS.len()], u64) {
        let counts = self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        let below = |micros: u64| counts[..first_bucket(micros)].iter().sum();
        (BOUNDS_MICROS.map(below), counts.iter().sum())
    }

    /// Sum of all durations in seconds.
    pub(crate) fn sum_seconds(&self) -> f64 {
        Duration::from_micros(self.sum_micros.load(Ordering::Relaxed)).as_secs_f64()
    }

    /// Returns the upper bound in milliseconds of the given share of all durations; `None` if there are none.
    pub fn percentile_ms(&self, share: f64) -> Option<f64> {
        let counts = self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        let total: u64 = counts.iter().sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank within a count"
        )]
        let rank = (total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(upper_bound_ms(at));
            }
        }
        None
    }
}

/// Upper bounds of exported histograms: a factor of four apart from 64 us to 67 s, and a factor of two where most
/// responses are.
pub(crate) const BOUNDS_MICROS: [u64; 15] = [
    1 << 6,
    1 << 8,
    1 << 9,
    1 << 10,
    1 << 11,
    1 << 12,
    1 << 13,
    1 << 14,
    1 << 15,
    1 << 16,
    1 << 18,
    1 << 20,
    1 << 22,
    1 << 24,
    1 << 26,
];

/// A stage of answering a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Authentication and authorization of the caller.
    Authenticate,
    /// Embedding of the question.
    Encode,
    /// Candidates by full text.
    Words,
    /// Candidates by vector search, without the embedding.
    Meaning,
    /// Candidates by the period that the question names.
    Time,
    /// Candidates by the files and symbols that the question names.
    Place,
    /// Candidates by edges of the graph.
    Graph,
    /// Fusion into one ranking, promotion of successors, and abstention.
    Fuse,
    /// Items withheld by policy, for the ledger.
    KeepBack,
    /// Fields, grounding tokens and files of each item.
    Evidence,
    /// Serialization of the response's JSON and text.
    Render,
    /// The ledger entry.
    Ledger,
}

impl Stage {
    /// All stages, in the order of a call.
    pub const ALL: [Stage; 12] = [
        Stage::Authenticate,
        Stage::Encode,
        Stage::Words,
        Stage::Meaning,
        Stage::Time,
        Stage::Place,
        Stage::Graph,
        Stage::Fuse,
        Stage::KeepBack,
        Stage::Evidence,
        Stage::Render,
        Stage::Ledger,
    ];

    /// Label value in the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Authenticate => "authenticate",
            Stage::Encode => "encode",
            Stage::Words => "words",
            Stage::Meaning => "meaning",
            Stage::Time => "time",
            Stage::Place => "place",
            Stage::Graph => "graph",
            Stage::Fuse => "fuse",
            Stage::KeepBack => "keep_back",
            Stage::Evidence => "evidence",
            Stage::Render => "render",
            Stage::Ledger => "ledger",
        }
    }
}

/// Latencies of each stage, over all calls.
#[derive(Debug, Default)]
pub struct Stages([Latencies; Stage::ALL.len()]);

impl Stages {
    /// Adds a duration to a stage.
    pub fn record(&self, stage: Stage, took: Duration) {
        self.0[stage as usize].record(took);
    }

    /// Latencies of one stage.
    pub fn of(&self, stage: Stage) -> &Latencies {
        &self.0[stage as usize]
    }
}

fn bucket(took: Duration) -> usize {
    // Minus one nanosecond, so that a duration of exactly a bound counts below that bound.
    let nanos = took.as_nanos().saturating_sub(1);
    first_bucket(u64::try_from(nanos / 1000).unwrap_or(u64::MAX))
}

/// Returns the bucket of a number of microseconds.
fn first_bucket(micros: u64) -> usize {
    let micros = micros.max(1);
    let doubling = micros.ilog2();
    // The two bits below the highest bit select the quarter of a doubling.
    let quarter = if doubling >= 2 { (micros >> (doubling - 2)) & 3 } else { 0 };
    let at = doubling * STEPS + u32::try_from(quarter).unwrap_or(0);
    (at as usize).min(BUCKETS - 1)
}

fn upper_bound_ms(at: usize) -> f64 {
    let (doubling, quarter) = (at / STEPS as usize, at % STEPS as usize);
    #[expect(clippy::cast_precision_loss, reason = "a number below 4")]
    let factor = 1.0 + (quarter as f64 + 1.0) / f64::from(STEPS);
    2f64.powi(i32::try_from(doubling).unwrap_or(i32::MAX)) * factor / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_near_the_durations() {
        let latencies = Latencies::default();
        assert_eq!(latencies.percentile_ms(0.5), None);
        for millis in 1..=100 {
            latencies.record(Duration::from_millis(millis));
        }
        for (share, millis) in [(0.5, 50.0), (0.95, 95.0), (0.99, 99.0)] {
            let found = latencies.percentile_ms(share).unwrap();
            assert!((millis..millis * 1.25 + 0.1).contains(&found), "{share}: {found}");
        }
    }

    #[test]
    fn a_bound_counts_what_is_just_as_long() {
        let latencies = Latencies::default();
        for micros in BOUNDS_MICROS {
            latencies.record(Duration::from_micros(micros));
            latencies.record(Duration::from_micros(micros) + Duration::from_nanos(1));
        }
        let (counts, all) = latencies.cumulative();
        let wanted: Vec<u64> = (0..BOUNDS_MICROS.len() as u64).map(|at| 2 * at + 1).collect();
        assert_eq!((counts.to_vec(), all), (wanted, 2 * BOUNDS_MICROS.len() as u64));
        for stage in Stage::ALL {
            assert_eq!(Stage::ALL[stage as usize], stage);
        }
    }

    #[test]
    fn the_ends_have_a_bucket() {
        let latencies = Latencies::default();
        latencies.record(Duration::ZERO);
        latencies.record(Duration::MAX);
        assert!(latencies.percentile_ms(0.01).unwrap() <= 0.002);
    }
}
