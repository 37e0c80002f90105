//! Audit entries of failed sign-ins: the person denied, or the key was invalid.
//!
//! Each attempt gets an entry in the ledger of the named workspace, if the workspace exists. A background thread writes
//! the entry a moment later: waiting for the ledger would reveal by response time which workspaces exist.

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

/// The operation name in audit entries.
pub(super) const OPERATION: &str = "oauth/authorize";
/// Maximum number of attempts waiting for their entries. The login throttle admits far fewer in the second between
/// writes.
pub(crate) const ATTEMPTS_WAIT_MAX: usize = 1_024;
/// Maximum number of entries per workspace and minute, so that strangers cannot grow its ledger faster.
pub(crate) const ATTEMPTS_WRITTEN_MAX: usize = 10;
/// Maximum number of attempts written at shutdown; each may open a workspace.
const LAST_ATTEMPTS_MAX: usize = 64;
const MINUTE_MICROS: i64 = 60_000_000;

/// The audit principal of an attempt without a valid sign-in.
const NOBODY: &str = "nobody";

/// A failed sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The workspace as typed; may not exist.
    pub workspace: String,
    /// Id of the requesting client.
    pub client: String,
    /// The deciding rule: `person` (denied by the person) or `credential` (invalid key).
    pub rule: &'static str,
}

/// Pending attempts, and the entries of the current minute.
#[derive(Default)]
pub struct Attempts {
    waiting: Mutex<Waiting>,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Waiting {
    attempts: Vec<Attempt>,
    /// Attempts dropped for lack of room since the last write.
    lost: u64,
}

/// The entries of one minute: existing workspaces only, at most [`ATTEMPTS_WRITTEN_MAX`] each.
#[derive(Default)]
struct Written {
    minute: i64,
    of: HashMap<String, Vec<(String, &'static str)>>,
}

/// The outcome of recording one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Written,
    /// The workspace does not exist, or an equal entry of this minute covers the attempt.
    None,
    TooMany,
}

impl Attempts {
    /// Queues an attempt. Takes the same time for every workspace, existing or not.
    pub(super) fn note(&self, attempt: Attempt) {
        let mut waiting = self.waiting();
        if waiting.attempts.len() < ATTEMPTS_WAIT_MAX {
            waiting.attempts.push(attempt);
        } else {
            waiting.lost += 1;
        }
    }

    /// Writes the pending attempts. May open workspaces.
    pub fn write(&self, control: &Control, tenants: &Tenants, now: Micros) {
        self.write_some((control, tenants), now, ATTEMPTS_WAIT_MAX);
    }

    /// Writes the pending attempts at shutdown, at most `LAST_ATTEMPTS_MAX` to bound the time.
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
    /// Clears the log if `now` is in another minute.
    fn begin(&mut self, now: Micros) {
        let minute = now.0.div_euclid(MINUTE_MICROS);
        if minute != self.minute {
            *self = Self { minute, of: HashMap::new() };
        }
    }

    /// Admits an attempt if its (client, rule) pair is the first in this minute and the workspace is under its limit.
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
    /// Records the attempt if its workspace exists. A mistyped workspace may be anything, even a secret, so nothing is
    /// logged for a missing workspace.
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
