//! Where a call belongs, and whether what is here may be answered with.

use std::sync::Arc;
use std::time::Duration;

use super::not_here::NotHere;
use super::relay::Relay;
use super::whereabouts::{Peer, Taken, Where, Whereabouts};
use recalld_common::age::seconds;
use recalld_common::wants::Wants;
use recalld_common::wrong_node::WrongNode;

/// Where a call belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Here, where its workspace is written.
    Here,
    /// Here, where it is followed, and what is here is so old.
    Follows(Option<Duration>),
    /// To another node.
    At {
        /// Which.
        peer: Peer,
        /// Whether this one follows the workspace.
        is_followed: bool,
    },
    /// Nowhere, for this reason.
    Nowhere(String),
}

/// This node among others.
pub struct Cluster {
    whereabouts: Arc<dyn Whereabouts>,
    relay: Arc<Relay>,
}

impl Cluster {
    /// With one that knows where workspaces are.
    pub fn new(whereabouts: Arc<dyn Whereabouts>, relay: Arc<Relay>) -> Self {
        Self { whereabouts, relay }
    }

    /// What passes calls on.
    pub fn relay(&self) -> &Relay {
        &self.relay
    }

    /// What becomes of a call that belongs to another node; `None` where it is refused.
    pub fn wrong_node(&self) -> Option<WrongNode> {
        self.whereabouts.wrong_node()
    }

    /// Where a workspace is. Never waits.
    pub fn of(&self, workspace: &str) -> Where {
        self.whereabouts.of(workspace)
    }

    /// Where a call belongs. A workspace that nobody writes is taken for one that changes it, which may wait.
    pub fn place(&self, workspace: &str, wants: Wants) -> Place {
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
            None => match self.whereabouts.take(workspace) {
                Taken::Here => Place::Here,
                Taken::By(peer) => Place::At { peer, is_followed },
                Taken::NotNow(why) => Place::Nowhere(why),
            },
        }
    }

    /// Whether what is here may be answered with, and how many seconds old it is, rounded up.
    ///
    /// # Errors
    /// It is too old, or nobody can tell.
    pub fn fresh(&self, age: Option<Duration>) -> Result<u64, NotHere> {
        let most = self.whereabouts.stale_max();
        match age {
            Some(young) if young <= most => Ok(seconds(young)),
            age => Err(NotHere::Behind { age, most }),
        }
    }

    /// Lets a call work with a workspace. Gives the age of what is here, where it is another's; to be asked before the
    /// store is looked at, so that nothing that is told as seen is missing.
    ///
    /// # Errors
    /// It belongs to another node, or what is here is too old.
    pub fn reach(&self, workspace: &str, wants: Wants) -> Result<Option<u64>, NotHere> {
        match self.place(workspace, wants) {
            Place::Here => Ok(None),
            Place::Follows(age) => self.fresh(age).map(Some),
            Place::At { peer, .. } => Err(NotHere::WrittenBy(peer)),
            Place::Nowhere(why) => Err(NotHere::Nowhere(why)),
        }
    }
}
