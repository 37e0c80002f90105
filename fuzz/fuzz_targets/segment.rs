//! Binary of the fuzz target `segment`, which `fuzz/src/targets/segment.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::segment::run(data));
