//! The target `access_tokens` as a binary of its own; `fuzz/src/targets/access_tokens.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::access_tokens::run(data));
