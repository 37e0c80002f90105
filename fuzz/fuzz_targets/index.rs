//! The target `index` as a binary of its own; `fuzz/src/targets/index.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::index::run(data));
