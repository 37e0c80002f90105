//! The latest time that the store has seen: a clock that was set back shows (CTL-09).
//!
//! Owns what is known of it in memory, and when it is put on record. What ends by time would be good again before it:
//! tokens that were revoked, keys that are over, calls of a month that is gone.

use std::sync::atomic::{AtomicU64, Ordering};

use super::error::ControlError;

/// How far the clock may go back, in seconds: as much as a machine's clock is put right by at a time.
pub(super) const CLOCK_BACK_SECONDS_MAX: u64 = 60;
/// How long the latest time is kept in memory alone, in seconds.
const KEPT_EVERY_SECONDS: u64 = 60;
/// 9999-12-31T23:59:59Z: later than that a clock tells no time.
const LAST_SECOND: u64 = 253_402_300_799;

/// Times are in seconds since 1970.
#[derive(Debug, Default)]
pub(super) struct Latest {
    seen: AtomicU64,
    kept: AtomicU64,
}

impl Latest {
    /// Notes what is on record.
    pub(super) fn read(&self, kept: u64) {
        self.kept.store(kept, Ordering::Release);
        self.seen.fetch_max(kept, Ordering::AcqRel);
    }

    /// Notes the time.
    ///
    /// # Errors
    /// It was later before.
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

    /// What is to be put on record, if it is time for it.
    pub(super) fn due(&self) -> Option<u64> {
        let seen = self.seen.load(Ordering::Acquire);
        let kept = self.kept.load(Ordering::Acquire);
        (seen >= kept.saturating_add(KEPT_EVERY_SECONDS) || seen < kept).then_some(seen)
    }

    /// From here on this is the latest time. Gives the one before.
    pub(super) fn accept(&self, now: u64) -> u64 {
        self.seen.swap(now, Ordering::AcqRel)
    }
}
