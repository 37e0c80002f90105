//! Binary of the fuzz target `remote_record`, which `fuzz/src/targets/remote_record.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::remote_record::run(data));
