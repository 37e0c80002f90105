//! The target `tokenizer` as a binary of its own; `fuzz/src/targets/tokenizer.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::tokenizer::run(data));
