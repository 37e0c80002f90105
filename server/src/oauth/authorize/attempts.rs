//! What those did at the sign-in page who showed no good key: they said no, or were refused.
//!
//! Each has an entry in the ledger of the workspace that they named, if there is one. It is written by a thread of
//! its own a moment later: an answer that waited for the ledger would say by its time which workspaces there are.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::ledger::{Decision, Outcome};
use serde_json::json;

use super::OPERATION;
use crate::control::TenantState;
use crate::govern::{Trace, hash_arguments};
use crate::log::{self, Level, Value};
use crate::parts::Parts;

/// Attempts that wait to be written. The budgets of guesses let through far fewer in the second that they wait.
pub const ATTEMPTS_WAIT_MAX: usize = 1_024;

/// Who asks where nobody signed in.
const NOBODY: &str = "nobody";

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The workspace that was named, whether there is one or not.
    pub workspace: String,
    /// The client that asked.
    pub client: String,
    /// What decided: `person`, who said no, or `credential`, which was not good.
    pub rule: &'static str,
}

/// The attempts that wait.
#[derive(Default)]
pub struct Attempts {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    attempts: Vec<Attempt>,
    /// How many found no room since the others were written.
    lost: u64,
}

impl Attempts {
    /// Has an attempt written later; takes as long for any workspace.
    pub(super) fn note(&self, attempt: Attempt) {
        let mut waiting = self.waiting();
        if waiting.attempts.len() < ATTEMPTS_WAIT_MAX {
            waiting.attempts.push(attempt);
        } else {
            waiting.lost += 1;
        }
    }

    /// Writes those that wait. May open workspaces.
    pub fn write(&self, parts: &Parts) {
        let Waiting { attempts, lost } = mem::take(&mut *self.waiting());
        if lost > 0 {
            let what = "sign-ins were refused that have no entry in a ledger: too many at once";
            log::event(Level::Warn, what, &[("count", Value::Count(lost))]);
        }
        for attempt in attempts {
            if let Err(why) = attempt.write(parts) {
                let what = "a sign-in that was refused has no entry in its ledger";
                let fields =
                    [("workspace", Value::Text(&attempt.workspace)), ("why", Value::Text(&why))];
                log::event(Level::Warn, what, &fields);
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt {
    /// Writes its entry, if there is such a workspace. Whoever mistyped may have named anything, be it a secret: so
    /// nothing is said of one that is not there.
    fn write(&self, parts: &Parts) -> Result<(), String> {
        let tenant = parts.control.find_tenant(&self.workspace).map_err(|why| why.to_string())?;
        if tenant.is_none_or(|tenant| tenant.state == TenantState::Deleted) {
            return Ok(());
        }
        let arguments = json!({"client_id": self.client});
        let trace = Trace {
            tool: OPERATION,
            principal: NOBODY.to_owned(),
            arguments: hash_arguments(&json!({"tool": OPERATION, "arguments": arguments})),
            decision: Decision::Deny,
            rule: self.rule.to_owned(),
            touched: Vec::new(),
            outcome: Outcome::Refused,
        };
        let workspace = parts.tenants.open(&self.workspace).map_err(|why| why.to_string())?;
        workspace.audit.record(&trace, false).map(drop).map_err(|why| why.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_waits_and_the_others_are_counted() {
        let attempts = Attempts::default();
        let attempt =
            Attempt { workspace: "acme".to_owned(), client: "c".to_owned(), rule: "person" };
        for _ in 0..ATTEMPTS_WAIT_MAX + 3 {
            attempts.note(attempt.clone());
        }
        let waiting = attempts.waiting();
        assert_eq!((waiting.attempts.len(), waiting.lost), (ATTEMPTS_WAIT_MAX, 3));
    }
}
