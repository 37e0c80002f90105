//! The target `ledger` as a binary of its own; `fuzz/src/targets/ledger.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::ledger::run(data));
