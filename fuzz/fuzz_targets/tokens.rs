//! The target `tokens` as a binary of its own; `fuzz/src/targets/tokens.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::tokens::run(data));
