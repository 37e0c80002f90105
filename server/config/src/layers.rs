//! Settings from flags, the environment and a file, in this order of precedence, with the source of each value.
//!
//! Defines the precedence and names the source of a wrong value. Must not access the environment directly. Independent
//! of the meaning of values.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::settings::{Kind, SETTINGS, Setting};
use super::{CONFIG_BYTES_MAX, Config};
use recalld_common::keys::{FileFault, KeyFault, Keys, Place, text_of};

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The default value.
    Default,
    /// A position in the settings file.
    File(Place),
    /// The environment variable of this name.
    Variable(String),
    /// The flag, as typed.
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(place) => write!(f, "file, line {}", place.line),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// Value of a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The setting.
    pub setting: &'static Setting,
    /// A text per occurrence of the flag; empty for a flag without a value.
    pub texts: Vec<String>,
}

/// Settings with the sources of their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// The settings file, if any.
    pub file: Option<PathBuf>,
    sources: BTreeMap<&'static str, Source>,
}

impl Loaded {
    /// Source of a setting's value.
    pub fn source(&self, key: &str) -> &Source {
        self.sources.get(key).unwrap_or(&Source::Default)
    }
}

/// Reads the file, if one is named. The environment overrides the file, and flags override both.
///
/// # Errors
/// The file cannot be read or is not TOML, or a key or a value is invalid. The error contains the line, variable or
/// flag.
pub fn load(
    file: Option<&Path>,
    given: &[Given],
    variable: &dyn Fn(&str) -> Option<OsString>,
    tools: &[&'static str],
) -> Result<Loaded, FileFault> {
    let text = file.map(|file| text_of(file, CONFIG_BYTES_MAX)).transpose()?.unwrap_or_default();
    let mut table = Keys::table_of(&text)?;
    let mut sources = BTreeMap::new();
    for setting in SETTINGS {
        let name = setting.variable();
        let said = variable(&name).filter(|value| !value.is_empty());
        let mut flags = given.iter().filter(|given| given.setting.key == setting.key);
        let source = if let Some(given) = flags.next_back() {
            put(&mut table, setting, value(setting, &given.texts));
            Source::Flag(setting.typed())
        } else if let Some(said) = said {
            let texts = split(setting.kind, &said.to_string_lossy());
            put(&mut table, setting, value(setting, &texts));
            Source::Variable(name)
        } else {
            match Place::of(&text, setting.key) {
                Some(place) => Source::File(place),
                None => Source::Default,
            }
        };
        sources.insert(setting.key, source);
    }
    let folder = folder_of(file)?;
    let config =
        Config::of_table(table, &folder, tools).map_err(|fault| placed(fault, &sources, &text))?;
    Ok(Loaded { config, file: file.map(Path::to_owned), sources })
}

/// Returns the base of relative paths: the file's folder, or the working directory without a file. Absolute, so that
/// later changes of the working directory have no effect.
fn folder_of(file: Option<&Path>) -> Result<PathBuf, FileFault> {
    let within = file.and_then(Path::parent).unwrap_or(Path::new(""));
    let here = if within.as_os_str().is_empty() { Path::new(".") } else { within };
    std::path::absolute(here).map_err(|error| FileFault::Unreadable {
        path: here.to_owned(),
        why: format!("the folder that the program was started in: {error}"),
    })
}

/// Adds the flag or the variable of the value to a fault, or else its line.
fn placed(fault: KeyFault, sources: &BTreeMap<&'static str, Source>, text: &str) -> FileFault {
    match sources.get(fault.key()) {
        Some(Source::Flag(by) | Source::Variable(by)) => FileFault::Given { by: by.clone(), fault },
        _ => FileFault::from(fault).placed(text),
    }
}

/// Splits a variable into the values for which a flag is repeated.
fn split(kind: Kind, text: &str) -> Vec<String> {
    let parts = |by: char| text.split(by).map(|part| part.trim().to_owned()).collect();
    match kind {
        Kind::Texts => parts(','),
        Kind::Paths => parts(':'),
        _ => vec![text.to_owned()],
    }
}

/// Converts texts to a TOML value. A text that does not parse stays a text, which is rejected later by the key's name.
fn value(setting: &Setting, texts: &[String]) -> Value {
    let text = texts.last().map_or("true", String::as_str);
    match setting.kind {
        Kind::Whole(..) => text.parse().map_or_else(|_| text.into(), Value::Integer),
        Kind::Flag => text.parse().map_or_else(|_| text.into(), Value::Boolean),
        Kind::Texts => Value::Array(texts.iter().map(|text| text.as_str().into()).collect()),
        Kind::Path => from_here(text),
        Kind::Paths => Value::Array(texts.iter().map(|text| from_here(text)).collect()),
        Kind::Text | Kind::Word(_) => text.into(),
    }
}

/// Makes a path from a flag or variable absolute in the working directory. Paths in the file are relative to the file's
/// folder.
fn from_here(text: &str) -> Value {
    let path = std::path::absolute(text).ok().and_then(|path| path.to_str().map(str::to_owned));
    path.map_or_else(|| text.into(), Value::from)
}

/// Overrides a value of the file. If the file has another type in place of the table, nothing is set: the file is
/// rejected for that.
fn put(table: &mut Table, setting: &Setting, value: Value) {
    let inner = table.entry(setting.table()).or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(inner) = inner {
        inner.insert(setting.name().to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(key: &str, texts: &[&str]) -> Given {
        let setting = Setting::named(key).unwrap();
        Given { setting, texts: texts.iter().map(|text| (*text).to_owned()).collect() }
    }

    #[test]
    fn flags_come_before_variables_and_these_before_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recalld.toml");
        let text = "[log]\nlevel = \"warn\"\n\n[hosted]\naddress = \"127.0.0.1:9\"\ntls_cert = \"a.pem\"\ntls_key = \"b.pem\"\n";
        std::fs::write(&file, text).unwrap();
        let none = |_: &str| None;
        let loaded = load(Some(&file), &[], &none, &[]).unwrap();
        assert_eq!(loaded.config.log.level, recalld_telemetry::log::Level::Warn);
        assert_eq!(loaded.source("log.level").to_string(), "file, line 2");
        assert_eq!(loaded.source("log.format"), &Source::Default);
        let tls = loaded.config.serving.tls.unwrap();
        assert_eq!(tls.certificate, folder.path().join("a.pem"), "from the file's folder");
        let said = |name: &str| match name {
            "RECALLD_LOG_LEVEL" => Some("error".into()),
            "RECALLD_HOSTED" => Some("off".into()),
            "RECALLD_TRUSTED_PROXIES" => None,
            "RECALLD_HOSTED_TRUSTED_PROXIES" => Some("10.0.0.0/8, 192.0.2.1".into()),
            "RECALLD_LOCAL" => Some("".into()),
            "RECALLD_INGEST" => Some("/a:/b c".into()),
            "RECALLD_CALL_TIME" => Some("7".into()),
            "RECALLD_ACCESS_LOG" => Some("true".into()),
            _ => None,
        };
        let loaded = load(Some(&file), &[given("log.level", &["debug"])], &said, &[]).unwrap();
        let config = &loaded.config;
        assert_eq!(config.log.level, recalld_telemetry::log::Level::Debug);
        assert_eq!(loaded.source("log.level").to_string(), "flag --log-level");
        assert_eq!((config.serving.hosted, config.trusted_proxies.len()), (None, 2));
        assert_eq!(loaded.source("hosted.address").to_string(), "variable RECALLD_HOSTED");
        assert_eq!(loaded.source("local.address"), &Source::Default, "an empty variable is none");
        assert_eq!(config.serving.ingest, [Path::new("/a"), Path::new("/b c")]);
        assert_eq!((config.serving.call_time.as_secs(), config.log.access), (7, true));
        let flags = [given("log.access", &[]), given("server.ingest", &["/x:y", "z"])];
        let config = load(None, &flags, &none, &[]).unwrap().config;
        let here = std::path::absolute("z").unwrap();
        assert!(config.log.access);
        assert_eq!(config.serving.ingest, [PathBuf::from("/x:y"), here]);
    }

    #[test]
    fn a_wrong_value_is_told_with_where_it_stands() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recalld.toml");
        std::fs::write(&file, "[log]\n  level = \"loud\"\n").unwrap();
        let none = |_: &str| None;
        let said =
            |file: Option<&Path>, given: &[Given], variable: &dyn Fn(&str) -> Option<OsString>| {
                load(file, given, variable, &[]).unwrap_err().to_string()
            };
        let wanted =
            "line 2, column 11: `log.level` is \"loud\"; allowed: error, warn, info, debug";
        assert_eq!(said(Some(&file), &[], &none), wanted);
        // A value from a flag replaces the wrong value.
        assert!(load(Some(&file), &[given("log.level", &["info"])], &none, &[]).is_ok());
        let of = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| value.into())
        };
        let wrong = said(None, &[], &of("RECALLD_CALL_TIME", "soon"));
        assert_eq!(
            wrong,
            "RECALLD_CALL_TIME: `server.call_time_seconds` is \"soon\"; allowed: a whole number, 1 to 120"
        );
        let wrong = said(None, &[given("local.address", &["nowhere"])], &none);
        assert!(
            wrong.starts_with("--local: `local.address` is \"nowhere\"; allowed: an IP"),
            "{wrong}"
        );
        std::fs::write(&file, "log = 5\n").unwrap();
        let wrong = said(Some(&file), &[given("log.level", &["info"])], &none);
        assert_eq!(wrong, "line 1, column 7: `log` is 5; allowed: a table, [log]");
    }
}
