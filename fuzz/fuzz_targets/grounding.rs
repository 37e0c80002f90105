//! The target `grounding` as a binary of its own; `fuzz/src/targets/grounding.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::grounding::run(data));
