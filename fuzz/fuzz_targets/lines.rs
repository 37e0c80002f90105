//! The target `lines` as a binary of its own; `fuzz/src/targets/lines.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::lines::run(data));
