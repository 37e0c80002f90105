//! Report and errors of an ingest job.

use std::collections::BTreeSet;
use std::fmt;

use engine::{CorruptionError, ItemId, SearchError, WriteError};
use serde_json::{Value, json};

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
fn add<T>(list: &mut Vec<T>, room: &mut usize, row: T, shown: &Value) {
    let needed = shown.to_string().len() + 1; // a comma
    let has_room = list.len() < LISTED_MAX && needed <= *room;
    *room = if has_room { *room - needed } else { 0 };
    if has_room {
        list.push(row);
    }
}

fn told(path: &str, why: &str) -> Value {
    json!({"path": path, "why": why})
}

fn told_secret(path: &str, line: u32, kind: Kind) -> Value {
    json!({"path": path, "line": line, "kind": kind.name()})
}

impl Report {
    /// The report as JSON: `{job_id, files, items, unchanged, superseded, skipped[], errors[]}` and further counts.
    pub fn to_json(&self) -> Value {
        let listed = |pairs: &[(String, String)]| -> Value {
            pairs.iter().map(|(path, why)| told(path, why)).collect()
        };
        let secrets = self.secrets.iter();
        let secrets: Value =
            secrets.map(|(path, line, kind)| told_secret(path, *line, *kind)).collect();
        json!({
            "job_id": self.job.map(|id| names::item("job", id)),
            "files": self.files, "items": self.items, "embedded": self.embedded,
            "unchanged": self.unchanged,
            "superseded": self.superseded, "links": self.links,
            "skipped": listed(&self.skipped), "skipped_count": self.skipped_count,
            "errors": listed(&self.errors), "errors_count": self.errors_count,
            "secrets": secrets, "secrets_count": self.secrets_count,
            "cancelled": self.cancelled,
            "truncated": self.skipped_count > self.skipped.len() as u64
                || self.errors_count > self.errors.len() as u64
                || self.secrets_count > self.secrets.len() as u64,
        })
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
            let shown = told_secret(&path, line, kind);
            add(&mut self.secrets, &mut self.room.secrets, (path.clone(), line, kind), &shown);
        }
    }

    pub(super) fn skip(&mut self, path: String, why: String) {
        self.skipped_count += 1;
        let path = recalld_secret_scan::masked(&path);
        let shown = told(&path, &why);
        add(&mut self.skipped, &mut self.room.skipped, (path, why), &shown);
    }

    pub(super) fn fail(&mut self, path: String, why: String) {
        self.errors_count += 1;
        let path = recalld_secret_scan::masked(&path);
        let shown = told(&path, &why);
        add(&mut self.errors, &mut self.room.errors, (path, why), &shown);
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
        let shown = report.to_json();
        assert!(shown["errors"].to_string().len() <= LISTED_BYTES_MAX);
        assert_eq!(shown["truncated"], true);
        report.fail("short".to_owned(), "broken".to_owned());
        assert_eq!(report.errors.len(), 15, "the first ones are told, none between");
    }
}
