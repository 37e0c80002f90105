//! Administrative actions: in-process, or through the running server that has the data directory.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};

use super::common::Common;
use super::failure::Failure;
use super::given::Flags;
use super::paint::{Paint, is_terminal, table};
use super::remote::Remote;
use super::tell::{say, tell, tell_line};
use recalld_api::operator::admin::{AdminError, administer_alone};
use recalld_config::Config;
use recalld_fs_util::data_dir;
use recalld_fs_util::start_error::StartError;

/// Arguments of every administrative command.
#[derive(Debug, Args)]
pub(super) struct Desk {
    #[command(flatten)]
    common: Common,
    /// Settings file with the plans and the key prefixes [default: the built-in ones]. A running server uses its own.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        let why = error.to_string();
        match error {
            AdminError::No(_) => Self::No(why),
            AdminError::Wrong { .. } => Self::Usage(why),
            AdminError::Failed(_) => Self::Could(why),
        }
    }
}

impl Desk {
    /// Runs `act` with these fields and returns its report.
    pub(super) fn act(&self, act: &str, fields: &Value) -> Result<Value, Failure> {
        let data = self.common.data()?;
        let mut raw = Map::new();
        raw.insert("act".to_owned(), act.into());
        raw.extend(fields.as_object().cloned().unwrap_or_default());
        let was_there = data_dir::has_store(&data);
        match administer_alone(&data, &self.settings()?, &raw) {
            Ok(done) => {
                if !was_there && data_dir::has_store(&data) {
                    say(&format_args!("made a store in {}", data.display()));
                }
                Ok(done?)
            }
            Err(StartError::Busy(_)) => beside(&data, Value::Object(raw)),
            Err(error) => Err(Failure::could(error)),
        }
    }

    /// Runs `act` and prints its report, as JSON or formatted by `line`.
    pub(super) fn tell(
        &self,
        act: &str,
        fields: &Value,
        line: impl FnOnce(&Value) -> String,
    ) -> Result<(), Failure> {
        let report = self.act(act, fields)?;
        if self.common.json { tell_line(&report) } else { tell_line(&line(&report)) }
    }

    /// Runs `act` and prints the listed entries: one JSON object, one line per entry page by page, or a table on a
    /// terminal.
    pub(super) fn tell_list(
        &self,
        act: &str,
        fields: &Value,
        name: &str,
        columns: &[&str],
    ) -> Result<(), Failure> {
        let (mut all, mut fields) = (Vec::new(), fields.clone());
        let is_at_once = self.common.json || is_terminal();
        loop {
            let mut page = self.act(act, &fields)?;
            let entries = page[name].as_array_mut().map(std::mem::take).unwrap_or_default();
            if is_at_once {
                all.extend(entries);
            } else {
                let line = |entry: &Value| words(entry, columns) + "\n";
                tell(&entries.iter().map(line).collect::<String>())?;
            }
            match page["next"].take() {
                Value::Null => break,
                next => fields["after"] = next,
            }
        }
        if self.common.json {
            return tell_line(&json!({ name: all }));
        }
        let row = |entry: &Value| columns.iter().map(|column| word(entry, column)).collect();
        let rows: Vec<Vec<String>> = all.iter().map(row).collect();
        if rows.is_empty() { Ok(()) } else { tell(&table(Paint::stdout(), columns, &rows)) }
    }

    fn settings(&self) -> Result<Config, Failure> {
        Ok(Flags::of_file(self.config.as_deref()).settings()?.config)
    }
}

fn beside(data: &Path, body: Value) -> Result<Value, Failure> {
    Remote::find(data)?.administer("/operator/admin", &body)
}

/// Formats a field of a report for people; `-` if absent.
pub(super) fn word(report: &Value, name: &str) -> String {
    match &report[name] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(all) => {
            let all: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
            all.join(",")
        }
        other => other.to_string(),
    }
}

/// Formats several fields of a report, separated by two spaces.
pub(super) fn words(report: &Value, names: &[&str]) -> String {
    let words: Vec<String> = names.iter().map(|name| word(report, name)).collect();
    words.join("  ")
}
