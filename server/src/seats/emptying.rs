//! Deleted workspaces on the remote: what lies there of them goes, a step at a time.
//!
//! Owns what is known of each from one step to the next. Must not know which were deleted, nor when.

use std::sync::Arc;

use remote::core::Retention;
use remote::{Driver, Emptied, Emptying, Halt, Holds, NodeId, Sweeper, Tenant};

use super::Seats;

/// Deleted workspaces that are emptied at a time; of each is remembered what its chain has.
const EMPTIED_TOGETHER_MAX: usize = 64;

/// What a step came to.
#[derive(Debug)]
pub enum Step {
    /// It was taken, or looked at.
    Came(Emptied),
    /// As many as may be at a time are being emptied.
    Later,
}

impl Seats {
    /// Goes on with emptying a deleted workspace; waits for nothing. `is_shared` says whether it is deleted for all
    /// nodes: else it may be alive on another one, which says that it has it.
    ///
    /// # Errors
    /// Why not.
    pub fn empty(&self, name: &str, is_shared: bool, halt: &Arc<Halt>) -> Result<Step, String> {
        let Some(node) = &self.node else { return Err("this node is a replica".to_owned()) };
        let tenant = Tenant::new(name).map_err(|why| why.to_string())?;
        let Ok(mut emptying) = self.emptying.try_lock() else {
            return Err("this node is at it".to_owned());
        };
        let known = emptying.remove(name);
        if known.is_none() && emptying.len() >= EMPTIED_TOGETHER_MAX {
            return Ok(Step::Later);
        }
        let (full, fine) = self.settings.keep;
        let sweeper = Sweeper {
            driver: Driver { halt: Arc::clone(halt), ..self.driver.clone() },
            node: Arc::clone(node),
            retention: Retention { full, fine },
            clock: Arc::clone(&self.clock),
            random: Arc::clone(&self.random),
        };
        let may = |said: &[Holds]| match self.at(name) {
            Some(_) => Err("it is open here".to_owned()),
            None if is_shared => Ok(()),
            None => nobody_has(&tenant, &self.name, said),
        };
        let mut known = known.unwrap_or_else(|| Emptying::new(node));
        let came = sweeper.empty(&tenant, &mut known, &may);
        if !matches!(came, Ok(Emptied::Done(_) | Emptied::Spared(_))) {
            emptying.insert(name.to_owned(), known);
        }
        came.map(Step::Came).map_err(|why| why.to_string())
    }
}

/// Whether no other node says that it has bytes of a workspace.
fn nobody_has(tenant: &Tenant, own: &NodeId, said: &[Holds]) -> Result<(), String> {
    let has = |holds: &&Holds| holds.node != *own && holds.workspaces.contains_key(tenant);
    let Some(holds) = said.iter().find(has) else { return Ok(()) };
    let node = &holds.node;
    Err(format!(
        "node {node} has tenants of its own and says that it has {tenant}: delete it there; if that node never comes \
         back, run `recalld remote forget-node`"
    ))
}
