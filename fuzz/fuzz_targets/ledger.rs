//! Binary of the fuzz target `ledger`, which `fuzz/src/targets/ledger.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::ledger::run(data));
