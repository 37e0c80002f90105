//! How long things took: a fixed-size histogram that any thread adds to without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets per doubling: a percentile is right to within a fifth.
const STEPS: u32 = 4;
/// From one microsecond to about 70 minutes.
const BUCKETS: usize = 128;

/// Durations, by size.
#[derive(Debug)]
pub struct Latencies {
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS] }
    }
}

impl Latencies {
    /// Adds one.
    pub fn record(&self, took: Duration) {
        self.buckets[bucket(took)].fetch_add(1, Ordering::Relaxed);
    }

    /// Milliseconds below which this share of all durations lies; `None` before the first.
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

fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
    let doubling = micros.ilog2();
    // The two bits below the highest one tell quarters of a doubling apart.
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
    fn the_ends_have_a_bucket() {
        let latencies = Latencies::default();
        latencies.record(Duration::ZERO);
        latencies.record(Duration::MAX);
        assert!(latencies.percentile_ms(0.01).unwrap() <= 0.002);
    }
}
