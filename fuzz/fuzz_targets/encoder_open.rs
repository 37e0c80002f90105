//! The target `encoder_open` as a binary of its own; `fuzz/src/targets/encoder_open.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::encoder_open::run(data));
