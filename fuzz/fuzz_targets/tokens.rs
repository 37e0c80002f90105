//! Binary of the fuzz target `tokens`, which `fuzz/src/targets/tokens.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::tokens::run(data));
