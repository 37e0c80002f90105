//! Binary of the fuzz target `state`, which `fuzz/src/targets/state.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::state::run(data));
