//! The target `mcp` as a binary of its own; `fuzz/src/targets/mcp.rs` says what it does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::mcp::run(data));
