//! `recalld completions` and `recalld man`: shell completions and manual pages.

use clap::{Args, CommandFactory};

use super::Cli;
use super::failure::Failure;
use super::tell::tell;

const NAME: &str = "recalld";

/// Sections at the end of every manual page.
const SECTIONS: &str = "\
.SH \"EXIT STATUS\"
.TP
.B 0
Done.
.TP
.B 1
The answer is no: damage was found, a fault, nothing of that name.
.TP
.B 2
Wrong use: what was typed, or what settings say.
.TP
.B 3
It could not be done; the message ends with what to do.
.SH ENVIRONMENT
.TP
.B RECALLD_DATA
The data directory.
.TP
.B RECALLD_CONFIG
The file of settings. Each setting has a variable of its own:
.B recalld config example
names them.
.TP
.B RECALLD_CACHE, RECALLD_MODEL_HUB
Where models are kept, and where they are fetched from (an address, or off).
.TP
.B NO_COLOR
Where it is set, nothing is painted.
";

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell to generate for.
    shell: clap_complete::Shell,
}

/// Prints the completion script.
pub(super) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), NAME, &mut out);
    tell(&String::from_utf8_lossy(&out))
}

#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The command [default: the program's own page].
    command: Option<String>,
}

pub(super) fn man(args: &ManArgs) -> Result<(), Failure> {
    // The exit codes have a section of their own in every page, so they are removed from the help.
    let mut whole = Cli::command().after_help("");
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
    tell(&format!("{}{SECTIONS}", String::from_utf8_lossy(&out)))
}
