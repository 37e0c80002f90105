//! Binary of the fuzz target `operations`, which `fuzz/src/targets/operations.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::operations::run(data));
