//! How far an erasure came: whether the history before its record is gone, and which nodes have to lose it still.

use super::port::Port;
use crate::fault::Damage;
use crate::holds::{Holding, Holds};
use crate::limits::{HOLDS_BYTES_MAX, NODES_MAX};
use crate::names::{Key, NodeId};
use crate::objects::Away;

/// How far erasures came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The record before which history goes: the newest full one that ended an erasure.
    pub record: u64,
    /// Up to here nothing of it lies on the storage any more.
    pub gone: u64,
    /// The nodes that have the workspace, and what of it.
    pub nodes: Vec<(NodeId, Holding)>,
}

impl Reached {
    /// Whether what an erasure erased is nowhere any more that ended with this record.
    #[must_use]
    pub fn is_everywhere(&self, record: u64) -> bool {
        self.is_gone(record) && self.behind(record).next().is_none()
    }

    /// Whether nothing from before this record lies on the storage any more.
    #[must_use]
    pub fn is_gone(&self, record: u64) -> bool {
        self.gone + 1 >= record
    }

    /// The nodes that may have something from before this record still.
    pub fn behind(&self, record: u64) -> impl Iterator<Item = &NodeId> {
        self.nodes.iter().filter(move |(_, holding)| !holding.is_past(record)).map(|(node, _)| node)
    }
}

/// How far the erasures came that an edge tells of; `None` where there was none.
///
/// # Errors
/// No answer, or a node says what cannot be.
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

/// What all nodes say that they have.
///
/// # Errors
/// No answer; or what one says cannot be read, and so not what it has.
async fn holds(port: &Port) -> Result<Vec<Holds>, Away> {
    let said = said(port).await?;
    said.into_iter().map(|(_, said)| said.map_err(Away::from)).collect()
}

/// The nodes that say what they have, and what, or why that cannot be read.
///
/// # Errors
/// No answer.
pub async fn said(port: &Port) -> Result<Vec<(NodeId, Result<Holds, Damage>)>, Away> {
    // A node has a beat and what it holds.
    let listed = port.list("node/", None, 2 * NODES_MAX).await?;
    if listed.len() == 2 * NODES_MAX {
        // Of who is not in the list nobody would be waited for.
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
