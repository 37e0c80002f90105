//! Binary of the fuzz target `words`, which `fuzz/src/targets/words.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::words::run(data));
