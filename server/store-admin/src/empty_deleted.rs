//! Purge: removes deleted workspaces from the remote once they can no longer be restored.
//!
//! Decides which workspaces are due, and records completed purges. Must not know how a workspace is removed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::Micros;
use recalld_replication::core::Collected;
use recalld_replication::{Emptied, Halt};
use serde_json::{Value, json};

use crate::admin_state::StoreAdmin;
use recalld_cluster::control_chain::ControlStands;
use recalld_cluster::seats::{Others, Seats, Step, Swept, ToEmpty};
use recalld_common::names;
use recalld_metastore::{Tenant, TenantState};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value as Logged};

/// Delay after a complete purge, after which the remote is checked once more for late uploads.
const EMPTIED_LOOK_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Reason for which a requested workspace was not processed.
const AT_IT: &str = "this node is emptying deleted workspaces already; try again";

/// Workspaces to purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// All workspaces that are due.
    Due,
    /// All workspaces that are due, with the reasons for the others.
    Told,
    /// A single workspace on request, if it is due.
    One(&'a str),
}

/// Result of a purge run.
#[derive(Debug, Default)]
pub struct Pass {
    /// Results by workspace.
    pub all: Vec<Emptying>,
    /// Number of further due workspaces that are deferred: too many are in progress, or another purge is running.
    pub put_off: usize,
}

/// Result for one deleted workspace.
#[derive(Debug)]
pub struct Emptying {
    workspace: String,
    came: Came,
}

#[derive(Debug)]
enum Came {
    /// Removed records, and true if none is left.
    Removed(Collected, bool),
    /// The workspace remains for now, with the reason.
    Stays(String),
    /// The purge failed, with the reason.
    Failed(String),
}

impl Emptying {
    /// Name of the workspace.
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Returns true if records of the workspace are removed later.
    pub fn waits(&self) -> bool {
        matches!(self.came, Came::Removed(_, false))
    }

    /// Returns true unless the purge failed.
    pub fn is_right(&self) -> bool {
        !matches!(self.came, Came::Failed(_))
    }

    /// Returns the reason for which the workspace remains, unless it is only waiting for a delay.
    pub fn why(&self) -> Option<&str> {
        match &self.came {
            Came::Removed(..) => None,
            Came::Stays(why) | Came::Failed(why) => Some(why),
        }
    }

    /// The result as JSON for programs.
    pub fn to_json(&self) -> Value {
        let workspace = self.workspace.clone();
        match &self.came {
            Came::Removed(done, is_gone) => {
                let mut row = Swept { workspace, done: Ok(done.clone()) }.to_json();
                row["emptied"] = (*is_gone).into();
                row
            }
            Came::Stays(why) => json!({"workspace": workspace, "stays": why, "emptied": false}),
            Came::Failed(why) => json!({"workspace": workspace, "why": why, "emptied": false}),
        }
    }
}

/// Purges the due workspaces, or one due workspace, while `goes_on` returns true, and logs completed purges. If nodes
/// share the metastore, only its leader purges.
///
/// # Errors
/// The metastore cannot be read, or the remote's list of nodes cannot be read.
pub fn empty_deleted(
    admin: &StoreAdmin,
    which: Which<'_>,
    halt: &Arc<Halt>,
    goes_on: &dyn Fn() -> bool,
) -> Result<Pass, String> {
    let Some(seats) = admin.seats.as_ref().filter(|seats| !seats.settings().is_replica) else {
        return Ok(Pass::default());
    };
    let leads = |stands| matches!(stands, ControlStands::Leads);
    let is_elsewhere = admin.control_chain.as_ref().is_some_and(|chain| !leads(chain.stands()));
    if is_elsewhere || !admin.control.exists() {
        return Ok(Pass::default());
    }
    let failed = |error: recalld_metastore::ControlError| error.to_string();
    let wanted = match which {
        Which::Due | Which::Told => admin.control.to_empty().map_err(failed)?,
        Which::One(slug) => {
            let found = admin.control.find_tenant(slug).map_err(failed)?;
            found.filter(|it| it.state == TenantState::Deleted).into_iter().collect()
        }
    };
    let (due, others): (Vec<Tenant>, Vec<Tenant>) =
        wanted.into_iter().partition(|tenant| is_due(admin, seats, tenant, which));
    if which == Which::Due {
        // Workspaces that only wait for the second check do not block others.
        let names: BTreeSet<&str> = due.iter().map(|tenant| &*tenant.slug).collect();
        seats.forget_emptying(&|name| names.contains(name));
    }
    let mut pass = Pass::default();
    if which != Which::Due {
        pass.all.extend(others.iter().filter_map(|tenant| not_yet(admin, seats, tenant, which)));
    }
    if !due.is_empty() {
        // Read once for all workspaces; a later change is detected when a workspace is acquired.
        let asked = Asked { admin, seats, which, others: seats.others()?, halt };
        for tenant in due.iter().take_while(|_| goes_on() && !halt.is_raised()) {
            match asked.step(tenant) {
                Some(done) => pass.all.push(done),
                None => pass.put_off += 1,
            }
        }
    }
    Ok(pass)
}

/// Returns the node that purges a deleted workspace, if it is another node.
pub fn emptied_by(admin: &StoreAdmin, slug: &str) -> Option<String> {
    let ControlStands::Follows { writer, .. } = admin.control_chain.as_ref()?.stands() else {
        return None;
    };
    let found = admin.control.find_tenant(slug).ok()??;
    (found.state == TenantState::Deleted).then_some(writer?.node)
}

/// Releases the leases of deleted workspaces that this node could not release when it closed them.
pub fn give_up_deleted(admin: &StoreAdmin, halt: &Arc<Halt>) {
    let Some(seats) = admin.seats.as_ref().filter(|_| admin.control.exists()) else { return };
    let is_deleted = |slug: &str| {
        let found = admin.control.find_tenant(slug).ok().flatten();
        found.is_some_and(|tenant| tenant.state == TenantState::Deleted)
    };
    seats.give_up(&is_deleted, halt);
}

/// Parameters of a run over due workspaces.
struct Asked<'a> {
    admin: &'a StoreAdmin,
    seats: &'a Seats,
    which: Which<'a>,
    others: Others,
    halt: &'a Arc<Halt>,
}

impl Asked<'_> {
    /// Continues one purge. Returns `None` if too many purges are in progress or another thread is purging; a request
    /// for this workspace then fails with the reason.
    fn step(&self, tenant: &Tenant) -> Option<Emptying> {
        let is_asked = matches!(self.which, Which::One(_));
        let looks_again = is_asked || tenant.emptied_at.is_some();
        let wanted = ToEmpty {
            name: &tenant.slug,
            // If the time of deletion is unknown, 0 is passed: every record is then newer, so the workspace may be
            // alive.
            deleted_at: tenant.deleted_at.unwrap_or_default(),
            looks_again,
            is_shared: self.admin.control_chain.is_some(),
            is_asked,
        };
        let came = match self.seats.empty(&wanted, &self.others, self.halt) {
            Ok(Step::Later) => return None,
            // The other thread may be purging another workspace, so nothing was done for this one.
            Ok(Step::Busy) if is_asked => Came::Failed(AT_IT.to_owned()),
            Ok(Step::Busy) => return None,
            Ok(Step::Came(came)) => self.came(tenant, came),
            Err(why) => Came::Failed(why),
        };
        Some(Emptying { workspace: tenant.slug.clone(), came })
    }

    fn came(&self, tenant: &Tenant, came: Emptied) -> Came {
        match came {
            Emptied::Done(done) => {
                let is_late = tenant.emptied_at.is_some_and(|at| at <= looked_by(self.admin));
                if let Err(error) = self.admin.control.note_emptied(&tenant.slug, is_late) {
                    return Came::Failed(format!("it is gone, and that is not on record: {error}"));
                }
                if tenant.emptied_at.is_none() {
                    let fields = [("workspace", Logged::Text(&tenant.slug))];
                    let what = "nothing of a deleted workspace is on the remote any more";
                    log::event(Level::Info, what, &fields);
                }
                Came::Removed(done, true)
            }
            Emptied::Waiting(done) => Came::Removed(done, false),
            Emptied::Held(head) => stays(self.which, format!("node {} writes it still", head.node)),
            Emptied::Spared(why) => stays(self.which, why),
        }
    }
}

/// Returns the result for a workspace that remains, which is a failure if its purge was requested.
fn stays(which: Which<'_>, why: String) -> Came {
    match which {
        Which::One(_) => Came::Failed(why),
        Which::Due | Which::Told => Came::Stays(why),
    }
}

fn now(admin: &StoreAdmin) -> Duration {
    Duration::from_micros(u64::try_from(admin.clock.now().0).unwrap_or_default())
}

/// Returns the latest deletion time (in seconds) that is due now.
fn due_by(admin: &StoreAdmin, seats: &Seats) -> u64 {
    now(admin).saturating_sub(seats.settings().keep.0).as_secs()
}

/// Returns the latest purge time (in seconds) that is due for the second check.
fn looked_by(admin: &StoreAdmin) -> u64 {
    now(admin).saturating_sub(EMPTIED_LOOK_AFTER).as_secs()
}

fn is_due(admin: &StoreAdmin, seats: &Seats, tenant: &Tenant, which: Which<'_>) -> bool {
    let is_asked = matches!(which, Which::One(_));
    match tenant.emptied_at {
        Some(at) => is_asked || at <= looked_by(admin),
        None => tenant.deleted_at.is_none_or(|at| at <= due_by(admin, seats)),
    }
}

/// Returns the reason for which a deleted workspace is not due; `None` if nothing is known to be left of it.
fn not_yet(
    admin: &StoreAdmin,
    seats: &Seats,
    tenant: &Tenant,
    which: Which<'_>,
) -> Option<Emptying> {
    if tenant.emptied_at.is_some() {
        return None;
    }
    let deleted_at = tenant.deleted_at.filter(|at| *at > due_by(admin, seats))?;
    let until = Duration::from_secs(deleted_at).saturating_add(seats.settings().keep.0);
    let until = names::time(Micros(i64::try_from(until.as_micros()).unwrap_or(i64::MAX)));
    let why = format!("it was deleted, and can be restored until {until} (remote.keep_hours)");
    Some(Emptying { workspace: tenant.slug.clone(), came: stays(which, why) })
}
