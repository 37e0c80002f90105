//! Why a call is not answered by this node.
//!
//! Owns the reason and the words of each. Must not know how it was found out, or how it is sent.

use std::fmt;
use std::time::Duration;

use super::whereabouts::Peer;
use crate::limits::RELAYS_MAX;
use recalld_common::age::seconds;

/// Why a call is not answered here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotHere {
    /// What is here is too old.
    Behind {
        /// How old, where anybody can tell.
        age: Option<Duration>,
        /// How old it may be.
        most: Duration,
    },
    /// Another node writes the workspace.
    WrittenBy(Peer),
    /// Nobody is known who has it, and this node does not.
    Nowhere(String),
    /// The node that writes it cannot be reached; it was not asked.
    Unreached(Peer),
    /// It was asked, and its answer did not come.
    Lost(Peer),
    /// Too many calls are passed on already.
    Busy,
    /// A part of the workspace that the question needs is not on this machine yet. Holds why.
    Filling(String),
}

impl NotHere {
    /// For programs, in `snake_case`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Behind { .. } => "replica_behind",
            Self::WrittenBy(_) => "written_elsewhere",
            Self::Nowhere(_) => "workspace_unavailable",
            Self::Unreached(_) => "writer_unreachable",
            Self::Lost(_) => "answer_lost",
            Self::Busy => "too_many_requests",
            Self::Filling(_) => "replica_filling",
        }
    }
}

impl fmt::Display for NotHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind { age: Some(age), most } => {
                let (behind, most) = (seconds(*age), most.as_secs());
                write!(f, "This replica is {behind} s behind; at most {most} s are allowed")
            }
            Self::Behind { age: None, .. } => {
                f.write_str("How far this replica is behind is not known yet")
            }
            Self::WrittenBy(Peer { node, url: Some(url) }) => {
                write!(f, "This workspace is written by node {node}, at {url}; ask there")
            }
            Self::WrittenBy(Peer { node, url: None }) => write!(
                f,
                "This workspace is written by node {node}, which does not say where it is (`remote.node_url`)"
            ),
            Self::Nowhere(why) => f.write_str(why),
            Self::Filling(why) => {
                write!(f, "A part of this workspace is not on this node yet; ask again ({why})")
            }
            Self::Unreached(Peer { node, .. }) => {
                write!(f, "Node {node}, which writes this workspace, cannot be reached now")
            }
            Self::Lost(Peer { node, .. }) => write!(
                f,
                "Node {node}, which writes this workspace, was asked, and its answer did not come; what was \
                 asked may have been done"
            ),
            Self::Busy => {
                write!(
                    f,
                    "{RELAYS_MAX} calls are passed on to other nodes already; try again later"
                )
            }
        }
    }
}
