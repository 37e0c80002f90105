//! The target `readers` as a binary of its own; `fuzz/src/targets/readers.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::readers::run(data));
