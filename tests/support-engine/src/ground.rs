//! A deterministic env: one seed gives the same time and randomness each time.

use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use engine::os::clock::{Clock, Random};
use engine::os::disk::{Disk, FsDisk};
use engine::{Env, Micros};

/// 2025-01-01T00:00:00Z.
const START_MICROS: i64 = 1_735_689_600_000_000;
const STEP_MICROS: i64 = 1_000_000;

/// A clock that advances by one second at each read.
#[derive(Debug)]
pub struct SteppingClock(AtomicI64);

impl Default for SteppingClock {
    fn default() -> Self {
        Self(AtomicI64::new(START_MICROS))
    }
}

impl SteppingClock {
    /// Makes a clock for the `opened`th opening of a store: a day later each time.
    pub fn after(opened: u64) -> Self {
        let days = i64::try_from(opened).expect("a test opens a store a few times");
        Self(AtomicI64::new(START_MICROS + days * 86_400 * STEP_MICROS))
    }
}

impl Clock for SteppingClock {
    fn now(&self) -> Micros {
        Micros(self.0.fetch_add(STEP_MICROS, Ordering::SeqCst))
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and every seed has a full period.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Makes a generator that repeats for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Next 64 random bits.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Next number below `sides`.
    pub fn below(&mut self, sides: u64) -> u64 {
        self.roll() % sides
    }

    /// Next index into a collection of this length, which is not 0.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("it is below a length")
    }
}

/// Repeatable randomness from a seed.
#[derive(Debug)]
pub struct SeededRandom(std::sync::Mutex<Dice>);

impl SeededRandom {
    /// Makes a source that returns the same bytes for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(std::sync::Mutex::new(Dice::new(seed)))
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        let mut dice = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&dice.roll().to_le_bytes()[..piece.len()]);
        }
    }
}

/// Makes an env on `disk` with a stepping clock and seeded randomness.
pub fn still(disk: Arc<dyn Disk>, seed: u64) -> Env {
    Env {
        disk,
        clock: Arc::new(SteppingClock::default()),
        random: Arc::new(SeededRandom::new(seed)),
        replication_sink: None,
    }
}

/// Makes an env on a real folder with a stepping clock and seeded randomness.
pub fn folder(root: &Path, seed: u64) -> Env {
    still(Arc::new(FsDisk::open(root).expect("a scratch folder can be made")), seed)
}

/// Returns a test's seed: `RECALLD_TEST_SEED` if set, else a random one. The test MUST print the seed.
pub fn fresh_seed() -> u64 {
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    let given = std::env::var("RECALLD_TEST_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| {
        let mut bytes = [0; 8];
        engine::os::clock::SystemRandom.fill(&mut bytes);
        u64::from_le_bytes(bytes).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed))
    })
}

/// Options under which sealed segments are never merged, for tests of several segments.
pub fn unmerged() -> engine::Options {
    engine::Options { merge_bytes_max: 0, ..engine::Options::default() }
}
