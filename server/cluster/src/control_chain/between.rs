//! Messages between nodes about the metastore (format-spec/nodes.md, Requests between nodes).

use serde::{Deserialize, Serialize};

/// Path at which a node receives requests of other nodes.
pub const PATH: &str = "/nodes/control";
/// Maximum bytes of a request or of its response: enough for the settlements of one flush.
pub(super) const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Maximum settlements of one request.
pub(super) const SETTLEMENTS_MAX: usize = 4096;

/// Request to the leader of the metastore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Asked {
    /// Leases a quota block of a workspace.
    TakeBlock { slug: String, month: String, block: u64, wanted: u32, quota: Option<u64> },
    /// Reports the used calls of quota blocks.
    Settle { settlements: Vec<Settled> },
    /// Anchors the last checkpoint of a ledger of the requesting node.
    Anchor { slug: String, seq: u64, head: String, at: u64, first: Option<String> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settled {
    pub(super) slug: String,
    pub(super) month: String,
    pub(super) block: u64,
    pub(super) used: u32,
    pub(super) keep: bool,
}

/// Response to [`Asked::TakeBlock`]; `None` if the quota is exhausted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Given {
    pub(super) block: Option<GivenBlock>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GivenBlock {
    pub(super) calls: u32,
    /// Seconds since 1970.
    pub(super) expires_at: u64,
}
