//! Binary of the fuzz target `index`, which `fuzz/src/targets/index.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::index::run(data));
