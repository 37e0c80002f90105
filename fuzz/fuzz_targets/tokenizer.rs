//! Binary of the fuzz target `tokenizer`, which `fuzz/src/targets/tokenizer.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::tokenizer::run(data));
