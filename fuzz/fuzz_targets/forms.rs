//! Binary of the fuzz target `forms`, which `fuzz/src/targets/forms.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::forms::run(data));
