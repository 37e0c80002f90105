//! Time and randomness, injected, so that a test can hold both still.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub i64);

/// The wall clock.
pub trait Clock: Send + Sync + Debug {
    /// The time now.
    fn now(&self) -> Micros;
}

/// A source of random bytes.
pub trait Random: Send + Sync + Debug {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// The machine's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Micros {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

/// The kernel's random numbers, asked for by its own call: a program without a C library, in a folder
/// without `/dev`, has no other way to them.
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
