//! The target `http` as a binary of its own; `fuzz/src/targets/http.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::http::run(data));
