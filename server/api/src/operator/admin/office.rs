//! What every act of administration works with, and shows.

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

/// What an act works with.
pub struct Office<'a> {
    pub(super) data: &'a Path,
    pub(super) control: &'a Control,
    pub(super) audit: &'a Audit,
    pub(super) config: &'a Config,
    pub(super) principal: &'a str,
    pub(super) now: Micros,
    /// Of the server that has the data.
    pub(super) live: Option<&'a AppState>,
}

/// Why an act was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminError {
    /// There is nothing of that name.
    No(String),
    /// What was asked for is wrong, in this field.
    Wrong {
        /// What of it.
        field: String,
        /// What was found, and what is allowed.
        why: String,
    },
    /// It could not be done; with what to do.
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
    /// An entry of the ledger, on disk when this returns.
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

    /// The workspace, if it is there and not deleted.
    pub(super) fn living(&self, slug: &str) -> Result<Tenant, AdminError> {
        let found = self.control.find_tenant(slug)?;
        found
            .filter(|tenant| tenant.state != TenantState::Deleted)
            .ok_or_else(|| AdminError::No(format!("there is no workspace {slug:?}")))
    }
}

/// A workspace as answers show it.
pub(super) fn shown(tenant: &Tenant) -> Value {
    json!({
        "slug": tenant.slug, "title": tenant.title, "plan": tenant.plan, "state": tenant.state,
        "made_at": time(tenant.made_at), "deleted_at": tenant.deleted_at.map(time),
        "emptied_at": tenant.emptied_at.map(time),
        "email": tenant.email, "email_verified_at": tenant.email_verified_at.map(time),
        "calls_per_month": tenant.calls_per_month,
    })
}

/// Seconds since 1970 as answers show them.
pub(super) fn time(seconds: u64) -> String {
    let micros = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    names::time(Micros(micros))
}

/// A page of a list, and after what the next one begins; null after the last.
pub(super) fn page(name: &str, entries: Vec<Value>, last: Option<String>) -> Value {
    let is_full = entries.len() >= LISTED_MAX;
    json!({name: entries, "next": last.filter(|_| is_full)})
}
