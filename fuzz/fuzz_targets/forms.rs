//! The target `forms` as a binary of its own; `fuzz/src/targets/forms.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::forms::run(data));
