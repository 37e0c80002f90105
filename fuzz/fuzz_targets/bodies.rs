//! Binary of the fuzz target `bodies`, which `fuzz/src/targets/bodies.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::bodies::run(data));
