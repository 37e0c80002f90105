//! Binary of the fuzz target `manifest`, which `fuzz/src/targets/manifest.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::manifest::run(data));
