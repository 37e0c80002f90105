//! `recalld config`: settings looked at before they count. Opens no store and needs no server.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::tell::{tell, tell_line};
use super::{Common, Failure};
use crate::config::{Config, FileFault};

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Whether a file of settings would be taken; of one that would not, what is wrong and where.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Print all settings as such a file: the defaults, to begin one of your own.
    Show {
        /// What is in effect with this file.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

pub(super) fn run(args: &ConfigArgs) -> Result<(), Failure> {
    let is_json = args.common.json;
    match &args.command {
        ConfigCommand::Check { file } => {
            read(file)?;
            let path = file.display();
            if is_json {
                tell_line(&json!({"good": true, "file": path.to_string()}))
            } else {
                tell_line(&format!("{path}: all good"))
            }
        }
        ConfigCommand::Show { file } => {
            let config = file.as_deref().map(read).transpose()?.unwrap_or_default();
            let shown = config.show();
            if is_json { tell_line(&json!({"settings": shown})) } else { tell(&shown) }
        }
    }
}

/// A file that cannot be read is another thing than one that is wrong.
fn read(path: &Path) -> Result<Config, Failure> {
    Config::read(path).map_err(|fault| match fault {
        FileFault::Unreadable { .. } => {
            Failure::Could(format!("{fault}; name a file that can be read"))
        }
        wrong => Failure::No(format!("{}: {wrong}", path.display())),
    })
}
