//! The target `control` as a binary of its own; `fuzz/src/targets/control.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::control::run(data));
