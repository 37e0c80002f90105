//! What those did at the sign-in page who showed no good key: they said no, or were refused.
//!
//! Each has an entry in the ledger of the workspace that they named, if there is one. It is written by a thread of
//! its own a moment later: an answer that waited for the ledger would say by its time which workspaces there are.

use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::Micros;
use engine::ledger::{Decision, Outcome};
use serde_json::json;

use recalld_audit::{Trace, hash_call};
use recalld_metastore::Control;
use recalld_metastore::TenantState;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};
use recalld_workspace::tenants::Tenants;

/// The operation in ledgers.
pub(super) const OPERATION: &str = "oauth/authorize";
/// Attempts that wait to be written. The budgets of guesses let through far fewer in the second that they wait.
pub(crate) const ATTEMPTS_WAIT_MAX: usize = 1_024;
/// Entries of a workspace in a minute: strangers cannot make its ledger grow faster.
pub(crate) const ATTEMPTS_WRITTEN_MAX: usize = 10;
/// Attempts that are still written when the server closes down; each may have to open a workspace.
const LAST_ATTEMPTS_MAX: usize = 64;
/// A minute, in microseconds.
const MINUTE_MICROS: i64 = 60_000_000;

/// Who asks where nobody signed in.
const NOBODY: &str = "nobody";

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The workspace that was named, whether there is one or not.
    pub workspace: String,
    /// The client that asked.
    pub client: String,
    /// What decided: `person`, who said no, or `credential`, which was not good.
    pub rule: &'static str,
}

/// The attempts that wait, and which were written in this minute.
#[derive(Default)]
pub struct Attempts {
    waiting: Mutex<Waiting>,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Waiting {
    attempts: Vec<Attempt>,
    /// How many found no room since the others were written.
    lost: u64,
}

/// What has an entry of this minute. Only of workspaces that are there, [`ATTEMPTS_WRITTEN_MAX`] of each.
#[derive(Default)]
struct Written {
    minute: i64,
    of: HashMap<String, Vec<(String, &'static str)>>,
}

/// What became of an attempt in a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Written,
    /// There is no such workspace, or an entry of this minute stands for it.
    None,
    TooMany,
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
    pub fn write(&self, control: &Control, tenants: &Tenants, now: Micros) {
        self.write_some((control, tenants), now, ATTEMPTS_WAIT_MAX);
    }

    /// Writes those that wait when the server closes down, which must not take long.
    pub fn write_last(&self, control: &Control, tenants: &Tenants, now: Micros) {
        self.write_some((control, tenants), now, LAST_ATTEMPTS_MAX);
    }

    fn write_some(&self, (control, tenants): (&Control, &Tenants), now: Micros, most: usize) {
        let Waiting { mut attempts, mut lost } = mem::take(&mut *self.waiting());
        lost += attempts.len().saturating_sub(most) as u64;
        attempts.truncate(most);
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.begin(now);
        for attempt in attempts {
            match attempt.write((control, tenants), &mut written) {
                Ok(Entry::Written | Entry::None) => {}
                Ok(Entry::TooMany) => lost += 1,
                Err(why) => {
                    let what = "a sign-in that was refused has no entry in its ledger";
                    let workspace = Value::Text(&attempt.workspace);
                    let fields = [("workspace", workspace), ("why", Value::Text(&why))];
                    log::event(Level::Warn, what, &fields);
                }
            }
        }
        if lost > 0 {
            let what = "sign-ins were refused that have no entry in a ledger: too many at once";
            log::event(Level::Warn, what, &[("count", Value::Count(lost))]);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Written {
    /// Forgets what was written in another minute.
    fn begin(&mut self, now: Micros) {
        let minute = now.0.div_euclid(MINUTE_MICROS);
        if minute != self.minute {
            *self = Self { minute, of: HashMap::new() };
        }
    }

    /// Which entry an attempt is to have: one if it is the first of its kind in this minute, and there is room.
    fn take(&mut self, attempt: &Attempt) -> Entry {
        let of = self.of.entry(attempt.workspace.clone()).or_default();
        if of.iter().any(|one| *one == (attempt.client.clone(), attempt.rule)) {
            return Entry::None;
        }
        if of.len() >= ATTEMPTS_WRITTEN_MAX {
            return Entry::TooMany;
        }
        of.push((attempt.client.clone(), attempt.rule));
        Entry::Written
    }
}

impl Attempt {
    /// Writes its entry, if there is such a workspace. Whoever mistyped may have named anything, be it a secret: so
    /// nothing is said of one that is not there.
    fn write(
        &self,
        (control, tenants): (&Control, &Tenants),
        written: &mut Written,
    ) -> Result<Entry, String> {
        let tenant = control.find_tenant(&self.workspace).map_err(|why| why.to_string())?;
        if tenant.is_none_or(|tenant| tenant.state == TenantState::Deleted) {
            return Ok(Entry::None);
        }
        match written.take(self) {
            Entry::Written => {}
            none => return Ok(none),
        }
        let arguments = json!({"client_id": self.client});
        let trace = Trace {
            tool: OPERATION,
            principal: NOBODY.to_owned(),
            arguments: hash_call(OPERATION, &arguments),
            decision: Decision::Deny,
            rule: self.rule.to_owned(),
            touched: Vec::new(),
            outcome: Outcome::Refused,
        };
        let workspace = tenants.visit(&self.workspace).map_err(|why| why.to_string())?;
        workspace.audit.record(&trace, false).map(|_| Entry::Written).map_err(|why| why.to_string())
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

    #[test]
    fn a_minute_has_one_entry_of_each_kind_and_few_of_a_workspace() {
        let attempt = |workspace: &str, client: usize, rule| Attempt {
            workspace: workspace.to_owned(),
            client: client.to_string(),
            rule,
        };
        let mut written = Written::default();
        written.begin(Micros(0));
        assert_eq!(written.take(&attempt("acme", 0, "person")), Entry::Written);
        assert_eq!(written.take(&attempt("acme", 0, "person")), Entry::None, "it has its entry");
        assert_eq!(written.take(&attempt("acme", 0, "credential")), Entry::Written);
        let took: Vec<Entry> =
            (1..100).map(|client| written.take(&attempt("acme", client, "person"))).collect();
        let room = ATTEMPTS_WRITTEN_MAX - 2;
        assert!(took[..room].iter().all(|entry| *entry == Entry::Written));
        assert!(took[room..].iter().all(|entry| *entry == Entry::TooMany));
        assert_eq!(written.take(&attempt("globex", 0, "person")), Entry::Written, "its own");
        written.begin(Micros(MINUTE_MICROS - 1));
        assert_eq!(written.take(&attempt("acme", 0, "person")), Entry::None);
        written.begin(Micros(MINUTE_MICROS));
        assert_eq!(written.take(&attempt("acme", 0, "person")), Entry::Written, "another minute");
    }
}
