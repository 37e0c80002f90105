//! Binary of the fuzz target `mcp`, which `fuzz/src/targets/mcp.rs` describes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::mcp::run(data));
