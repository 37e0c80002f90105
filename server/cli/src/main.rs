//! The `recalld` program: a package of its own, since the package of a program decides how all of it is
//! optimised once more when it is linked. `server` is made small, and what it calls is made fast.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    recalld_cli::cli::main()
}
