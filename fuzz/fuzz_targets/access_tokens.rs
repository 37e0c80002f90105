//! Binary of the fuzz target `access_tokens`, which `fuzz/src/targets/access_tokens.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::access_tokens::run(data));
