//! Work of a node for the whole remote: garbage collection, and the progress of erasures.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recalld_replication::core::{Collected, Reached, reached};
use recalld_replication::{Carrier, Erasing, Holding, NotSeated, Owed, Role, Tenant, clear_probes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::table::{Seats, seen};
use recalld_fs_util::data_dir::tenant_dir;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value as Logged};

/// Maximum wait of an erasure until its writes are in the record log.
const SETTLE_WAIT_MAX: Duration = Duration::from_secs(20);

/// Result of the garbage collection of a workspace.
#[derive(Debug)]
pub struct Swept {
    /// Name of the workspace.
    pub workspace: String,
    /// Removed records and objects, or the reason why none were removed.
    pub done: Result<Collected, String>,
}

impl Swept {
    /// JSON form.
    pub fn to_json(&self) -> Value {
        match &self.done {
            Err(why) => json!({"workspace": self.workspace, "why": why}),
            Ok(done) => json!({
                "workspace": self.workspace, "records": done.records, "objects": done.objects,
                "waiting": done.waiting, "erased_waiting": done.erased_waiting,
            }),
        }
    }
}

/// Progress of the erasures of a workspace.
#[derive(Debug)]
pub struct FarErasure {
    /// Items not erased everywhere yet.
    waiting: usize,
    /// Record that completed the newest of the erasures, once known.
    record: Option<u64>,
    reached: Option<Reached>,
    /// Reason for the wait, if it is not another node.
    why: Option<String>,
}

/// Report of the erasures of a workspace on the remote.
#[derive(Debug, Serialize, Deserialize)]
pub struct FarErasureReport {
    /// Nodes that have data of the workspace.
    pub nodes: Vec<NodeErasure>,
    /// Record that completed the newest of the erasures, once known.
    pub record: Option<u64>,
    /// Progress of the erasures.
    pub state: FarErasureState,
    /// Reason for the wait, if it is not another node.
    pub why: Option<String>,
}

/// Progress of a workspace's erasures on the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FarErasureState {
    /// No record has the erasures yet.
    Waiting,
    /// Earlier records are not removed from the remote yet.
    Collecting,
    /// A node still has earlier data.
    Nodes,
    /// The erasures are complete.
    Everywhere,
}

/// Progress of a workspace's erasures on one node.
#[derive(Debug, Serialize, Deserialize)]
pub struct NodeErasure {
    /// True if the node has no earlier data.
    pub done: bool,
    /// Number of stores that were set aside on the node.
    pub left: u32,
    /// The node.
    pub node: String,
    /// Record that the node's store is at or ahead of.
    pub record: u64,
}

impl FarErasure {
    /// Erasures of a workspace that no server replicates now.
    pub fn unserved(waiting: usize) -> Self {
        let why = Some("no server carries this workspace now: start it".to_owned());
        Self { waiting, record: None, reached: None, why }
    }

    /// Returns true if all erasures are complete everywhere.
    pub fn is_everywhere(&self) -> bool {
        self.waiting == 0
    }

    /// The form in reports.
    pub fn report(&self) -> FarErasureReport {
        let record = self.record;
        let node = |(node, holding): &(recalld_replication::NodeId, Holding)| NodeErasure {
            done: record.is_some_and(|record| holding.is_past(record)),
            left: holding.left,
            node: node.as_str().to_owned(),
            record: holding.record,
        };
        let far = self.reached.as_ref();
        let nodes = far.map_or(Vec::new(), |far| far.nodes.iter().map(node).collect());
        let is_gone = far.zip(record).is_some_and(|(far, record)| far.is_gone(record));
        let state = match () {
            () if self.is_everywhere() => FarErasureState::Everywhere,
            () if record.is_none() => FarErasureState::Waiting,
            () if !is_gone => FarErasureState::Collecting,
            () => FarErasureState::Nodes,
        };
        FarErasureReport { nodes, record, state, why: self.why.clone() }
    }
}

impl Seats {
    /// Collects garbage of the workspaces of which this node is the leader: of all, or of one.
    pub fn collect(&self, only: Option<&str>) -> Vec<Swept> {
        let mut names = self.open_names();
        names.retain(|name| only.is_none_or(|only| only == name));
        // No slot is locked meanwhile: calls need it, and a closing workspace must be able to release its directory.
        let collect = |workspace: String| {
            let carrier = self.carrier(&workspace)?;
            Some(Swept { workspace, done: collect_by(&carrier) })
        };
        names.into_iter().filter_map(collect).collect()
    }

    /// Collects garbage of all workspaces, and the remains of interrupted probes. Failures are logged.
    pub fn collect_all(&self) {
        for Swept { workspace, done } in self.collect(None) {
            if let Err(why) = done {
                let fields = [("workspace", Logged::Text(&workspace)), ("why", Logged::Text(&why))];
                log::event(Level::Warn, "old objects were not removed", &fields);
            }
        }
        if self.node.is_some() {
            let _by_the_next = self.clear_probes();
        }
    }

    /// Removes the remains of interrupted probes.
    ///
    /// # Errors
    /// The remote did not respond.
    pub fn clear_probes(&self) -> Result<usize, String> {
        clear_probes(&*self.driver.objects).map_err(|away| away.why)
    }

    /// Leader of a workspace that is open here; `None` if this node is the leader.
    pub fn written_by(&self, name: &str) -> Option<String> {
        let at = self.at(name)?;
        match &seen(&at).role {
            Some(Role::Follows(following)) => Some(following.age().at.node.to_string()),
            _ => None,
        }
    }

    /// Names of the open workspaces.
    pub fn open_names(&self) -> Vec<String> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.keys().cloned().collect()
    }

    fn carrier(&self, name: &str) -> Option<Arc<Carrier>> {
        let at = self.at(name)?;
        match &seen(&at).role {
            Some(Role::Leads(carrier)) => Some(Arc::clone(carrier)),
            _ => None,
        }
    }

    /// Continues the erasures of a workspace and returns their progress; `None` if none is pending. The closure that
    /// `look` returns is true for items that were gone from the local files at the time of the `look` call. The list of
    /// erasures is read and written under the lock `noting`.
    ///
    /// # Errors
    /// The list cannot be read or written.
    pub fn go_on_erasing(
        &self,
        data: &Path,
        name: &str,
        look: &dyn Fn() -> Box<dyn Fn(u128) -> bool>,
        noting: &Mutex<()>,
    ) -> Result<Option<FarErasure>, String> {
        let home = tenant_dir(data, name);
        let list = || {
            let noting = noting.lock().unwrap_or_else(PoisonError::into_inner);
            Ok::<_, String>((Erasing::of(&home)?, noting))
        };
        let (found, noting_moment) = list()?;
        drop(noting_moment);
        let Some(found) = found.filter(|found| found.waiting() > 0) else { return Ok(None) };
        // Call `look` after reading the list: its items are hidden by now. An earlier result would not know an item
        // that was added again.
        let is_out = look();
        let owed: Vec<Owed> = found.owed().into_iter().filter(|owed| is_out(owed.id)).collect();
        let tenant = Tenant::new(name).map_err(|why| why.to_string())?;
        let known = found.newest().zip(self.reached_by(&tenant).ok().flatten());
        let mut why = None;
        // This runs every minute; while only an absent node is missing, no further garbage collection is needed.
        if !owed.is_empty() || known.is_none_or(|(record, far)| !far.is_gone(record)) {
            match self.end_history(name) {
                Ok(record) if !owed.is_empty() => {
                    let (found, _noting) = list()?;
                    found.map_or(Ok(()), |mut found| found.ended_by(&owed, record))?;
                }
                Ok(_) => {}
                Err(error) => why = Some(error),
            }
        }
        why = self.tell_holds(data, false).err().or(why);
        let far = self.reached_by(&tenant);
        if let Err(error) = &far {
            why = Some(error.clone());
        }
        let far = far.ok().flatten();
        let (found, _noting) = list()?;
        let Some(mut found) = found else { return Ok(None) };
        let record = found.newest();
        if let (Some(far), Some(record)) = (&far, record)
            && far.is_everywhere(record)
        {
            found.everywhere(record)?;
        }
        if found.waiting() == 0 {
            why = None;
        } else if found.owes() && why.is_none() {
            why = Some("not all of it is out of the files of this node yet".to_owned());
        }
        Ok(Some(FarErasure { waiting: found.waiting(), record, reached: far, why }))
    }

    fn reached_by(&self, tenant: &Tenant) -> Result<Option<Reached>, String> {
        let far = self.driver.run(tenant, async |port| reached(&port).await);
        far.unwrap_or(Ok(None)).map_err(|away| away.why)
    }

    /// Commits all writes to the record log and collects garbage. Returns the record before which history is removed.
    fn end_history(&self, name: &str) -> Result<u64, String> {
        let Some(carrier) = self.carrier(name) else {
            let by = self.written_by(name).unwrap_or_else(|| "none".to_owned());
            return Err(format!("node {by} writes it now"));
        };
        let erased = collected(&carrier)?.erased;
        if erased > 0 {
            return Ok(erased + 1);
        }
        // The erasure happened before this node replicated the workspace.
        carrier.owes_erasure();
        Ok(collected(&carrier)?.erased + 1)
    }
}

/// Waits until the shipper has committed all writes to the record log, and collects garbage.
fn collected(carrier: &Carrier) -> Result<Collected, String> {
    if !carrier.settle(SETTLE_WAIT_MAX) {
        let why = carrier.standing().trouble.unwrap_or_else(|| "it is slow".to_owned());
        return Err(format!("not all of it is on the remote yet ({why})"));
    }
    collect_by(carrier)
}

fn collect_by(carrier: &Carrier) -> Result<Collected, String> {
    match carrier.collect() {
        Some(done) => done.map_err(|lost| NotSeated::from(lost).to_string()),
        None => Err("it is written here no more".to_owned()),
    }
}
