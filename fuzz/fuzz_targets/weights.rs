//! Binary of the fuzz target `weights`, which `fuzz/src/targets/weights.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::weights::run(data));
