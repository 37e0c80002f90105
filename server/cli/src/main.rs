//! The `recalld` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    recalld_cli::cli::main()
}
