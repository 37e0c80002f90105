//! Measures the time to take a single token: `cargo run --release -p recalld-policy --example rate_take [KEYS]`.
//!
//! Single-threaded: first known keys in a cache-unfriendly order, then a new key on each call in a full table.

use std::hint::black_box;
use std::time::{Duration, Instant};

use recalld_policy::rate::{BUCKETS_MAX, Buckets, Key, Rate, key_of};

const TAKES: u32 = 2_000_000;

fn main() {
    let keys = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10_000_u32);
    let rate = Rate::new(20, Duration::from_secs(1), 60).expect("it is a rate");
    let known: Vec<Key> = (0..keys).map(|number| key_of(&number.to_le_bytes())).collect();
    let began = Instant::now();
    let buckets = Buckets::new(began);
    let mut at = 1_usize;
    let mut refused = 0_u32;
    let mut measure = |name: &str, key: &mut dyn FnMut(u32) -> Key| {
        let start = Instant::now();
        for number in 0..TAKES {
            let key = key(number);
            refused += u32::from(black_box(buckets.take(&key, rate, Instant::now())).is_err());
        }
        let nanos = start.elapsed().as_nanos() / u128::from(TAKES);
        println!("{name}: {nanos} ns a take, {} buckets", buckets.count());
    };
    let mut next = |_: u32| {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        known[(at >> 33) % known.len()]
    };
    measure("known keys", &mut next);
    // Distinct keys without hashing.
    let mut fresh = |number: u32| {
        let mut key = [0xFF; 16];
        key[..4].copy_from_slice(&number.to_le_bytes());
        key
    };
    measure("a new key each time", &mut fresh);
    assert!(buckets.count() <= BUCKETS_MAX);
    println!("{refused} refused");
}
