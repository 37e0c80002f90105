//! Errors of tool calls, as text and as reason codes for programs.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use engine::ledger::Outcome;
use engine::{CorruptionError, ItemId, Micros, Remedy, SearchError, WriteError};

use super::answer::raised_by;
use recalld_cluster::NotHere;
use recalld_common::counted::{agreed, counted};
use recalld_common::names;
use recalld_policy::identity::IdentityFault;
use recalld_secret_scan::Kind;
use recalld_workspace::tenants::Closed;

/// Reason that a tenant gets for a server fault.
pub const IN_THE_LOG: &str = "the server's log says why";

/// Items that a job had stored before it stopped.
#[derive(Debug, Default)]
pub struct Stored {
    /// Items that the job wrote.
    pub written: Vec<ItemId>,
    /// Items raised by secrets, and the rule name that lists the kinds.
    pub raised: Option<(Vec<ItemId>, String)>,
    /// Items that are less sensitive than the items that they supersede.
    pub lowered: Vec<ItemId>,
}

/// Error of a tool call. Nothing was written, except by a partially applied job, whose stored items stay.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServiceError {
    /// An argument is wrong.
    Argument {
        /// Name of the argument.
        field: String,
        /// The value received and the allowed values.
        why: String,
    },
    /// An argument names a thing that does not exist.
    Missing {
        /// Argument that names the missing thing.
        field: &'static str,
        /// Text for the caller.
        why: String,
    },
    /// The caller cancelled the call.
    Cancelled,
    /// The call exceeded its time limit.
    TimedOut {
        /// The time limit.
        limit: Duration,
    },
    /// Policy denies access. The caller gets the response of [`Self::Missing`].
    Denied {
        /// Argument that names the item.
        field: &'static str,
        /// Text for the caller, equal to the text for a missing item.
        why: String,
        /// The denied item.
        item: ItemId,
        /// Name of the policy rule.
        rule: String,
    },
    /// A job stopped after it had stored items. Only [`governed`](super::governed()) receives this error from a tool:
    /// `governed` records the written items and returns `error`.
    BrokenOff {
        /// Cause of the stop.
        error: Box<ServiceError>,
        /// Items stored before the stop.
        stored: Box<Stored>,
    },
    /// The tool panicked (server fault).
    Panicked,
    /// Stored bytes are damaged.
    Damaged(CorruptionError),
    /// The store does not accept writes now.
    Unwritable(String),
    /// The write was submitted, but its outcome is unknown.
    Unsure(String),
    /// The ledger does not accept entries, so no audited call may be answered.
    Unaudited(String),
    /// The workspace is not open.
    Closed(Closed),
    /// Another node leads the workspace, or the local replica is too stale.
    NotHere(NotHere),
    /// The monthly call quota is exhausted.
    QuotaExceeded {
        /// Start of the next month.
        resets_at: Micros,
        /// Time until `resets_at`.
        wait: Duration,
    },
    /// The quota cannot be reserved, so the call must not run.
    Unmetered(String),
    /// Nothing may be written before the e-mail address of the workspace is verified.
    Unverified,
    /// The call requires an identity of the acting user, and none is known.
    Unidentified(IdentityFault),
}

impl ServiceError {
    /// Builds an argument error.
    pub fn argument(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Argument { field: field.into(), why: why.into() }
    }

    /// Reason code in `snake_case`.
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

    /// Marks the error of a job as partially applied: the job had stored `items` items, including `documents`.
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

    /// Records stored documents that are less sensitive than the documents that they supersede. No effect unless the
    /// error is [`Self::BrokenOff`].
    pub fn lowering(mut self, items: Vec<ItemId>) -> Self {
        if let Self::BrokenOff { stored, .. } = &mut self {
            stored.lowered = items;
        }
        self
    }

    /// Records stored items that secrets of these kinds raised. No effect if `items` is empty or the error is not
    /// [`Self::BrokenOff`].
    pub fn raising(mut self, items: Vec<ItemId>, kinds: &BTreeSet<Kind>) -> Self {
        if let Self::BrokenOff { stored, .. } = &mut self
            && !items.is_empty()
        {
            stored.raised = Some((items, raised_by(kinds)));
        }
        self
    }

    /// Returns true for "not found" errors, which are also the response to a denial.
    pub(super) fn may_hide_a_denial(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Denied { .. })
    }

    /// Returns true if only the operator can fix the cause.
    pub fn is_ours(&self) -> bool {
        use ServiceError::{Closed, Damaged, Panicked, Unaudited, Unmetered, Unsure, Unwritable};
        let plain = matches!(self, Damaged(_) | Unwritable(_) | Unsure(_) | Unaudited(_));
        plain || matches!(self, Closed(_) | Unmetered(_) | Panicked)
    }

    /// Returns true if the text may name files of the server or objects of its remote.
    pub(super) fn may_name_files(&self) -> bool {
        let is_filling = matches!(self, Self::NotHere(NotHere::Filling(_)));
        is_filling
            || matches!(
                self,
                Self::Damaged(_) | Self::Unaudited(_) | Self::Unsure(_) | Self::Unwritable(_)
            )
    }

    /// Replaces the reason by [`IN_THE_LOG`], because the reason may name a file.
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
            // The reason may name a file, so only the log has it.
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

impl From<CorruptionError> for ServiceError {
    fn from(damage: CorruptionError) -> Self {
        match damage.is_unavailable() {
            true => Self::NotHere(NotHere::Filling(damage.detail)),
            false => Self::Damaged(damage),
        }
    }
}

impl From<SearchError> for ServiceError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Damaged(damage) => damage.into(),
            // A timeout also arrives here; `recorded` replaces it by `TimedOut` when it records the outcome.
            _ => Self::Cancelled,
        }
    }
}

impl From<WriteError> for ServiceError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused { field, why } => Self::argument(field, why),
            WriteError::Damaged(damage) => damage.into(),
            // This node was the leader when the call arrived; the next call is routed to the new leader.
            WriteError::NotLeader(why) => Self::NotHere(NotHere::Nowhere(why)),
            WriteError::Indeterminate(why) => Self::Unsure(why),
            other if other.remedy() == Remedy::FixRequest => {
                Self::argument("request", other.to_string())
            }
            other => Self::Unwritable(other.to_string()),
        }
    }
}
