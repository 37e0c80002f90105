//! What one ingest did, or why it did not.

use std::collections::BTreeSet;
use std::fmt;

use engine::{Damage, ItemId, SearchError, WriteError};
use serde_json::{Value, json};

use super::held::Held;
use crate::names;
use crate::secrets::{self, Kind};

/// Skipped files and errors that a report lists; the rest is counted.
const LISTED_MAX: usize = 100;

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
}

impl Report {
    /// `{job_id, files, items, unchanged, superseded, skipped[], errors[]}` and what else there is.
    pub fn to_json(&self) -> Value {
        let listed = |pairs: &[(String, String)]| {
            let rows = pairs.iter().map(|(path, why)| json!({"path": path, "why": why}));
            Value::Array(rows.collect())
        };
        let secrets: Value = self
            .secrets
            .iter()
            .map(|(path, line, kind)| json!({"path": path, "line": line, "kind": kind.name()}))
            .collect();
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
        let room = LISTED_MAX.saturating_sub(self.secrets.len());
        let path = secrets::masked(path);
        let listed = held.listed.iter().take(room);
        self.secrets.extend(listed.map(|&(line, kind)| (path.clone(), line, kind)));
    }

    pub(super) fn skip(&mut self, path: String, why: String) {
        self.skipped_count += 1;
        if self.skipped.len() < LISTED_MAX {
            self.skipped.push((secrets::masked(&path), why));
        }
    }

    pub(super) fn fail(&mut self, path: String, why: String) {
        self.errors_count += 1;
        if self.errors.len() < LISTED_MAX {
            self.errors.push((secrets::masked(&path), why));
        }
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
