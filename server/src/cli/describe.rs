//! `recalld completions` and `recalld man`: the command line described, for shells and for `man`.

use clap::{Args, CommandFactory};

use super::tell::tell;
use super::{Cli, Failure};

const NAME: &str = "recalld";

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    shell: clap_complete::Shell,
}

/// Prints what the shell sources.
pub(super) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), NAME, &mut out);
    tell(&String::from_utf8_lossy(&out))
}

#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The page of this command [default: that of the program].
    command: Option<String>,
}

/// Prints a page of the manual.
pub(super) fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut whole = Cli::command();
    whole.build();
    let page = match &args.command {
        None => whole,
        Some(name) => {
            let found = whole.find_subcommand(name).cloned();
            found.ok_or_else(|| {
                Failure::Usage(format!("there is no command `{name}`; `recalld help` names them"))
            })?
        }
    };
    let mut out = Vec::new();
    clap_mangen::Man::new(page).render(&mut out).map_err(Failure::could)?;
    tell(&String::from_utf8_lossy(&out))
}
