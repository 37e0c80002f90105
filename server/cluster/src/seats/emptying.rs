//! Deleted workspaces on the remote: what lies there of them goes, a step at a time.
//!
//! Owns what is known of each from one step to the next, and what other nodes say that stands in the way. Must not know
//! which were deleted, nor when one is due.

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

    /// Deleted workspaces whose records wait at a time; of each is remembered what its chain has.
    const EMPTIED_TOGETHER_MAX: usize = 64;
}

/// What a step came to.
#[derive(Debug)]
pub enum Step {
    /// It was taken, or looked at.
    Came(Emptied),
    /// As many as may be at a time are being emptied.
    Later,
    /// Another thread is at it.
    Busy,
}

/// A deleted workspace that is to be emptied.
#[derive(Debug)]
pub struct ToEmpty<'a> {
    /// Its name.
    pub name: &'a str,
    /// When it was deleted, in seconds since 1970.
    pub deleted_at: u64,
    /// Whether it is looked through even if nothing is known to be left.
    pub looks_again: bool,
    /// Whether it is deleted for all nodes: else it may be alive on another one.
    pub is_shared: bool,
    /// Whether an operator asked for it by its name.
    pub is_asked: bool,
}

/// The other nodes of a remote, as they were when that was asked.
#[derive(Debug)]
pub struct Others {
    /// Which have a beat or say what they have, and are no passing ones.
    nodes: BTreeSet<NodeId>,
    /// What they say, or why that cannot be read.
    said: Vec<(NodeId, Result<Holds, Damage>)>,
}

impl Others {
    /// Why a workspace is not to be emptied, if so.
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

/// What is behind a lock, unless another thread has it.
fn free<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match lock.try_lock() {
        Ok(guard) => Some(guard),
        // A step that panicked leaves nothing half done here: what it worked on is taken out meanwhile.
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Seats {
    /// Asks for the other nodes.
    ///
    /// # Errors
    /// No answer.
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

    /// Forgets what is known of those that are not to be emptied now. Whoever empties one meanwhile is not waited for:
    /// the next call forgets them.
    pub fn forget_emptying(&self, is_due: &dyn Fn(&str) -> bool) {
        if let Some(mut emptying) = free(&self.emptying) {
            emptying.retain(|name, _| is_due(name));
        }
    }

    /// What ends the work for a call of which `is_over` says that nobody waits for it any more; the end of this node
    /// ends it as well.
    pub fn halt_of(&self, is_over: impl Fn() -> bool + Send + Sync + 'static) -> Arc<Halt> {
        let ends = Arc::clone(&self.ends);
        Arc::new(Halt::asking(move || ends.is_raised() || is_over()))
    }

    /// This node ends: what it does for calls is not gone on with.
    pub fn end_calls(&self) {
        self.ends.raise();
    }

    /// Goes on with emptying a deleted workspace; waits for nothing.
    ///
    /// # Errors
    /// Why not.
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
        // Of one that cannot be emptied nothing is remembered, so that it is in nobody's way.
        if matches!(came, Ok(Emptied::Waiting(_) | Emptied::Held(_))) {
            emptying.insert(name.to_owned(), known);
        }
        came.map(Step::Came).map_err(|why| why.to_string())
    }

    /// What gives and collects chains without a store of them.
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
