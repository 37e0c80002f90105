//! The last checkpoints of ledgers, as the control store has them: of this process, or of the server that has it.
//!
//! Must not know what a ledger holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use engine::ledger::Anchor;
use engine::os::clock::{SystemClock, SystemRandom};
use engine::os::disk::{Disk, DiskLock, RealDisk};
use serde_json::{Value, json};

use super::Failure;
use super::remote::Remote;
use crate::auth::LOCAL_WORKSPACE;
use crate::control::{Control, LISTED_MAX};
use crate::control_chain::node_of;
use crate::data_dir::{CONTROL_FILE, workspace_dir};
use crate::model::hex_digest;
use crate::tenants::is_slug;

/// Each workspace's; none where there is no control store.
pub(super) fn of(data: &Path) -> Result<BTreeMap<String, Anchor>, String> {
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
    let (mut all, mut after) = (BTreeMap::new(), None);
    loop {
        let page = control.anchors_of(node.as_deref(), after.as_deref(), LISTED_MAX);
        let page = page.map_err(|error| error.to_string())?;
        let is_last = page.len() < LISTED_MAX;
        after = page.last().map(|(workspace, _)| workspace.clone());
        all.extend(page.into_iter().map(|(name, last)| {
            let anchor = Anchor { seq: last.seq, head: last.head };
            (name, anchor)
        }));
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

fn beside(server: &Remote) -> Result<BTreeMap<String, Anchor>, Failure> {
    let (mut all, mut after) = (BTreeMap::new(), Value::Null);
    loop {
        let asked = json!({"act": "anchor list", "after": after});
        let mut page = server.administer("/operator/admin", &asked)?;
        for row in page["anchors"].as_array().into_iter().flatten() {
            let anchor = (|| {
                let head = hex_digest(row["head"].as_str()?)?;
                Some((row["workspace"].as_str()?.to_owned(), row["seq"].as_u64()?, head))
            })();
            let unreadable = || Failure::could("the server's answer is none of ours");
            let (name, seq, head) = anchor.ok_or_else(unreadable)?;
            all.insert(name, Anchor { seq, head });
        }
        match page["next"].take() {
            Value::Null => return Ok(all),
            next => after = next,
        }
    }
}

/// Every workspace that has a ledger, or had one by what is on record.
pub(super) fn workspaces(
    data: &Path,
    kept: &BTreeMap<String, Anchor>,
) -> Result<Vec<String>, Failure> {
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
