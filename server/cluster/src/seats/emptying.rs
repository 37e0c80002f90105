//! Purge of deleted workspaces from the remote, one step at a time.
//!
//! Owns the state of each purge between two steps, and the inventories of other nodes that block one. Must not know
//! which workspaces were deleted, nor when a purge is due.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use recalld_replication::core::{Retention, said};
use recalld_replication::{
    Damage, Deleted, Driver, Emptied, Emptying, Halt, Holds, Moment, Node, NodeId, NotNow, Sweeper,
    Tenant,
};

use super::table::Seats;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Deleted workspaces purged at a time. For each, its records are remembered between the steps.
    const EMPTIED_TOGETHER_MAX: usize = 64;
}

/// Outcome of a purge step.
#[derive(Debug)]
pub enum Step {
    /// The step ran.
    Came(Emptied),
    /// Too many purges are in progress.
    Later,
    /// Another thread is running a purge step.
    Busy,
}

/// A deleted workspace to purge.
#[derive(Debug)]
pub struct ToEmpty<'a> {
    /// Name of the workspace.
    pub name: &'a str,
    /// Time of deletion, in seconds since 1970.
    pub deleted_at: u64,
    /// True to scan the remote even if no object is known to be left.
    pub looks_again: bool,
    /// True if the deletion holds for all nodes; otherwise the workspace may be alive on another node.
    pub is_shared: bool,
    /// True if an operator named the workspace.
    pub is_asked: bool,
}

/// Other nodes of a remote, as of one read.
#[derive(Debug)]
pub struct Others {
    /// Nodes with a heartbeat or an inventory, without nodes that only collect garbage.
    nodes: BTreeSet<NodeId>,
    /// Inventory of each node, or the reason why the inventory cannot be read.
    said: Vec<(NodeId, Result<Holds, Damage>)>,
}

impl Others {
    /// Checks that a workspace may be purged; the error is the reason against it.
    fn allow(&self, tenant: &Tenant, wanted: &ToEmpty<'_>) -> Result<(), String> {
        for (node, said) in &self.said {
            match said {
                Ok(holds) if !holds.workspaces.contains_key(tenant) => {}
                Ok(_) if wanted.is_shared => {
                    return Err(format!(
                        "node {node} says that it has {tenant}: it loses it once it runs; if that node never comes \
                         back, run `recalld remote forget-node`"
                    ));
                }
                Ok(_) => {
                    return Err(format!(
                        "node {node} has tenants of its own and says that it has {tenant}: delete it there; if that \
                         node never comes back, run `recalld remote forget-node`"
                    ));
                }
                Err(damage) => {
                    return Err(format!(
                        "what node {node} has cannot be read ({damage}); if that node never comes back, run `recalld \
                         remote forget-node`"
                    ));
                }
            }
        }
        let Some(node) = self.nodes.first().filter(|_| !wanted.is_shared && !wanted.is_asked)
        else {
            return Ok(());
        };
        Err(format!(
            "{tenant} may be alive on another node, as {node}, whose tenants are its own: if it is not, run `recalld \
             remote gc --data DIR --workspace {tenant}`"
        ))
    }
}

/// Locks the mutex if no other thread has the lock.
fn free<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match lock.try_lock() {
        Ok(guard) => Some(guard),
        // A panicked step leaves no partial state: its entry was removed from the map before.
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Seats {
    /// Reads the other nodes of the remote.
    ///
    /// # Errors
    /// The remote did not respond.
    pub fn others(&self) -> Result<Others, String> {
        let local = Tenant::new("local").map_err(|why| why.to_string())?;
        let said = self.driver.run(&local, async |port| said(&port).await);
        let mut said = said.ok_or("it was called off")?.map_err(|away| away.why)?;
        said.retain(|(node, _)| *node != self.name);
        let beats = self.driver.chain.beats().map_err(|away| away.why)?;
        let nodes = said.iter().map(|(node, _)| node.clone());
        let nodes = nodes.chain(beats.into_iter().map(|beat| beat.node));
        let nodes = nodes.filter(|node| *node != self.name && !node.only_collects()).collect();
        Ok(Others { nodes, said })
    }

    /// Forgets the state of purges that are no longer due. If a purge step is running, nothing is forgotten until the
    /// next call.
    pub fn forget_emptying(&self, is_due: &dyn Fn(&str) -> bool) {
        if let Some(mut emptying) = free(&self.emptying) {
            emptying.retain(|name, _| is_due(name));
        }
    }

    /// Shutdown signal for the work of one call: raised if `is_over` returns true for the call, or if this node shuts
    /// down.
    pub fn halt_of(&self, is_over: impl Fn() -> bool + Send + Sync + 'static) -> Arc<Halt> {
        let ends = Arc::clone(&self.ends);
        Arc::new(Halt::asking(move || ends.is_raised() || is_over()))
    }

    /// Cancels the work for calls, as this node shuts down.
    pub fn end_calls(&self) {
        self.ends.raise();
    }

    /// Runs the next purge step of a deleted workspace; does not wait for other steps.
    ///
    /// # Errors
    /// The workspace was not purged, for this reason.
    pub fn empty(
        &self,
        wanted: &ToEmpty<'_>,
        others: &Others,
        halt: &Arc<Halt>,
    ) -> Result<Step, String> {
        let name = wanted.name;
        let Some(node) = &self.node else { return Err("this node is a replica".to_owned()) };
        let tenant = Tenant::new(name).map_err(|why| why.to_string())?;
        let Some(mut emptying) = free(&self.emptying) else { return Ok(Step::Busy) };
        let waiting = emptying.values().filter(|known| known.remembers()).count();
        let known = emptying.remove(name);
        let goes_on = known.as_ref().is_some_and(Emptying::remembers);
        if !goes_on && waiting >= EMPTIED_TOGETHER_MAX {
            return Ok(Step::Later);
        }
        let may = |moment| {
            let said = match (self.at(name), moment) {
                (Some(_), _) => Err("it is open here".to_owned()),
                (None, Moment::First) => others.allow(&tenant, wanted),
                (None, Moment::Taken) => {
                    self.others().map_err(NotNow::Unasked)?.allow(&tenant, wanted)
                }
            };
            said.map_err(NotNow::Stays)
        };
        let micros = i64::try_from(wanted.deleted_at).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        let looks_again = wanted.looks_again;
        let deleted =
            Deleted { tenant: tenant.clone(), at: micros, looks_again, kept: self.settings.keep.0 };
        let mut known = known.unwrap_or_else(|| Emptying::new(node));
        let came = self.sweeper(node, halt).empty(&deleted, &mut known, &may);
        // If a workspace cannot be purged, its state is dropped, so that others can use the slot.
        if matches!(came, Ok(Emptied::Waiting(_) | Emptied::Held(_))) {
            emptying.insert(name.to_owned(), known);
        }
        came.map(Step::Came).map_err(|why| why.to_string())
    }

    /// Collector that releases and collects record logs without a local store.
    pub(super) fn sweeper(&self, node: &Arc<Node>, halt: &Arc<Halt>) -> Sweeper {
        let (full, fine) = self.settings.keep;
        Sweeper {
            driver: Driver { halt: Arc::clone(halt), ..self.driver.clone() },
            node: Arc::clone(node),
            retention: Retention { full, fine },
            clock: Arc::clone(&self.clock),
            random: Arc::clone(&self.random),
        }
    }
}
