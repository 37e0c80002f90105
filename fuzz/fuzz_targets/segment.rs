//! The target `segment` as a binary of its own; `fuzz/src/targets/segment.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::segment::run(data));
