//! Why a tool gave no answer, in words and for programs.
//!
//! Owns the kinds of failure and what each is told as. Must not know how an answer is sent.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use engine::ledger::Outcome;
use engine::{Damage, ItemId, Micros, Remedy, SearchError, WriteError};

use super::answer::raised_by;
use recalld_cluster::NotHere;
use recalld_common::counted::{agreed, counted};
use recalld_common::names;
use recalld_policy::identity::IdentityFault;
use recalld_secret_scan::Kind;
use recalld_workspace::tenants::Closed;

/// What a tenant is told of the reasons for a fault of ours.
pub const IN_THE_LOG: &str = "the server's log says why";

/// What a job had stored when it broke off.
#[derive(Debug, Default)]
pub struct Stored {
    /// Items that it had written.
    pub written: Vec<ItemId>,
    /// Those that secrets raised, and the rule that names these.
    pub raised: Option<(Vec<ItemId>, String)>,
    /// Those that are less sensitive than what they replace.
    pub lowered: Vec<ItemId>,
}

/// Why a tool gave no answer. Nothing was written, except by a job that broke off: what it had stored
/// by then stays.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServiceError {
    /// An argument is wrong.
    Argument {
        /// Which.
        field: String,
        /// What was given and what is allowed.
        why: String,
    },
    /// What the arguments name is not there.
    Missing {
        /// Which argument.
        field: &'static str,
        /// What was looked for.
        why: String,
    },
    /// The call was called off.
    Cancelled,
    /// The call took longer than it may.
    TimedOut {
        /// The longest it may take.
        limit: Duration,
    },
    /// Policy denies it. To the caller this reads as if it were not there.
    Denied {
        /// Which argument names it.
        field: &'static str,
        /// What was looked for, in the words that a missing one gets.
        why: String,
        /// The item.
        item: ItemId,
        /// Name of the rule.
        rule: String,
    },
    /// A job that had stored something broke off. Comes from a tool to [`governed`](super::governed()) alone, which
    /// notes what was written and goes on with `error`.
    BrokenOff {
        /// Why.
        error: Box<ServiceError>,
        /// What it had stored.
        stored: Box<Stored>,
    },
    /// The work panicked: a fault of ours.
    Panicked,
    /// Stored bytes are damaged.
    Damaged(Damage),
    /// The store takes no writes now.
    Unwritable(String),
    /// What was to be written is on its way, and nobody knows whether it arrives.
    Unsure(String),
    /// The ledger takes no entries, so no governed call may be answered.
    Unaudited(String),
    /// The workspace is not open.
    Closed(Closed),
    /// It belongs to another node, or what is here is too old.
    NotHere(NotHere),
    /// The calls of the month are used up.
    QuotaExceeded {
        /// When the next month begins.
        resets_at: Micros,
        /// Until then.
        wait: Duration,
    },
    /// No call can be reserved, so none may run.
    Unmetered(String),
    /// Nothing may be written before the workspace's e-mail address is verified.
    Unverified,
    /// It is not known for whom the call is made, and has to be.
    Unidentified(IdentityFault),
}

impl ServiceError {
    /// A wrong argument.
    pub fn argument(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Argument { field: field.into(), why: why.into() }
    }

    /// For programs, in `snake_case`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Argument { .. } => "invalid_argument",
            Self::Missing { .. } | Self::Denied { .. } => "not_found",
            Self::Cancelled => "cancelled",
            Self::TimedOut { .. } => "timed_out",
            Self::BrokenOff { error, .. } => error.reason(),
            Self::Panicked => "internal_error",
            Self::Damaged(_) => "store_damaged",
            Self::Unwritable(_) => "store_unwritable",
            Self::Unsure(_) => "write_unsure",
            Self::Unaudited(_) => "ledger_unavailable",
            Self::Closed(_) => "workspace_unavailable",
            Self::NotHere(why) => why.reason(),
            Self::QuotaExceeded { .. } => "quota_exceeded",
            Self::Unmetered(_) => "metering_unavailable",
            Self::Unverified => "email_not_verified",
            Self::Unidentified(fault) => fault.reason(),
        }
    }

    /// The error of a job that had stored so many items, documents among them, before it broke off.
    pub fn after(mut self, items: u64, documents: Vec<ItemId>) -> Self {
        if documents.is_empty() {
            return self;
        }
        let said = match &mut self {
            Self::Argument { why, .. } | Self::Unwritable(why) => Some(why),
            Self::Damaged(damage) => Some(&mut damage.detail),
            _ => None,
        };
        if let Some(said) = said {
            said.push_str(&format!(
                "; {} of {} {} stored before, and {}",
                counted(items, "item"),
                counted(documents.len(), "file"),
                agreed(items, "was", "were"),
                agreed(items, "stays", "stay"),
            ));
        }
        let stored = Stored { written: documents, ..Stored::default() };
        Self::BrokenOff { error: Box::new(self), stored: Box::new(stored) }
    }

    /// The same of documents that are less sensitive than what they replace.
    pub fn lowering(mut self, items: Vec<ItemId>) -> Self {
        if let Self::BrokenOff { stored, .. } = &mut self {
            stored.lowered = items;
        }
        self
    }

    /// The same of items that secrets of these kinds raised, where it had stored any.
    pub fn raising(mut self, items: Vec<ItemId>, kinds: &BTreeSet<Kind>) -> Self {
        if let Self::BrokenOff { stored, .. } = &mut self
            && !items.is_empty()
        {
            stored.raised = Some((items, raised_by(kinds)));
        }
        self
    }

    /// Whether it says that something is not there, which is what a denial says, too.
    pub(super) fn may_hide_a_denial(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Denied { .. })
    }

    /// Whether only the operator can mend it.
    pub fn is_ours(&self) -> bool {
        use ServiceError::{Closed, Damaged, Panicked, Unaudited, Unmetered, Unsure, Unwritable};
        let plain = matches!(self, Damaged(_) | Unwritable(_) | Unsure(_) | Unaudited(_));
        plain || matches!(self, Closed(_) | Unmetered(_) | Panicked)
    }

    /// Whether it may name files of the server, or objects of its remote.
    pub(super) fn may_name_files(&self) -> bool {
        let is_filling = matches!(self, Self::NotHere(NotHere::Filling(_)));
        is_filling
            || matches!(
                self,
                Self::Damaged(_) | Self::Unaudited(_) | Self::Unsure(_) | Self::Unwritable(_)
            )
    }

    /// The same for those who may not know why: that may name a file.
    pub(super) fn without_why(mut self) -> Self {
        match &mut self {
            Self::Unwritable(why)
            | Self::Unsure(why)
            | Self::Unaudited(why)
            | Self::NotHere(NotHere::Filling(why)) => {
                IN_THE_LOG.clone_into(why);
            }
            Self::Damaged(damage) => IN_THE_LOG.clone_into(&mut damage.detail),
            _ => {}
        }
        self
    }

    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Argument { .. }
            | Self::Missing { .. }
            | Self::Denied { .. }
            | Self::QuotaExceeded { .. }
            | Self::Unmetered(_)
            | Self::Unverified
            | Self::Unidentified(_) => Outcome::Refused,
            Self::Cancelled | Self::TimedOut { .. } => Outcome::Cancelled,
            Self::BrokenOff { error, .. } => error.outcome(),
            _ => Outcome::Failed,
        }
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument { field, why } => write!(f, "{field}: {why}"),
            Self::Missing { field, why } | Self::Denied { field, why, .. } => {
                write!(f, "{field}: {why}")
            }
            Self::Cancelled => write!(f, "the call was cancelled; nothing more was done"),
            Self::TimedOut { limit } => write!(f, "took longer than {} s", limit.as_secs_f32()),
            Self::BrokenOff { error, .. } => error.fmt(f),
            Self::Panicked => f.write_str("Internal error"),
            Self::Damaged(damage) => write!(f, "stored bytes are damaged ({damage})"),
            Self::Unwritable(why) => write!(f, "the store takes no writes now: {why}"),
            Self::Unsure(why) => write!(
                f,
                "nobody knows whether this is written: look for it before it is asked for again ({why})"
            ),
            Self::Unaudited(why) => write!(f, "the audit ledger takes no entries: {why}"),
            Self::Closed(why) => why.fmt(f),
            Self::NotHere(why) => why.fmt(f),
            Self::QuotaExceeded { resets_at, .. } => write!(
                f,
                "the calls of this month are used up; there are more from {} on",
                names::time(*resets_at)
            ),
            // Why may name a file, which is nothing for callers: the log has it.
            Self::Unmetered(_) => f.write_str("calls cannot be counted now; try again"),
            Self::Unidentified(fault) => fault.fmt(f),
            Self::Unverified => f.write_str(
                "nothing may be stored before the e-mail address of the workspace is confirmed; follow \
                 the link in the mail",
            ),
        }
    }
}

impl std::error::Error for ServiceError {}

impl From<Closed> for ServiceError {
    fn from(closed: Closed) -> Self {
        Self::Closed(closed)
    }
}

impl From<NotHere> for ServiceError {
    fn from(why: NotHere) -> Self {
        Self::NotHere(why)
    }
}

impl From<Damage> for ServiceError {
    fn from(damage: Damage) -> Self {
        match damage.is_away() {
            true => Self::NotHere(NotHere::Filling(damage.detail)),
            false => Self::Damaged(damage),
        }
    }
}

impl From<SearchError> for ServiceError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Damaged(damage) => damage.into(),
            // Where it was the time that ran out, the call is told so when its outcome is recorded.
            _ => Self::Cancelled,
        }
    }
}

impl From<WriteError> for ServiceError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused { field, why } => Self::argument(field, why),
            WriteError::Damaged(damage) => damage.into(),
            // It was written here when the call came; the next one goes where it belongs.
            WriteError::NotHere(why) => Self::NotHere(NotHere::Nowhere(why)),
            WriteError::Unsure(why) => Self::Unsure(why),
            other if other.remedy() == Remedy::FixRequest => {
                Self::argument("request", other.to_string())
            }
            other => Self::Unwritable(other.to_string()),
        }
    }
}
