//! What one ingest did, or why it did not.

use std::collections::BTreeSet;
use std::fmt;

use engine::{Damage, ItemId, SearchError, WriteError};
use serde_json::{Value, json};

use super::held::Held;
use recalld_common::names;
use recalld_secret_scan::Kind;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Rows of each list of a report: skipped files, errors, secrets; the rest is counted.
    const LISTED_MAX: usize = 100;
    /// Bytes of the rows of each list, as JSON: paths may be long.
    const LISTED_BYTES_MAX: usize = 16 << 10;
}

/// What was done.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The job; `None` where there was nothing to do.
    pub job: Option<ItemId>,
    /// Files looked at.
    pub files: u64,
    /// Items written: documents and chunks.
    pub items: u64,
    /// Texts that were embedded for it; none of what is unchanged.
    pub embedded: u64,
    /// Files that are stored as they are.
    pub unchanged: u64,
    /// Files whose older version was superseded.
    pub superseded: u64,
    /// Edges made of links between files.
    pub links: u64,
    /// Files passed over, and why.
    pub skipped: Vec<(String, String)>,
    /// How many were passed over in all.
    pub skipped_count: u64,
    /// Files that could not be read or stored, and why.
    pub errors: Vec<(String, String)>,
    /// How many there were in all.
    pub errors_count: u64,
    /// Secrets in what was stored: file, line, kind.
    pub secrets: Vec<(String, u32, Kind)>,
    /// How many there were in all.
    pub secrets_count: u64,
    /// Their kinds.
    pub secret_kinds: BTreeSet<Kind>,
    /// Items that are more sensitive than was asked for, since they hold one.
    pub raised: Vec<ItemId>,
    /// Whether the job ended early.
    pub cancelled: bool,
    /// Documents written.
    pub documents: Vec<ItemId>,
    /// Those that are less sensitive than their version before, since that was asked for.
    pub lowered: Vec<ItemId>,
    /// Room that is left for rows.
    room: Rooms,
}

/// Bytes that each list still has.
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

/// Adds a row to a list that has room for it; one that had none for a row before takes no more.
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
    /// `{job_id, files, items, unchanged, superseded, skipped[], errors[]}` and what else there is.
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

    /// Counts a document of so many items that is written.
    pub(super) fn count(&mut self, items: usize, supersedes: bool) {
        self.items += items as u64;
        self.superseded += u64::from(supersedes);
    }

    /// Notes the secrets of a document. One in its path is not repeated.
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

/// A job that did not come to its end.
#[derive(Debug)]
pub struct BrokenOff {
    /// Why.
    pub error: JobError,
    /// What it had done by then, which stays.
    pub report: Box<Report>,
}

/// Why a job did not begin, or stopped. What it had stored by then stays.
#[derive(Debug)]
pub enum JobError {
    /// A path or a pattern of the request cannot be used.
    Request {
        /// The argument.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The store refused.
    Write(WriteError),
    /// Stored bytes are damaged.
    Damaged(Damage),
    /// A look at the store was called off.
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

impl From<Damage> for JobError {
    fn from(damage: Damage) -> Self {
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
