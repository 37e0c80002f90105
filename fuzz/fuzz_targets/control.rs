//! Binary of the fuzz target `control`, which `fuzz/src/targets/control.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::control::run(data));
