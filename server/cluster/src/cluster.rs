//! Routes a call to the node that can answer it, and checks that the local copy is fresh enough.

use std::sync::Arc;
use std::time::Duration;

use super::not_here::NotHere;
use super::relay::Relay;
use super::whereabouts::{Peer, Taken, Where, Whereabouts};
use recalld_common::age::seconds;
use recalld_common::cancel::CancellationToken;
use recalld_common::wants::Wants;
use recalld_common::wrong_node::WrongNode;

/// Node that can answer a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// This node, which is the leader of the workspace.
    Here,
    /// This node, which is a follower, with the age of the local copy; `None` if the age is unknown.
    Follows(Option<Duration>),
    /// Another node.
    At {
        /// Node to forward to.
        peer: Peer,
        /// True if this node follows the workspace.
        is_followed: bool,
    },
    /// No node, for this reason.
    Nowhere(String),
}

/// Routing of calls among the nodes of a cluster.
pub struct Cluster {
    whereabouts: Arc<dyn Whereabouts>,
    relay: Arc<Relay>,
}

impl Cluster {
    /// Routes calls with this leader directory and relay.
    pub fn new(whereabouts: Arc<dyn Whereabouts>, relay: Arc<Relay>) -> Self {
        Self { whereabouts, relay }
    }

    /// Client that forwards calls to other nodes.
    pub fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Treatment of a call that belongs to another node; `None` if the call is refused.
    pub fn wrong_node(&self) -> Option<WrongNode> {
        self.whereabouts.wrong_node()
    }

    /// Location of a workspace's leader. Never blocks.
    pub fn of(&self, workspace: &str) -> Where {
        self.whereabouts.of(workspace)
    }

    /// Returns the node that can answer a call. If a workspace has no leader and the call writes, this node tries to
    /// acquire the workspace, which may block until the call is cancelled.
    pub fn place(&self, workspace: &str, wants: Wants, cancel: &CancellationToken) -> Place {
        let (writer, is_followed) = match (self.whereabouts.of(workspace), wants) {
            (Where::Here, _) => return Place::Here,
            (Where::Follows { age, .. }, Wants::Reads) => return Place::Follows(age),
            (Where::Follows { writer, .. }, Wants::Writes) => (writer, true),
            (Where::Elsewhere { writer }, _) => (writer, false),
        };
        match writer {
            Some(peer) => Place::At { peer, is_followed },
            None if self.wrong_node().is_none() => {
                let why = "This is a replica, and nobody is known who writes this workspace";
                Place::Nowhere(why.to_owned())
            }
            None if wants == Wants::Reads => Place::Nowhere(
                "This workspace is not on this node, nor known on another".to_owned(),
            ),
            None => match self.whereabouts.take(workspace, cancel) {
                Taken::Here => Place::Here,
                Taken::By(peer) => Place::At { peer, is_followed },
                Taken::NotNow(why) => Place::Nowhere(why),
            },
        }
    }

    /// Checks that a local copy of this age may be read. Returns the age in seconds, rounded up.
    ///
    /// # Errors
    /// The copy is too old, or its age is unknown.
    pub fn fresh(&self, age: Option<Duration>) -> Result<u64, NotHere> {
        let most = self.whereabouts.stale_max();
        match age {
            Some(young) if young <= most => Ok(seconds(young)),
            age => Err(NotHere::Behind { age, most }),
        }
    }

    /// Checks that this node may answer a call for a workspace. Returns the age of the local copy in seconds if this
    /// node is a follower. Call this before reading the store, so that the copy is never older than the reported age.
    ///
    /// # Errors
    /// The workspace belongs to another node, or the local copy is too old.
    pub fn reach(
        &self,
        workspace: &str,
        wants: Wants,
        cancel: &CancellationToken,
    ) -> Result<Option<u64>, NotHere> {
        match self.place(workspace, wants, cancel) {
            Place::Here => Ok(None),
            Place::Follows(age) => self.fresh(age).map(Some),
            Place::At { peer, .. } => Err(NotHere::WrittenBy(peer)),
            Place::Nowhere(why) => Err(NotHere::Nowhere(why)),
        }
    }
}
