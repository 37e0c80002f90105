//! The target `origins` as a binary of its own; `fuzz/src/targets/origins.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::origins::run(data));
