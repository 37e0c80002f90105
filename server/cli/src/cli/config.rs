//! `recalld config`: settings looked at before they count. Opens no store and needs no server.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::common::Common;
use super::failure::Failure;
use super::given::Flags;
use super::tell::{tell, tell_line};
use recalld_common::keys::FileFault;
use recalld_config::layers::Loaded;
use recalld_config::settings::SETTINGS;
use recalld_config::written::{example, with_sources};

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Whether settings would be taken; of those that would not, what is wrong and where: line and column, variable or
    /// flag.
    Check {
        /// The file [default: $RECALLD_CONFIG, else none: the environment alone is looked at].
        file: Option<PathBuf>,
    },
    /// Print the settings that are in effect as a file that means the same, each with where it came from. It takes the
    /// flags of `serve`.
    Show(Box<Flags>),
    /// Print a file with every setting, what it is for and its default, to begin one of your own.
    #[command(visible_alias = "default")]
    Example,
}

pub(super) fn run(args: &ConfigArgs) -> Result<(), Failure> {
    let is_json = args.common.json;
    match &args.command {
        ConfigCommand::Check { file } => {
            let loaded = read(&Flags::of_file(file.as_deref()))?;
            let path = loaded.file.as_ref().map(|file| file.display().to_string());
            if is_json {
                return tell_line(&json!({"good": true, "file": path}));
            }
            let path = path.unwrap_or_else(|| "no file, and the environment".to_owned());
            tell_line(&format!("{path}: all good"))
        }
        ConfigCommand::Show(flags) => {
            let loaded = read(&(**flags).clone().beside(&args.common))?;
            if is_json {
                return tell_line(&json!({
                    "file": loaded.file, "settings": loaded.config.show(), "sources": sources(&loaded),
                }));
            }
            tell(&with_sources(&loaded))
        }
        ConfigCommand::Example if is_json => tell_line(&json!({"example": example()})),
        ConfigCommand::Example => tell(&example()),
    }
}

/// Where each setting came from, by its key.
fn sources(loaded: &Loaded) -> Map<String, Value> {
    let source = |key: &str| Value::String(loaded.source(key).to_string());
    SETTINGS.iter().map(|setting| (setting.key.to_owned(), source(setting.key))).collect()
}

/// A file that cannot be read is another thing than one that is wrong.
fn read(flags: &Flags) -> Result<Loaded, Failure> {
    flags.load().map_err(|fault| match &fault {
        FileFault::Unreadable { .. } => {
            Failure::Could(format!("{fault}; name a file that can be read"))
        }
        wrong => Failure::No(flags.named(wrong)),
    })
}
