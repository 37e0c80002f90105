//! The target `remote_record` as a binary of its own; `fuzz/src/targets/remote_record.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::remote_record::run(data));
