//! Interface of the leader directory: the leader of each workspace, and the staleness of a local copy.

use std::time::Duration;

use recalld_common::cancel::CancellationToken;
use recalld_common::wrong_node::WrongNode;

/// Name of the metastore where a workspace name is expected; no workspace can have this name.
pub const CONTROL: &str = "control-";

/// Another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Node name.
    pub node: String,
    /// Address of the node, if published.
    pub url: Option<String>,
}

/// Location of a workspace, as far as this node knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// This node is the leader.
    Here,
    /// This node is a follower.
    Follows {
        /// Staleness: everything acknowledged longer ago is here; `None` if unknown.
        age: Option<Duration>,
        /// The leader; `None` if there is none, or it sends no heartbeats.
        writer: Option<Peer>,
    },
    /// This node has no copy.
    Elsewhere {
        /// As in [`Where::Follows`].
        writer: Option<Peer>,
    },
}

/// Outcome of an acquisition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// This node is the leader now.
    Here,
    /// Another node is the leader.
    By(Peer),
    /// Not acquired, for this reason; a retry may succeed.
    NotNow(String),
}

/// Directory of the workspaces' leaders.
pub trait Whereabouts: Send + Sync {
    /// Location of a workspace now. Called for each call on the event loop, so the method must not block.
    fn of(&self, workspace: &str) -> Where;

    /// Waits until this node or another one is the leader, at most as long as an opening (`OPEN_WAIT_MAX`), or until
    /// `cancel` is cancelled. Only a bounded number of callers may wait at a time.
    fn take(&self, workspace: &str, cancel: &CancellationToken) -> Taken;

    /// Maximum staleness of a local answer.
    fn stale_max(&self) -> Duration;

    /// Treatment of a call that belongs to another node; `None` on a replica, which acquires nothing and redirects no
    /// call.
    fn wrong_node(&self) -> Option<WrongNode>;
}
