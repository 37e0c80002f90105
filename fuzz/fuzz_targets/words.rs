//! The target `words` as a binary of its own; `fuzz/src/targets/words.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::words::run(data));
