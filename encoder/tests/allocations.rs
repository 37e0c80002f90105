//! A forward pass allocates nothing once its scratch is made: at every level and precision, with one thread and with
//! two, for one text and for a batch.
//!
//! The allocator counts for the whole process, so this program has one test.

use std::alloc::System;

use encoder::{Encoder, Kernels, Level, Precision, Scratch};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[path = "it/original_model.rs"]
mod original_model;

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Encodes texts of many lengths, the longest first, one by one and as a batch.
fn work(encoder: &Encoder, scratch: &mut Scratch, texts: &[&str], out: &mut [f32]) {
    for text in texts {
        encoder.encode(scratch, text, &mut out[..encoder.dimensions()]);
    }
    encoder.encode_batch(scratch, texts, out);
}

/// Passes that are counted until one allocates nothing.
const PASSES_MAX: usize = 3;

#[test]
fn a_forward_pass_takes_nothing_from_the_heap() {
    let long = "words, and a few more ".repeat(5);
    let texts = [long.as_str(), "", "one", &long[..50]];
    for level in Level::ALL.iter().filter_map(|&level| Kernels::for_level(level)) {
        for precision in [Precision::F32, Precision::F16, Precision::Int8] {
            let encoder = Encoder::open_as(&original_model::borrowed(), level, precision)
                .expect("the original model opens");
            let mut out = vec![0.0; encoder.dimensions() * texts.len()];
            for threads in [1, 2] {
                let mut scratch = encoder.scratch_with(threads);
                // A warm-up: std's allocations at a thread's first use are not the encoder's.
                work(&encoder, &mut scratch, &texts, &mut out);
                // All threads are counted, so one count may include the test harness, which reports a test that runs
                // for more than a minute. Allocations of a pass would occur every time.
                let mut passes = (0..PASSES_MAX).map(|_| {
                    let region = Region::new(COUNTING);
                    work(&encoder, &mut scratch, &texts, &mut out);
                    let change = region.change();
                    (change.allocations, change.reallocations)
                });
                assert!(
                    passes.any(|taken| taken == (0, 0)),
                    "{:?}, {precision:?}, {threads} threads",
                    encoder.level()
                );
            }
        }
    }
}
