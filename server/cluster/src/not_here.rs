use std::fmt;
use std::time::Duration;

use super::whereabouts::Peer;
use crate::limits::RELAYS_MAX;
use recalld_common::age::seconds;

/// Reason why this node does not answer a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotHere {
    /// The local copy is too old.
    Behind {
        /// Age of the copy; `None` if unknown.
        age: Option<Duration>,
        /// Maximum age.
        most: Duration,
    },
    /// Another node is the leader of the workspace.
    WrittenBy(Peer),
    /// No leader is known, and this node does not have the workspace.
    Nowhere(String),
    /// The leader cannot be reached; the call was not sent.
    Unreached(Peer),
    /// The call was sent, and its response was lost.
    Lost(Peer),
    /// Too many calls are being forwarded.
    Busy,
    /// A needed part of the workspace is not on this machine yet, for this reason.
    Filling(String),
}

impl NotHere {
    /// Reason for programs, in `snake_case`.
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
