//! The last recorded checkpoints of ledgers, read from the metastore, or from the server that has the metastore open.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use engine::ledger::{Anchor, Hash};
use engine::os::clock::{SystemClock, SystemRandom};
use engine::os::disk::{Disk, DiskLock, FsDisk};
use serde_json::{Value, json};

use super::failure::Failure;
use super::remote::Remote;
use recalld_cluster::control_chain::node_of;
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_common::slug::is_slug;
use recalld_embedding::model::hex_digest;
use recalld_fs_util::data_dir::{CONTROL_FILE, workspace_dir};
use recalld_metastore::{Control, LISTED_MAX};

#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) anchor: Anchor,
    /// Hash of the first entry of the anchored ledger; `None` if unrecorded, or if there is only one ledger.
    first: Option<Hash>,
}

/// Splits `known` into the checkpoint of the ledger that begins with `first`, and the checkpoints of the workspace's
/// former ledgers on this node. The newest ledger comes first in `known`. If an uploaded ledger (`was_brought`) has no
/// entry now, the newest checkpoint is its own (LED-19).
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

/// Checkpoints by workspace. If nodes share the metastore, the node's former ledgers are included.
pub(super) type Kept = BTreeMap<String, Vec<Known>>;

/// Loads the checkpoints of every workspace; empty if there is no metastore.
pub(super) fn of(data: &Path) -> Result<Kept, String> {
    let file = data.join(CONTROL_FILE);
    if !file.exists() {
        return Ok(BTreeMap::new());
    }
    // The bearer is sent only while a server holds the store's lock. After a killed server, another program may listen
    // on its port.
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

/// Tries to lock the store of `local`, which every serving process holds. The result is `None` if another process has
/// the lock, and `Some(None)` if there is no store.
fn own(data: &Path) -> Result<Option<Option<Box<dyn DiskLock>>>, String> {
    let store = workspace_dir(data).join("store");
    if !store.is_dir() {
        return Ok(Some(None));
    }
    let lock = FsDisk::open(&store).and_then(|disk| disk.lock());
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

/// Returns every workspace with a ledger on disk or a recorded checkpoint.
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
