//! `recalld config`: checks and prints settings. Opens no store and needs no server.

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
    /// Check settings. For each invalid setting, print the fault and its place: line and column, variable or flag.
    Check {
        /// The settings file [default: $RECALLD_CONFIG, else none: only the environment is checked].
        file: Option<PathBuf>,
    },
    /// Print the effective settings as an equivalent file, with the origin of each setting. Accepts the flags of
    /// `serve`.
    Show(Box<Flags>),
    /// Print a file with every setting, its purpose and its default, as a start for your own.
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

/// The origin of each setting, by key.
fn sources(loaded: &Loaded) -> Map<String, Value> {
    let source = |key: &str| Value::String(loaded.source(key).to_string());
    SETTINGS.iter().map(|setting| (setting.key.to_owned(), source(setting.key))).collect()
}

/// An unreadable file is not a usage error; invalid content is.
fn read(flags: &Flags) -> Result<Loaded, Failure> {
    flags.load().map_err(|fault| match &fault {
        FileFault::Unreadable { .. } => {
            Failure::Could(format!("{fault}; name a file that can be read"))
        }
        wrong => Failure::No(flags.named(wrong)),
    })
}
