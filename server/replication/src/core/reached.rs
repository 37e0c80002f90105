//! Erasure progress: the history before the erasure's record must be gone from storage and from every node.

use super::port::Port;
use crate::fault::Damage;
use crate::holds::{Holding, Holds};
use crate::limits::{HOLDS_BYTES_MAX, NODES_MAX};
use crate::names::{Key, NodeId};
use crate::objects::Away;

/// Progress of a workspace's erasures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// Record before which history is removed: the newest full record that ended an erasure.
    pub record: u64,
    /// Number up to which nothing of this history is in storage any more.
    pub gone: u64,
    /// Nodes that have data of the workspace, each with its holding.
    pub nodes: Vec<(NodeId, Holding)>,
}

impl Reached {
    /// Returns true if the data of the erasure that ended with this record is gone everywhere.
    #[must_use]
    pub fn is_everywhere(&self, record: u64) -> bool {
        self.is_gone(record) && self.behind(record).next().is_none()
    }

    /// Returns true if nothing from before this record is in storage any more.
    #[must_use]
    pub fn is_gone(&self, record: u64) -> bool {
        self.gone + 1 >= record
    }

    /// Nodes that may still have data from before this record.
    pub fn behind(&self, record: u64) -> impl Iterator<Item = &NodeId> {
        self.nodes.iter().filter(move |(_, holding)| !holding.is_past(record)).map(|(node, _)| node)
    }
}

/// Reads the progress of the erasures that the watermark states; `None` if there was no erasure.
///
/// # Errors
/// The storage did not respond, or a node's inventory is invalid.
pub async fn reached(port: &Port) -> Result<Option<Reached>, Away> {
    let edge = port.edge().await?;
    if edge.erased == 0 {
        return Ok(None);
    }
    let mut nodes = Vec::new();
    for holds in holds(port).await? {
        if let Some(holding) = holds.workspaces.get(port.tenant()) {
            nodes.push((holds.node, *holding));
        }
    }
    Ok(Some(Reached { record: edge.erased + 1, gone: edge.gone, nodes }))
}

/// Reads the inventories of all nodes.
///
/// # Errors
/// The storage did not respond, or an inventory cannot be read, so that the node's data is unknown.
async fn holds(port: &Port) -> Result<Vec<Holds>, Away> {
    let said = said(port).await?;
    said.into_iter().map(|(_, said)| said.map_err(Away::from)).collect()
}

/// Nodes that published an inventory, each with the inventory or the reason why it cannot be read.
///
/// # Errors
/// The storage did not respond.
pub async fn said(port: &Port) -> Result<Vec<(NodeId, Result<Holds, Damage>)>, Away> {
    // Each node has at most two objects: its heartbeat and its inventory.
    let listed = port.list("node/", None, 2 * NODES_MAX).await?;
    if listed.len() == 2 * NODES_MAX {
        // An erasure would not wait for a node that is missing from the list.
        let why = format!("there are more than {NODES_MAX} nodes; forget those that are gone");
        return Err(Away { why, may_pass: false });
    }
    let mut all = Vec::new();
    for about in listed {
        let Key::Holds(node) = &about.key else { continue };
        let Some(bytes) = port.get(about.key.clone(), None, HOLDS_BYTES_MAX as u64).await? else {
            continue;
        };
        let said = Holds::decode(&bytes).and_then(|holds| {
            let why = format!("{} says that it is of {}", about.key, holds.node);
            if holds.node == *node { Ok(holds) } else { Err(Damage::new("REM-70", why)) }
        });
        all.push((node.clone(), said));
    }
    Ok(all)
}
