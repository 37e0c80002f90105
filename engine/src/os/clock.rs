//! Injected time and randomness, so that a test can fix both.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub i64);

/// Wall clock.
pub trait Clock: Send + Sync + Debug {
    /// Current time.
    fn now(&self) -> Micros;
}

/// Source of random bytes.
pub trait Random: Send + Sync + Debug {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// Clock of the operating system.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Micros {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

/// Random numbers of the kernel, by its `getrandom` system call: the only way without a C library or `/dev`.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match getrandom(&mut *rest, GetRandomFlags::empty()) {
                Ok(filled) => rest = &mut rest[filled..],
                Err(error) => assert_eq!(
                    error,
                    Errno::INTR,
                    "the kernel always gives random bytes once it has started"
                ),
            }
        }
    }
}
