//! The target `state` as a binary of its own; `fuzz/src/targets/state.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::state::run(data));
