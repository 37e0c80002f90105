//! The `recalld` binary for the tests. The program's own target would be built a second time, since the tests enable
//! more features of its dependencies than the program does.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    recalld_cli::cli::main()
}
