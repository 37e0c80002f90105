//! The target `manifest` as a binary of its own; `fuzz/src/targets/manifest.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::manifest::run(data));
