//! Context and response parts shared by all acts of administration.

use std::fmt;
use std::path::Path;

use engine::Micros;
use engine::ledger::{Decision, Outcome};
use serde_json::{Value, json};

use crate::app_state::AppState;
use recalld_audit::{Audit, BY_SCOPE, Trace, hash_call};
use recalld_common::names;
use recalld_config::Config;
use recalld_http_server::refusal::Refusal;
use recalld_metastore::{Control, ControlError, LISTED_MAX, Tenant, TenantState};

/// Context of an act.
pub struct Office<'a> {
    pub(super) data: &'a Path,
    pub(super) control: &'a Control,
    pub(super) audit: &'a Audit,
    pub(super) config: &'a Config,
    pub(super) principal: &'a str,
    pub(super) now: Micros,
    /// State of the running server; `None` in a command.
    pub(super) live: Option<&'a AppState>,
}

/// Error of an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminError {
    /// The named entity does not exist.
    No(String),
    /// A field of the request is invalid.
    Wrong {
        /// Name of the field.
        field: String,
        /// The value found and the values allowed.
        why: String,
    },
    /// The act failed; the message says how to proceed.
    Failed(String),
}

impl AdminError {
    pub(super) fn wrong(field: &str, why: impl Into<String>) -> Self {
        Self::Wrong { field: field.to_owned(), why: why.into() }
    }

    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::No(_) | Self::Wrong { .. } => Outcome::Refused,
            Self::Failed(_) => Outcome::Failed,
        }
    }
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::No(why) | Self::Failed(why) => f.write_str(why),
            Self::Wrong { field, why } => write!(f, "`{field}`: {why}"),
        }
    }
}

impl std::error::Error for AdminError {}

impl From<ControlError> for AdminError {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Refused { field, why } => Self::wrong(field, why),
            fault => Self::Failed(fault.to_string()),
        }
    }
}

impl From<AdminError> for Refusal {
    fn from(error: AdminError) -> Self {
        let detail = error.to_string();
        match error {
            AdminError::No(_) => Self::new(404, &detail),
            AdminError::Wrong { .. } => Self::new(422, &detail),
            AdminError::Failed(_) => Self::unavailable(&detail),
        }
    }
}

impl Office<'_> {
    /// Records a ledger entry, which is durable when this function returns.
    pub(super) fn record(
        &self,
        tool: &'static str,
        arguments: &Value,
        outcome: Outcome,
    ) -> Result<(), AdminError> {
        let is_refused = outcome == Outcome::Refused;
        let trace = Trace {
            tool,
            principal: self.principal.to_owned(),
            arguments: hash_call(tool, arguments),
            decision: if is_refused { Decision::Deny } else { Decision::Allow },
            rule: BY_SCOPE.to_owned(),
            touched: Vec::new(),
            outcome,
        };
        let recorded = self.audit.record(&trace, true);
        recorded.map(drop).map_err(|error| {
            let what = "the ledger took no entry";
            AdminError::Failed(format!("{what}: {error}; free space, start again and repeat it"))
        })
    }

    /// Returns the workspace if it exists and is not deleted.
    pub(super) fn living(&self, slug: &str) -> Result<Tenant, AdminError> {
        let found = self.control.find_tenant(slug)?;
        found
            .filter(|tenant| tenant.state != TenantState::Deleted)
            .ok_or_else(|| AdminError::No(format!("there is no workspace {slug:?}")))
    }
}

/// Describes a workspace in a response.
pub(super) fn shown(tenant: &Tenant) -> Value {
    json!({
        "slug": tenant.slug, "title": tenant.title, "plan": tenant.plan, "state": tenant.state,
        "made_at": time(tenant.made_at), "deleted_at": tenant.deleted_at.map(time),
        "emptied_at": tenant.emptied_at.map(time),
        "email": tenant.email, "email_verified_at": tenant.email_verified_at.map(time),
        "calls_per_month": tenant.calls_per_month,
    })
}

/// Formats seconds since 1970 for a response.
pub(super) fn time(seconds: u64) -> String {
    let micros = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    names::time(Micros(micros))
}

/// Builds a page of a list with `next`, the key after which the next page begins; null on the last page.
pub(super) fn page(name: &str, entries: Vec<Value>, last: Option<String>) -> Value {
    let is_full = entries.len() >= LISTED_MAX;
    json!({name: entries, "next": last.filter(|_| is_full)})
}
