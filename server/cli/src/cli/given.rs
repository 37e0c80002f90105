//! Flags for settings, generated from the list of settings: each has its key and its variable.
//!
//! Must not interpret values: `config` does, whatever their source.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, StringValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::common::Common;
use super::failure::Failure;
use recalld_common::keys::FileFault;
use recalld_common::nearest::nearest;
use recalld_config::layers::{Given, Loaded, load};
use recalld_config::settings::{Kind, SETTINGS, Setting};
use recalld_tools::CATALOG;

const CONFIG: &str = "config";
const SET: &str = "set";
/// Variable that names the settings file if no flag does.
pub(super) const CONFIG_VARIABLE: &str = "RECALLD_CONFIG";

/// Settings given by flags.
#[derive(Debug, Clone, Default)]
pub(super) struct Flags {
    config: Option<PathBuf>,
    given: Vec<Given>,
}

impl Flags {
    /// The flags of a command that has only `--config`.
    pub(super) fn of_file(config: Option<&Path>) -> Self {
        Self { config: config.map(Path::to_owned), given: Vec::new() }
    }

    /// Adds the settings among the flags of every command.
    pub(super) fn beside(mut self, common: &Common) -> Self {
        let path = common.model.as_deref().map(|path| path.to_string_lossy().into_owned());
        let flags = [
            ("model.directory", path),
            ("model.kernel", common.kernel.clone()),
            ("model.precision", common.precision.clone()),
        ];
        for (key, text) in flags {
            if let (Some(setting), Some(text)) = (Setting::named(key), text) {
                self.given.push(Given { setting, texts: vec![text] });
            }
        }
        self
    }

    /// The settings file: from the flag, else from the environment.
    pub(super) fn file(&self) -> Option<PathBuf> {
        let set = || std::env::var_os(CONFIG_VARIABLE).filter(|value| !value.is_empty());
        self.config.clone().or_else(|| set().map(PathBuf::from))
    }

    /// Loads the settings from the flags, the environment and the file.
    pub(super) fn load(&self) -> Result<Loaded, FileFault> {
        load(
            self.file().as_deref(),
            &self.given,
            &|name| std::env::var_os(name),
            &CATALOG.tool_names(),
        )
    }

    /// As [`Flags::load`], for a command that requires the settings.
    pub(super) fn settings(&self) -> Result<Loaded, Failure> {
        self.load().map_err(|fault| Failure::Usage(self.named(&fault)))
    }

    /// Formats a fault with the name of its file.
    pub(super) fn named(&self, fault: &FileFault) -> String {
        match (fault, self.file()) {
            (FileFault::Syntax { .. } | FileFault::Key { .. }, Some(file)) => {
                format!("{}: {fault}", file.display())
            }
            _ => fault.to_string(),
        }
    }
}

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new(CONFIG)
            .long(CONFIG)
            .alias("file")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help(format!(
                "A file of settings: listeners, plans, sign-in, mail, backups. `recalld config example` prints one \
                 [env: {CONFIG_VARIABLE}]"
            ));
        let set = Arg::new(SET)
            .long(SET)
            .value_name("KEY=VALUE")
            .action(ArgAction::Append)
            .value_parser(set)
            .help("Any other setting, by its key in such a file; may be given many times");
        let own = own().map(|(flag, setting)| argument(flag, setting));
        command.arg(config).args(own).arg(set)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self { config: matches.get_one(CONFIG).cloned(), given: Vec::new() };
        for (flag, setting) in own() {
            if setting.kind == Kind::Flag {
                if matches.get_flag(flag) {
                    flags.given.push(Given { setting, texts: Vec::new() });
                }
            } else if let Some(texts) = matches.get_raw(flag) {
                let texts = texts.map(OsStr::to_string_lossy).map(Into::into).collect();
                flags.given.push(Given { setting, texts });
            }
        }
        for (setting, text) in matches.get_many::<(&Setting, String)>(SET).into_iter().flatten() {
            let before = flags.given.iter_mut().find(|given| given.setting.key == setting.key);
            match before.filter(|_| matches!(setting.kind, Kind::Texts | Kind::Paths)) {
                Some(before) => before.texts.push(text.clone()),
                None => flags.given.push(Given { setting, texts: vec![text.clone()] }),
            }
        }
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Settings with a flag of their own here. The encoder's settings are excluded: they are flags of every command.
fn own() -> impl Iterator<Item = (&'static str, &'static Setting)> {
    let flags = SETTINGS.iter().filter(|setting| setting.table() != "model");
    flags.filter_map(|setting| Some((setting.flag?, setting)))
}

fn argument(flag: &'static str, setting: &'static Setting) -> Arg {
    let default =
        setting.default.filter(|_| !matches!(setting.kind, Kind::Flag | Kind::Texts | Kind::Paths));
    let default = default.map(|default| format!(" [default: {}]", default.trim_matches('"')));
    let (key, variable) = (setting.key, setting.variable());
    let about = format!("[key: {key}] [env: {variable}]{}", default.unwrap_or_default());
    let arg = Arg::new(flag).long(flag).help(format!("{} {about}", setting.what));
    match setting.kind {
        Kind::Flag => arg.action(ArgAction::SetTrue),
        Kind::Word(words) => arg
            .value_name(value_name(setting))
            .value_parser(PossibleValuesParser::new(words.iter().copied())),
        Kind::Whole(least, most) => arg
            .value_name(value_name(setting))
            .value_parser(clap::value_parser!(u64).range(least..=most)),
        Kind::Texts | Kind::Paths => {
            let again = arg.value_name(value_name(setting)).action(ArgAction::Append);
            again.value_parser(StringValueParser::new())
        }
        Kind::Text | Kind::Path => arg.value_name(value_name(setting)),
    }
}

/// Value placeholder in the help.
fn value_name(setting: &Setting) -> &'static str {
    match (setting.name(), setting.kind) {
        ("address", _) => "ADDR",
        ("public_url", _) => "URL",
        ("allow_origins", _) => "ORIGIN",
        ("tls_cert" | "tls_key", _) => "FILE",
        (_, Kind::Path | Kind::Paths) => "PATH",
        ("call_time_seconds", _) => "SECONDS",
        (_, Kind::Whole(..)) => "N",
        ("format", _) => "FORMAT",
        ("level", _) => "LEVEL",
        ("durability", _) => "WHEN",
        ("search_mode", _) => "MODE",
        _ => "VALUE",
    }
}

fn set(text: &str) -> Result<(&'static Setting, String), String> {
    let (key, value) = text.split_once('=').ok_or("KEY=VALUE is wanted, such as backup.keep=14")?;
    match Setting::named(key.trim()) {
        Some(setting) => Ok((setting, value.trim().to_owned())),
        None if key.starts_with("plans.") => Err("plans are the file's alone".to_owned()),
        None => Err(match nearest(key, SETTINGS.iter().map(|setting| setting.key)) {
            Some(near) => format!("there is no setting `{key}`; did you mean `{near}`?"),
            None => format!("there is no setting `{key}`; `recalld config example` names them all"),
        }),
    }
}
