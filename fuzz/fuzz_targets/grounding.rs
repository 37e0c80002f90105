//! Binary of the fuzz target `grounding`, which `fuzz/src/targets/grounding.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::grounding::run(data));
