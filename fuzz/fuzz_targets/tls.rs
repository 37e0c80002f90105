//! The target `tls` as a binary of its own; `fuzz/src/targets/tls.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::tls::run(data));
