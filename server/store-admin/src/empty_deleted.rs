//! Deleted workspaces leave the remote once the time is over for which they can be restored.
//!
//! Owns which are due, and that it is on record which are gone. Must not know how one is emptied.

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

/// How long after nothing was known to be left it is looked once more for what came late.
const EMPTIED_LOOK_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Why one that was asked for was not gone on with.
const AT_IT: &str = "this node is emptying deleted workspaces already; try again";

/// Which are to be emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// Those that are due.
    Due,
    /// The same; and it is told of the others why they are not.
    Told,
    /// One that an operator asks for, if it is due.
    One(&'a str),
}

/// What became of those that were to be emptied.
#[derive(Debug, Default)]
pub struct Pass {
    /// Of each.
    pub all: Vec<Emptying>,
    /// How many more are due: too many wait already, or another pass is under way.
    pub put_off: usize,
}

/// What became of a deleted workspace.
#[derive(Debug)]
pub struct Emptying {
    workspace: String,
    came: Came,
}

#[derive(Debug)]
enum Came {
    /// So much was removed; and whether nothing of it is left.
    Removed(Collected, bool),
    /// It stays for now, and why.
    Stays(String),
    /// It could not be looked at.
    Failed(String),
}

impl Emptying {
    /// The workspace.
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Whether records of it go later.
    pub fn waits(&self) -> bool {
        matches!(self.came, Came::Removed(_, false))
    }

    /// Whether it went on, or is not to.
    pub fn is_right(&self) -> bool {
        !matches!(self.came, Came::Failed(_))
    }

    /// Why it is there still, where that is not for time alone.
    pub fn why(&self) -> Option<&str> {
        match &self.came {
            Came::Removed(..) => None,
            Came::Stays(why) | Came::Failed(why) => Some(why),
        }
    }

    /// For programs.
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

/// Goes on with those that are due, or with one that is, for as long as `goes_on`, and logs which are gone. Where nodes
/// share the control store, the one that writes it does so.
///
/// # Errors
/// The control store cannot be read, or the remote not be asked for other nodes.
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
        // Those that only wait to be looked through once more are in nobody's way.
        let names: BTreeSet<&str> = due.iter().map(|tenant| &*tenant.slug).collect();
        seats.forget_emptying(&|name| names.contains(name));
    }
    let mut pass = Pass::default();
    if which != Which::Due {
        pass.all.extend(others.iter().filter_map(|tenant| not_yet(admin, seats, tenant, which)));
    }
    if !due.is_empty() {
        // Read once for all of them; what changes meanwhile is met when one is taken.
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

/// The node that empties a deleted workspace, where that is another one.
pub fn emptied_by(admin: &StoreAdmin, slug: &str) -> Option<String> {
    let ControlStands::Follows { writer, .. } = admin.control_chain.as_ref()?.stands() else {
        return None;
    };
    let found = admin.control.find_tenant(slug).ok()??;
    (found.state == TenantState::Deleted).then_some(writer?.node)
}

/// Gives away what this node wrote of deleted workspaces and could not give away when they were closed.
pub fn give_up_deleted(admin: &StoreAdmin, halt: &Arc<Halt>) {
    let Some(seats) = admin.seats.as_ref().filter(|_| admin.control.exists()) else { return };
    let is_deleted = |slug: &str| {
        let found = admin.control.find_tenant(slug).ok().flatten();
        found.is_some_and(|tenant| tenant.state == TenantState::Deleted)
    };
    seats.give_up(&is_deleted, halt);
}

/// What is asked for those that are due.
struct Asked<'a> {
    admin: &'a StoreAdmin,
    seats: &'a Seats,
    which: Which<'a>,
    others: Others,
    halt: &'a Arc<Halt>,
}

impl Asked<'_> {
    /// Goes on with one; `None` where others go first: too many are being emptied, or another thread is at it. Whoever
    /// asked for this one is told of that.
    fn step(&self, tenant: &Tenant) -> Option<Emptying> {
        let is_asked = matches!(self.which, Which::One(_));
        let looks_again = is_asked || tenant.emptied_at.is_some();
        let wanted = ToEmpty {
            name: &tenant.slug,
            // Where that is not known, it may be alive for all that can be told.
            deleted_at: tenant.deleted_at.unwrap_or_default(),
            looks_again,
            is_shared: self.admin.control_chain.is_some(),
            is_asked,
        };
        let came = match self.seats.empty(&wanted, &self.others, self.halt) {
            Ok(Step::Later) => return None,
            // It may be at another workspace: nothing was done for this one.
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

/// It stays. That is not what was wanted where it was asked for.
fn stays(which: Which<'_>, why: String) -> Came {
    match which {
        Which::One(_) => Came::Failed(why),
        Which::Due | Which::Told => Came::Stays(why),
    }
}

fn now(admin: &StoreAdmin) -> Duration {
    Duration::from_micros(u64::try_from(admin.clock.now().0).unwrap_or_default())
}

/// What was deleted at this second or before is due.
fn due_by(admin: &StoreAdmin, seats: &Seats) -> u64 {
    now(admin).saturating_sub(seats.settings().keep.0).as_secs()
}

/// What was emptied at this second or before is looked through once more.
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

/// Why a deleted workspace is not due; `None` where nothing is known to be left of it.
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
