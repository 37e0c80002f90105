//! Binary of the fuzz target `lines`, which `fuzz/src/targets/lines.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::lines::run(data));
