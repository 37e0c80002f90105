//! The target `log` as a binary of its own; `fuzz/src/targets/log.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::log::run(data));
