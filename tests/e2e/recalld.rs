//! `recalld` as the tests start it. The program's own target would be built a second time for them: what they need of
//! its dependencies is more than it needs by itself.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    recalld_cli::cli::main()
}
