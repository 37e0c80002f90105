//! The target `operations` as a binary of its own; `fuzz/src/targets/operations.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::operations::run(data));
