//! Deleted workspaces leave the remote once the time is over for which they can be restored.
//!
//! Owns which are due, and that it is on record which are gone. Must not know how one is emptied.

use std::sync::Arc;
use std::time::Duration;

use engine::Micros;
use remote::core::Collected;
use remote::{Emptied, Halt};
use serde_json::Value;

use crate::control::{Tenant, TenantState};
use crate::control_chain::ControlStands;
use crate::log::{self, Level, Value as Logged};
use crate::names;
use crate::parts::Parts;
use crate::seats::{Seats, Step, Swept};

/// What became of a deleted workspace.
#[derive(Debug)]
pub struct Emptying {
    swept: Swept,
    /// Whether nothing of it is left.
    is_gone: bool,
}

impl Emptying {
    fn of(workspace: String, done: Result<Collected, String>, is_gone: bool) -> Self {
        Self { swept: Swept { workspace, done }, is_gone }
    }

    /// Whether something of it goes later.
    pub fn waits(&self) -> bool {
        self.is_right() && !self.is_gone
    }

    /// Whether it went on, or had no need to.
    pub fn is_right(&self) -> bool {
        self.swept.done.is_ok()
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let mut row = self.swept.to_json();
        row["emptied"] = self.is_gone.into();
        row
    }

    fn log(&self) {
        let workspace = ("workspace", Logged::Text(&self.swept.workspace));
        match &self.swept.done {
            Err(why) => {
                let fields = [workspace, ("why", Logged::Text(why))];
                let what = "a deleted workspace is on the remote still";
                log::event(Level::Warn, what, &fields);
            }
            Ok(_) if self.is_gone => {
                let what = "nothing of a deleted workspace is on the remote any more";
                log::event(Level::Info, what, &[workspace]);
            }
            Ok(_) => {}
        }
    }
}

/// Goes on with those that are due, or with one that is, for as long as `halt` is not raised, and logs what came of it.
/// Where nodes share the control store, the one that writes it does so.
///
/// # Errors
/// The control store cannot be read.
pub fn empty_deleted(
    parts: &Parts,
    only: Option<&str>,
    halt: &Arc<Halt>,
) -> Result<Vec<Emptying>, String> {
    let Some(seats) = parts.seats.as_ref().filter(|seats| !seats.settings().is_replica) else {
        return Ok(Vec::new());
    };
    let leads = |stands| matches!(stands, ControlStands::Leads);
    let is_elsewhere = parts.control_chain.as_ref().is_some_and(|chain| !leads(chain.stands()));
    if is_elsewhere || !parts.control.exists() {
        return Ok(Vec::new());
    }
    let failed = |error: crate::control::ControlError| error.to_string();
    let due = match only {
        None => parts.control.to_empty(due_by(parts, seats)).map_err(failed)?,
        Some(slug) => {
            let found = parts.control.find_tenant(slug).map_err(failed)?;
            let Some(tenant) = found.filter(|it| it.state == TenantState::Deleted) else {
                return Ok(Vec::new());
            };
            if let Some(why) = not_yet(parts, seats, &tenant) {
                return Ok(vec![Emptying::of(slug.to_owned(), Err(why), false)]);
            }
            vec![tenant.slug]
        }
    };
    let mut all = Vec::new();
    for slug in due {
        if halt.is_raised() {
            break;
        }
        if let Some(done) = step(parts, seats, slug, halt) {
            done.log();
            all.push(done);
        }
    }
    Ok(all)
}

/// The node that empties a deleted workspace, where that is another one.
pub(super) fn emptied_by(parts: &Parts, slug: &str) -> Option<String> {
    let ControlStands::Follows { writer, .. } = parts.control_chain.as_ref()?.stands() else {
        return None;
    };
    let found = parts.control.find_tenant(slug).ok()??;
    (found.state == TenantState::Deleted).then_some(writer?.node)
}

/// Goes on with one; `None` where too many are being emptied.
fn step(parts: &Parts, seats: &Seats, slug: String, halt: &Arc<Halt>) -> Option<Emptying> {
    let came = match seats.empty(&slug, parts.control_chain.is_some(), halt) {
        Ok(Step::Later) => return None,
        Ok(Step::Came(came)) => came,
        Err(why) => return Some(Emptying::of(slug, Err(why), false)),
    };
    let (done, is_gone) = match came {
        Emptied::Done(done) => match parts.control.note_emptied(&slug) {
            Ok(()) => (Ok(done), true),
            Err(error) => (Err(format!("it is gone, and that is not on record: {error}")), false),
        },
        Emptied::Waiting(done) => (Ok(done), false),
        Emptied::Held(head) => (Err(format!("node {} writes it still", head.node)), false),
        Emptied::Spared(why) => (Err(why), false),
    };
    Some(Emptying::of(slug, done, is_gone))
}

fn now(parts: &Parts) -> Duration {
    Duration::from_micros(u64::try_from(parts.clock.now().0).unwrap_or_default())
}

/// What was deleted at this second or before is due.
fn due_by(parts: &Parts, seats: &Seats) -> u64 {
    now(parts).saturating_sub(seats.settings().keep.0).as_secs()
}

/// Why a deleted workspace is not due.
fn not_yet(parts: &Parts, seats: &Seats, tenant: &Tenant) -> Option<String> {
    let deleted_at = tenant.deleted_at.filter(|at| *at > due_by(parts, seats))?;
    let until = Duration::from_secs(deleted_at).saturating_add(seats.settings().keep.0);
    let until = names::time(Micros(i64::try_from(until.as_micros()).unwrap_or(i64::MAX)));
    Some(format!("it was deleted, and can be restored until {until} (remote.keep_hours)"))
}
