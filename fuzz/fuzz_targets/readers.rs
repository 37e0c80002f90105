//! Binary of the fuzz target `readers`, which `fuzz/src/targets/readers.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::readers::run(data));
