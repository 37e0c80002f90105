//! Who writes a workspace, and how old another's copy of it is: what this room asks of whoever knows.
//!
//! Owns the words of that question. Must not know leases, chains or how a copy is kept.

use std::time::Duration;

use recalld_common::wrong_node::WrongNode;

/// What stands for the control store where a workspace is asked for: no workspace is called so.
pub const CONTROL: &str = "control-";

/// A node that is not this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// What it is called.
    pub node: String,
    /// Where it is reached, if it says so.
    pub url: Option<String>,
}

/// Where a workspace is, as far as this node knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// It is written here.
    Here,
    /// It is followed here.
    Follows {
        /// All that was acknowledged longer ago than this is here; `None` where nobody can tell how long.
        age: Option<Duration>,
        /// Who writes it; `None` where that is nobody, or one that gives no sign of life.
        writer: Option<Peer>,
    },
    /// It is neither written nor followed here.
    Elsewhere {
        /// As of [`Where::Follows`].
        writer: Option<Peer>,
    },
}

/// What came of asking for a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// This node writes it now.
    Here,
    /// Another one does.
    By(Peer),
    /// Not now, for this reason.
    NotNow(String),
}

/// Whoever knows where workspaces are.
pub trait Whereabouts: Send + Sync {
    /// Where a workspace is now. Asked for each call, and on the event loop: it must not wait.
    fn of(&self, workspace: &str) -> Where;

    /// Has this node write a workspace. Waits as long as the opening of one does (`OPEN_WAIT_MAX`), and lets only so
    /// many callers of one workspace wait.
    fn take(&self, workspace: &str) -> Taken;

    /// How old what is answered here may be.
    fn stale_max(&self) -> Duration;

    /// What becomes of a call that belongs to another node; `None` where this one is a replica, which takes nothing
    /// and sends nobody on.
    fn wrong_node(&self) -> Option<WrongNode>;
}
