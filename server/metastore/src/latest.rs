//! Clock watermark: the latest time that the store has seen, by which a clock that was set back is detected (CTL-09).
//!
//! Owns the watermark in memory, and the decision when to record it. With an earlier clock, expired state would become
//! valid again: revoked tokens, expired keys, calls of a past month.

use std::sync::atomic::{AtomicU64, Ordering};

use super::error::ControlError;

/// Tolerated backward step of the clock in seconds: a usual correction of a machine's clock.
pub(super) const CLOCK_BACK_SECONDS_MAX: u64 = 60;
/// Maximum age of the recorded watermark in seconds.
const KEPT_EVERY_SECONDS: u64 = 60;
/// 9999-12-31T23:59:59Z: a later clock is invalid.
const LAST_SECOND: u64 = 253_402_300_799;

/// Times are in seconds since 1970.
#[derive(Debug, Default)]
pub(super) struct Latest {
    seen: AtomicU64,
    kept: AtomicU64,
}

impl Latest {
    /// Sets the watermark from the record.
    pub(super) fn read(&self, kept: u64) {
        self.kept.store(kept, Ordering::Release);
        self.seen.fetch_max(kept, Ordering::AcqRel);
    }

    /// Advances the watermark to `now`.
    ///
    /// # Errors
    /// The clock is behind the watermark by more than the tolerance.
    pub(super) fn check(&self, now: u64) -> Result<(), ControlError> {
        let passed = if now <= LAST_SECOND { now } else { 0 };
        let seen = self.seen.fetch_max(passed, Ordering::AcqRel).max(passed);
        if now.saturating_add(CLOCK_BACK_SECONDS_MAX) < seen {
            return Err(ControlError::unavailable(
                "the clock was set back: set it right; if it was wrong before and is right now: recalld clock accept",
            ));
        }
        Ok(())
    }

    /// The watermark, if it is due to be recorded.
    pub(super) fn due(&self) -> Option<u64> {
        let seen = self.seen.load(Ordering::Acquire);
        let kept = self.kept.load(Ordering::Acquire);
        (seen >= kept.saturating_add(KEPT_EVERY_SECONDS) || seen < kept).then_some(seen)
    }

    /// Sets the watermark to `now`. Returns the previous watermark.
    pub(super) fn accept(&self, now: u64) -> u64 {
        self.seen.swap(now, Ordering::AcqRel)
    }
}
