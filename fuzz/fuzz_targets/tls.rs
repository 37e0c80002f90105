//! Binary of the fuzz target `tls`, which `fuzz/src/targets/tls.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::tls::run(data));
