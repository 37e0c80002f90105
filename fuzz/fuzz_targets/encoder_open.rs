//! Binary of the fuzz target `encoder_open`, which `fuzz/src/targets/encoder_open.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::encoder_open::run(data));
