//! Binary of the fuzz target `origins`, which `fuzz/src/targets/origins.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::origins::run(data));
