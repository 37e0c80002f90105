//! The target `bodies` as a binary of its own; `fuzz/src/targets/bodies.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::bodies::run(data));
