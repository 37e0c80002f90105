//! What one node says to another of the control store.
//!
//! Owns the form of these messages (format-spec/nodes.md, Between nodes). Must not know how they are signed and sent.

use serde::{Deserialize, Serialize};

/// The path where one node asks another.
pub const PATH: &str = "/nodes/control";
/// Bytes of a message or of its answer: as many settlements as a flush has.
pub(super) const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Settlements of one message.
pub(super) const SETTLEMENTS_MAX: usize = 4096;

/// What is asked of the node that writes the control store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Asked {
    /// Part of a workspace's quota.
    TakeBlock { slug: String, month: String, block: u64, wanted: u32, quota: Option<u64> },
    /// What was used of such parts.
    Settle { settlements: Vec<Settled> },
    /// The last checkpoint of a ledger of the node that asks.
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

/// What is answered to [`Asked::TakeBlock`]; nothing where nothing is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Given {
    pub(super) block: Option<GivenBlock>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GivenBlock {
    pub(super) calls: u32,
    /// In seconds since 1970.
    pub(super) expires_at: u64,
}
