//! Binary of the fuzz target `log`, which `fuzz/src/targets/log.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::log::run(data));
