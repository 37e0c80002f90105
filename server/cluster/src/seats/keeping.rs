//! What a node does for the remote as a whole: it removes what no longer counts, and knows how far erasures came.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recalld_replication::core::{Collected, Reached, reached};
use recalld_replication::{Carrier, Erasing, Holding, NotSeated, Owed, Role, Tenant, clear_probes};
use serde_json::{Value, json};

use super::table::{Seats, seen};
use recalld_fs_util::data_dir::tenant_dir;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value as Logged};

/// How long an erasure waits until what it wrote is in the chain.
const SETTLE_WAIT_MAX: Duration = Duration::from_secs(20);

/// What became of a workspace that was to be collected.
#[derive(Debug)]
pub struct Swept {
    /// Its name.
    pub workspace: String,
    /// What was removed, or why nothing was.
    pub done: Result<Collected, String>,
}

impl Swept {
    /// For programs.
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

/// How far the erasures of a workspace came.
#[derive(Debug)]
pub struct FarErasure {
    /// Items that wait still.
    waiting: usize,
    /// The record with which the newest of them ended, once that is known.
    record: Option<u64>,
    reached: Option<Reached>,
    /// What it waits for, where that is not a node.
    why: Option<String>,
}

impl FarErasure {
    /// One that no server of a remote is at.
    pub fn unserved(waiting: usize) -> Self {
        let why = Some("no server carries this workspace now: start it".to_owned());
        Self { waiting, record: None, reached: None, why }
    }

    /// Whether nothing of them is anywhere.
    pub fn is_everywhere(&self) -> bool {
        self.waiting == 0
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let record = self.record;
        let node = |(node, holding): &(recalld_replication::NodeId, Holding)| {
            let is_done = record.is_some_and(|record| holding.is_past(record));
            json!({
                "node": node.as_str(), "record": holding.record, "left": holding.left, "done": is_done,
            })
        };
        let far = self.reached.as_ref();
        let nodes: Vec<Value> = far.map_or(Vec::new(), |far| far.nodes.iter().map(node).collect());
        let is_gone = far.zip(record).is_some_and(|(far, record)| far.is_gone(record));
        let state = match () {
            () if self.is_everywhere() => "everywhere",
            () if record.is_none() => "waiting",
            () if !is_gone => "collecting",
            () => "nodes",
        };
        json!({"state": state, "record": record, "nodes": nodes, "why": self.why})
    }
}

impl Seats {
    /// Removes what no longer counts, of workspaces that are written here: of all, or of one.
    pub fn collect(&self, only: Option<&str>) -> Vec<Swept> {
        let mut names = self.open_names();
        names.retain(|name| only.is_none_or(|only| only == name));
        // No place is held meanwhile: calls ask for it, and one that is closed lets go of its folder.
        let collect = |workspace: String| {
            let carrier = self.carrier(&workspace)?;
            Some(Swept { workspace, done: collect_by(&carrier) })
        };
        names.into_iter().filter_map(collect).collect()
    }

    /// The same with what starts left that were cut short; what goes wrong is logged.
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

    /// Removes what probes left that were cut short.
    ///
    /// # Errors
    /// No answer.
    pub fn clear_probes(&self) -> Result<usize, String> {
        clear_probes(&*self.driver.objects).map_err(|away| away.why)
    }

    /// Who writes a workspace that is open here: `None` where this node does.
    pub fn written_by(&self, name: &str) -> Option<String> {
        let at = self.at(name)?;
        match &seen(&at).role {
            Some(Role::Follows(following)) => Some(following.age().at.node.to_string()),
            _ => None,
        }
    }

    /// The workspaces that are open here.
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

    /// Goes on with the erasures of a workspace, and says how far they came; `None` where none waits. What `look` gives
    /// says of an item whether it is out of the files here, as of then. The list is read and written under `noting`.
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
        // After the list was read: what is on it is hidden by now. An older look does not know what was asked again.
        let is_out = look();
        let owed: Vec<Owed> = found.owed().into_iter().filter(|owed| is_out(owed.id)).collect();
        let tenant = Tenant::new(name).map_err(|why| why.to_string())?;
        let known = found.newest().zip(self.reached_by(&tenant).ok().flatten());
        let mut why = None;
        // Looked at every minute: nothing is collected again for a node that is away.
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

    /// Brings all that was written into the chain and collects; gives the record before which history goes then.
    fn end_history(&self, name: &str) -> Result<u64, String> {
        let Some(carrier) = self.carrier(name) else {
            let by = self.written_by(name).unwrap_or_else(|| "none".to_owned());
            return Err(format!("node {by} writes it now"));
        };
        let erased = collected(&carrier)?.erased;
        if erased > 0 {
            return Ok(erased + 1);
        }
        // It was erased before it was carried from here.
        carrier.owes_erasure();
        Ok(collected(&carrier)?.erased + 1)
    }
}

/// Brings all that a carrier was told into the chain, and collects.
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
