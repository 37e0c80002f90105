//! Clock for leases: continues while the process is stopped or the machine is suspended, and is never set. The times of
//! two machines cannot be compared; their rates can.

use std::fmt::Debug;
use std::ops::{Add, Sub};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time in nanoseconds since the start of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

impl Sub for Ticks {
    type Output = Duration;

    /// Duration since `earlier`; zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Sub<Duration> for Ticks {
    type Output = Self;

    fn sub(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Add<Duration> for Ticks {
    type Output = Self;

    fn add(self, length: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Source of [`Ticks`].
pub trait TickSource: Send + Sync + Debug {
    /// Current time.
    fn now(&self) -> Ticks;
}

/// `CLOCK_BOOTTIME`. `std::time::Instant` is `CLOCK_MONOTONIC` on Linux, which stops while the machine is suspended.
#[derive(Debug, Default, Clone, Copy)]
pub struct BootClock;

impl TickSource for BootClock {
    fn now(&self) -> Ticks {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let rest = u64::try_from(time.tv_nsec).unwrap_or_default();
        Ticks(seconds.saturating_mul(1_000_000_000).saturating_add(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_only_rise() {
        let before = BootClock.now();
        let after = BootClock.now();
        assert!(before.0 > 0 && after >= before);
        assert_eq!(before - (before + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!((before + Duration::from_secs(1)) - before, Duration::from_secs(1));
    }
}
