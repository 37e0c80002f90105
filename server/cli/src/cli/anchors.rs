//! The last checkpoints of ledgers, as the control store has them: of this process, or of the server that has it.
//!
//! Must not know what a ledger holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use engine::ledger::{Anchor, Hash};
use engine::os::clock::{SystemClock, SystemRandom};
use engine::os::disk::{Disk, DiskLock, RealDisk};
use serde_json::{Value, json};

use super::failure::Failure;
use super::remote::Remote;
use recalld_cluster::control_chain::node_of;
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_common::slug::is_slug;
use recalld_embedding::model::hex_digest;
use recalld_fs_util::data_dir::{CONTROL_FILE, workspace_dir};
use recalld_metastore::{Control, LISTED_MAX};

/// A checkpoint that is on record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) anchor: Anchor,
    /// The first entry of the ledger that it is of; `None` where there is one ledger, or nobody said.
    first: Option<Hash>,
}

/// The checkpoint that the ledger of this disk is held against which begins with that entry, or has none, and those of
/// others that this node had of the workspace before. `known` has the newest ledger's first: where a ledger of this
/// disk `was_brought`, and has no entry now, it is that one (LED-19).
pub(super) fn divide(
    known: &[Known],
    was_brought: bool,
    first: Option<Hash>,
) -> (Option<Anchor>, Vec<Anchor>) {
    let anchors = |known: &[Known]| known.iter().map(|known| known.anchor).collect();
    if let (None, true, [newest, others @ ..]) = (first, was_brought, known) {
        return (Some(newest.anchor), anchors(others));
    }
    let is_of = |known: &&Known| known.first.is_none() || known.first == first;
    let (own, others): (Vec<Known>, Vec<Known>) = known.iter().partition(is_of);
    let own = own.iter().map(|known| known.anchor).max_by_key(|anchor| anchor.seq);
    (own, anchors(&others))
}

/// By workspace: where nodes share the control store, also those of ledgers that this node had before.
pub(super) type Kept = BTreeMap<String, Vec<Known>>;

/// Each workspace's; none where there is no control store.
pub(super) fn of(data: &Path) -> Result<Kept, String> {
    let file = data.join(CONTROL_FILE);
    if !file.exists() {
        return Ok(BTreeMap::new());
    }
    // The bearer is for a server that has the stores, and not for whoever listens where one did that was killed.
    let Some(_held) = own(data)? else {
        let asked = Remote::find(data).and_then(|server| beside(&server));
        return asked.map_err(|failure| match failure {
            Failure::No(why) | Failure::Usage(why) | Failure::Could(why) => why,
        });
    };
    let control = Control::at(&file, Arc::new(SystemClock), Arc::new(SystemRandom));
    let node = node_of(data)?;
    let (mut all, mut after) = (Kept::new(), None);
    loop {
        let page = control.anchors_of(node.as_deref(), after.as_deref(), LISTED_MAX);
        let page = page.map_err(|error| error.to_string())?;
        let is_last = page.len() < LISTED_MAX;
        after = page.last().map(|(workspace, _)| workspace.clone());
        for (name, last) in page {
            let anchor = Anchor { seq: last.seq, head: last.head };
            all.entry(name).or_default().push(Known { anchor, first: last.first });
        }
        if is_last {
            return Ok(all);
        }
    }
}

/// The lock on the store of `local`, which whoever serves these data has; nothing where another process has it.
fn own(data: &Path) -> Result<Option<Option<Box<dyn DiskLock>>>, String> {
    let store = workspace_dir(data).join("store");
    if !store.is_dir() {
        return Ok(Some(None));
    }
    let lock = RealDisk::open(&store).and_then(|disk| disk.lock());
    lock.map(|lock| lock.map(Some)).map_err(|error| error.to_string())
}

fn beside(server: &Remote) -> Result<Kept, Failure> {
    let (mut all, mut after) = (Kept::new(), Value::Null);
    loop {
        let asked = json!({"act": "anchor list", "after": after});
        let mut page = server.administer("/operator/admin", &asked)?;
        for row in page["anchors"].as_array().into_iter().flatten() {
            let known = (|| {
                let head = hex_digest(row["head"].as_str()?)?;
                let first = match &row["first"] {
                    Value::Null => None,
                    first => Some(hex_digest(first.as_str()?)?),
                };
                let anchor = Anchor { seq: row["seq"].as_u64()?, head };
                Some((row["workspace"].as_str()?.to_owned(), Known { anchor, first }))
            })();
            let unreadable = || Failure::could("the server's answer is none of ours");
            let (name, known) = known.ok_or_else(unreadable)?;
            all.entry(name).or_default().push(known);
        }
        match page["next"].take() {
            Value::Null => return Ok(all),
            next => after = next,
        }
    }
}

/// Every workspace that has a ledger, or had one by what is on record.
pub(super) fn workspaces(data: &Path, kept: &Kept) -> Result<Vec<String>, Failure> {
    let mut names: BTreeSet<String> = kept.keys().cloned().collect();
    let folder = data.join("tenants");
    let entries = fs::read_dir(&folder)
        .map_err(|error| Failure::Could(format!("{}: {error}", folder.display())))?;
    for entry in entries {
        let entry = entry.map_err(Failure::could)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_workspace = name == LOCAL_WORKSPACE || is_slug(&name);
        if is_workspace && entry.path().join("ledger").is_dir() {
            names.insert(name);
        }
    }
    Ok(names.into_iter().collect())
}
