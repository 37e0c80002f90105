//! The target `weights` as a binary of its own; `fuzz/src/targets/weights.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::weights::run(data));
