//! Binary of the fuzz target `http`, which `fuzz/src/targets/http.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::http::run(data));
