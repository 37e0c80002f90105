//! Every target in one binary, for short runs: linking one binary per target takes longer than running them. An
//! environment variable names the target. Long runs use one binary per target, with a smaller table of coverage
//! counters.
#![no_main]

use std::sync::OnceLock;

use fuzz::targets::{self, Target};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    static CHOSEN: OnceLock<Target> = OnceLock::new();
    let run = CHOSEN.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        targets::named(&name).unwrap_or_else(|| panic!("FUZZ_TARGET names no target: {name:?}"))
    });
    run(data);
});
