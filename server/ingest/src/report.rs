//! Report and errors of an ingest job.

use std::collections::BTreeSet;
use std::fmt;

use engine::{CorruptionError, ItemId, SearchError, WriteError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::held::Held;
use recalld_common::names;
use recalld_secret_scan::Kind;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of rows of each list of a report (skipped files, errors, secrets); the rest is counted.
    const LISTED_MAX: usize = 100;
    /// Maximum size of each list of a report in bytes of JSON, as paths may be long.
    const LISTED_BYTES_MAX: usize = 16 << 10;
}

/// Report of an ingest job.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Id of the job's record; `None` if nothing changed.
    pub job: Option<ItemId>,
    /// Files read or checked.
    pub files: u64,
    /// Items written: documents and chunks.
    pub items: u64,
    /// Texts embedded by the job, without reused embeddings.
    pub embedded: u64,
    /// Unchanged files.
    pub unchanged: u64,
    /// Files whose older version was superseded.
    pub superseded: u64,
    /// Edges written for links between files.
    pub links: u64,
    /// Skipped files, with the reason.
    pub skipped: Vec<(String, String)>,
    /// Number of all skipped files.
    pub skipped_count: u64,
    /// Files that could not be read or stored, with the reason.
    pub errors: Vec<(String, String)>,
    /// Number of all errors.
    pub errors_count: u64,
    /// Secret findings in stored documents: file, line, kind.
    pub secrets: Vec<(String, u32, Kind)>,
    /// Number of all secret findings.
    pub secrets_count: u64,
    /// The kinds of all secret findings.
    pub secret_kinds: BTreeSet<Kind>,
    /// Items whose sensitivity was raised because they contain a secret.
    pub raised: Vec<ItemId>,
    /// True if the job was cancelled.
    pub cancelled: bool,
    /// Documents written.
    pub documents: Vec<ItemId>,
    /// Documents that are less sensitive than their older version, as requested.
    pub lowered: Vec<ItemId>,
    /// Remaining byte budget of the lists.
    room: Rooms,
}

/// Remaining bytes of each list.
#[derive(Debug, Clone)]
struct Rooms {
    skipped: usize,
    errors: usize,
    secrets: usize,
}

impl Default for Rooms {
    fn default() -> Self {
        let bytes = LISTED_BYTES_MAX;
        Self { skipped: bytes, errors: bytes, secrets: bytes }
    }
}

/// Adds a row to a list within its byte budget. After the first row that does not fit, a list accepts no more rows.
fn add<T>(list: &mut Vec<T>, room: &mut usize, row: T, needed: usize) {
    let has_room = list.len() < LISTED_MAX && needed <= *room;
    *room = if has_room { *room - needed } else { 0 };
    if has_room {
        list.push(row);
    }
}

/// Bytes of a row in a list, as JSON with a comma.
fn bytes_of(row: &impl Serialize) -> usize {
    json!(row).to_string().len() + 1
}

/// A report as answers and the job's record show it.
#[derive(Debug, Serialize)]
pub struct ReportFacts<'r> {
    job_id: Option<String>,
    files: u64,
    items: u64,
    embedded: u64,
    unchanged: u64,
    superseded: u64,
    links: u64,
    skipped: Vec<FileFault<'r>>,
    skipped_count: u64,
    errors: Vec<FileFault<'r>>,
    errors_count: u64,
    secrets: Vec<SecretFinding<'r>>,
    secrets_count: u64,
    cancelled: bool,
    truncated: bool,
}

/// A file that was skipped, or could not be read or stored.
#[derive(Debug, Serialize)]
struct FileFault<'r> {
    path: &'r str,
    why: &'r str,
}

#[derive(Debug, Serialize)]
struct SecretFinding<'r> {
    path: &'r str,
    line: u32,
    kind: &'static str,
}

fn faults(pairs: &[(String, String)]) -> Vec<FileFault<'_>> {
    pairs.iter().map(|(path, why)| FileFault { path, why }).collect()
}

impl<'r> SecretFinding<'r> {
    fn of(path: &'r str, line: u32, kind: Kind) -> Self {
        Self { path, line, kind: kind.name() }
    }
}

impl ReportFacts<'_> {
    /// Truncates each list to `rows_max` rows.
    pub(super) fn cut_to(mut self, rows_max: usize) -> Self {
        self.skipped.truncate(rows_max);
        self.errors.truncate(rows_max);
        self.secrets.truncate(rows_max);
        self
    }
}

/// Text of a job's record.
#[derive(Debug, Serialize)]
pub(super) struct JobRecord<'r> {
    #[serde(flatten)]
    pub(super) report: ReportFacts<'r>,
    pub(super) paths: Vec<String>,
}

/// Fields of a job's stored record. A field is `null` if the record lacks it; an imported record may also have values
/// of other types.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredJob {
    /// Requested paths.
    pub paths: Value,
    /// Files read or checked.
    pub files: Value,
    /// Items written.
    pub items: Value,
    unchanged: Value,
    superseded: Value,
    links: Value,
    skipped_count: Value,
    /// Number of all errors.
    pub errors_count: Value,
    errors: Value,
    secrets_count: Value,
    #[serde(skip_serializing)]
    cancelled: Value,
}

impl StoredJob {
    /// Parses the text of a job's record; without any field if the text is not a record.
    pub fn of(text: &str) -> Self {
        // An object is parsed first, because the derived parser also accepts an array of values.
        let fields: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
        serde_json::from_value(Value::Object(fields)).unwrap_or_default()
    }

    /// Returns true if the job was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled == true
    }
}

impl Report {
    /// The report as answers show it.
    pub fn facts(&self) -> ReportFacts<'_> {
        let secrets = self.secrets.iter();
        let secrets = secrets.map(|(path, line, kind)| SecretFinding::of(path, *line, *kind));
        ReportFacts {
            job_id: self.job.map(|id| names::item("job", id)),
            files: self.files,
            items: self.items,
            embedded: self.embedded,
            unchanged: self.unchanged,
            superseded: self.superseded,
            links: self.links,
            skipped: faults(&self.skipped),
            skipped_count: self.skipped_count,
            errors: faults(&self.errors),
            errors_count: self.errors_count,
            secrets: secrets.collect(),
            secrets_count: self.secrets_count,
            cancelled: self.cancelled,
            truncated: self.skipped_count > self.skipped.len() as u64
                || self.errors_count > self.errors.len() as u64
                || self.secrets_count > self.secrets.len() as u64,
        }
    }

    /// Counts a written document of `items` items.
    pub(super) fn count(&mut self, items: usize, supersedes: bool) {
        self.items += items as u64;
        self.superseded += u64::from(supersedes);
    }

    /// Adds the secret findings of a document. The path is masked, so a secret in the path is not disclosed.
    pub(super) fn hold(&mut self, path: &str, held: &Held) {
        self.secrets_count += held.count;
        self.secret_kinds.extend(&held.kinds);
        let path = recalld_secret_scan::masked(path);
        for &(line, kind) in &held.listed {
            let bytes = bytes_of(&SecretFinding::of(&path, line, kind));
            add(&mut self.secrets, &mut self.room.secrets, (path.clone(), line, kind), bytes);
        }
    }

    pub(super) fn skip(&mut self, path: String, why: String) {
        self.skipped_count += 1;
        let path = recalld_secret_scan::masked(&path);
        let bytes = bytes_of(&FileFault { path: &path, why: &why });
        add(&mut self.skipped, &mut self.room.skipped, (path, why), bytes);
    }

    pub(super) fn fail(&mut self, path: String, why: String) {
        self.errors_count += 1;
        let path = recalld_secret_scan::masked(&path);
        let bytes = bytes_of(&FileFault { path: &path, why: &why });
        add(&mut self.errors, &mut self.room.errors, (path, why), bytes);
    }
}

/// A job that ended with an error.
#[derive(Debug)]
pub struct BrokenOff {
    /// The error.
    pub error: JobError,
    /// Report up to the error; stored documents stay.
    pub report: Box<Report>,
}

/// Reason for which a job did not start, or stopped. Documents stored before the error stay.
#[derive(Debug)]
pub enum JobError {
    /// A path or a pattern of the request is invalid.
    Request {
        /// Name of the argument.
        field: &'static str,
        /// Fault of the argument.
        why: String,
    },
    /// The store rejected the write.
    Write(WriteError),
    /// Stored bytes are damaged.
    Damaged(CorruptionError),
    /// A query of the store was cancelled.
    Interrupted,
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { field, why } => write!(f, "{field}: {why}"),
            Self::Write(error) => error.fmt(f),
            Self::Damaged(damage) => damage.fmt(f),
            Self::Interrupted => SearchError::Interrupted.fmt(f),
        }
    }
}

impl std::error::Error for JobError {}

impl From<WriteError> for JobError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<SearchError> for JobError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Damaged(damage) => Self::Damaged(damage),
            _ => Self::Interrupted,
        }
    }
}

impl From<CorruptionError> for JobError {
    fn from(damage: CorruptionError) -> Self {
        Self::Damaged(damage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_so_many_rows_and_so_many_bytes() {
        let mut report = Report::default();
        for n in 0..LISTED_MAX + 5 {
            report.skip(format!("{n}.bin"), "a binary file".to_owned());
            report.fail(format!("{}/{n}.md", "deep/".repeat(200)), "broken".to_owned());
        }
        assert_eq!((report.skipped.len(), report.skipped_count), (LISTED_MAX, 105));
        assert_eq!((report.errors.len(), report.errors_count), (15, 105));
        let shown = json!(report.facts());
        assert!(shown["errors"].to_string().len() <= LISTED_BYTES_MAX);
        assert_eq!(shown["truncated"], true);
        report.fail("short".to_owned(), "broken".to_owned());
        assert_eq!(report.errors.len(), 15, "the first ones are told, none between");
    }

    #[test]
    fn a_stored_record_is_an_object_whose_missing_fields_are_null() {
        assert!(StoredJob::of(r#"["docs", 1, 2]"#).files.is_null());
        let job = StoredJob::of(r#"{"files": "3", "cancelled": true, "other": 1}"#);
        assert!(job.is_cancelled() && job.files == "3" && job.items.is_null());
    }
}
