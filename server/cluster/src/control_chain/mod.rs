//! The control store among nodes: one node writes it, the others follow, by a chain on their remote
//! (format-spec/remote.md, The control store).
//!
//! Owns this node's part in that chain, and whether what is here may be told. A change is in the chain before it is in
//! the file here, so the file is never ahead of what others will have. Must not know what records of the store mean,
//! nor who asks for them.

mod between;
mod carrying;
mod following;
mod leading;
mod marker;
mod place;
mod rows;
mod said;
mod sealed;
mod seen;
mod shared;
mod signed;
mod taking;
#[cfg(test)]
mod tests;
mod through;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::os::clock::{Clock, Random};
use recalld_replication::core::Claim;
use recalld_replication::{Driver, Node, NodeId, Nonce, Tenant};

pub use between::PATH;
pub use marker::{MARKER, node_of};
pub use through::{ThroughWriter, serve};

use self::carrying::Carrying;
use self::following::Reader;
use self::sealed::Seals;
use self::seen::Seen;
use self::shared::{Patience, Shared};
use crate::Peer;
use recalld_auth::ClusterSecret;
use recalld_metastore::Control;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// What is said first of a control store that is one of several nodes'.
pub const SHARED: &str = "shared with other nodes";
/// Where tables lie on their way to the remote or from it.
const FOLDER: &str = "control.far";
/// How long after one look at the chain the next one comes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The least time between two looks, however many ask for one.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(100);
/// How long after one collection the next one comes.
const COLLECT_EVERY: Duration = Duration::from_secs(3600);
/// How long a start waits between two looks.
const START_PAUSE: Duration = Duration::from_millis(250);
/// How often a start looks until the store is what the chain says.
const START_TRIES_MAX: usize = 8;

/// What a node's part in the control store's chain is made of.
pub struct With {
    /// Where chains and objects are.
    pub driver: Driver,
    /// What this node is called.
    pub name: NodeId,
    /// This node, if it may write.
    pub node: Option<Arc<Node>>,
    /// What all nodes share.
    pub secret: Arc<ClusterSecret>,
    /// How old what is here may be when it is told.
    pub stale_max: Duration,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
}

/// This node's part in the control store, until it is dropped.
pub struct ControlChain {
    shared: Arc<Shared>,
    /// What other nodes said to this one.
    seen: Seen,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How the control store stands here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlStands {
    /// This node writes it, and may answer for it.
    Leads,
    /// What is here is so old; `None` where nobody can tell.
    Follows {
        /// How old.
        age: Option<Duration>,
        /// Who writes it, if that is known and it gives signs of life.
        writer: Option<Peer>,
        /// That node's process.
        run: Option<Nonce>,
    },
}

/// What came of looking whether others changed the control store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaughtUp {
    /// Nobody else can have.
    Needless,
    /// All that was changed before is here.
    Here,
    /// Nobody can tell.
    Unknown,
}

impl ControlChain {
    /// Brings the control store to what the chain says, and keeps it there. A writer begins the chain where there is
    /// none, with what the store has.
    ///
    /// # Errors
    /// The remote did not answer, the secret is another one, or this node has tenants of its own.
    pub fn open(data: &Path, control: &Arc<Control>, with: With) -> Result<Self, String> {
        let reader = Reader::begin(data, control, with, Patience::MOST)?;
        Self::begin(reader)
    }

    fn begin(mut reader: Reader) -> Result<Self, String> {
        let shared = Arc::clone(&reader.shared);
        for tries in 1.. {
            match reader.turn() {
                Ok(()) if shared.is_ready() => break,
                Ok(()) if tries < START_TRIES_MAX => {
                    shared.known().trouble = reader.awaited();
                    shared.with.driver.halt.wait(START_PAUSE);
                }
                Ok(()) => break,
                Err(why) if tries < START_TRIES_MAX && !reader.is_final() => {
                    shared.known().trouble = Some(why);
                    shared.with.driver.halt.wait(LOOK_EVERY);
                }
                Err(why) => return Err(why),
            }
        }
        let thread = thread::Builder::new().name("control".to_owned());
        let thread = thread.spawn(move || reader.run()).map_err(|error| error.to_string())?;
        Ok(Self { shared, seen: Seen::default(), thread: Mutex::new(Some(thread)) })
    }

    /// How it stands.
    pub fn stands(&self) -> ControlStands {
        self.shared.stands()
    }

    /// Looks whether others changed something, and returns once what was changed before is here, or after a while.
    pub fn catch_up(&self) -> CaughtUp {
        self.shared.catch_up()
    }

    /// Who writes it and how old what is here is, for people.
    ///
    /// # Errors
    /// The same, where it is too old to be answered with.
    pub fn told(&self) -> Result<String, String> {
        self.shared.told()
    }

    /// Gives the store away, for another node to write it, and follows no more. A remote that does not answer is not
    /// waited for: others take the store then once this node's lease is over.
    pub fn end(&self) {
        self.shared.known().is_ended = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        let mut is_over = self.shared.wait_until_over(&thread);
        if !is_over {
            self.shared.with.driver.halt.raise();
            is_over = self.shared.wait_until_over(&thread);
        }
        if is_over {
            let _its_panic_is_on_stderr = thread.join();
        } else {
            let why = "the remote does not answer";
            tell(Level::Warn, "the control store was not given away", why);
        }
    }
}

impl Drop for ControlChain {
    fn drop(&mut self) {
        self.end();
    }
}

impl Reader {
    /// This node's part, without a thread yet.
    fn begin(
        data: &Path,
        control: &Arc<Control>,
        with: With,
        patience: Patience,
    ) -> Result<Self, String> {
        let halt = Arc::default();
        let with = With { driver: Driver { halt, ..with.driver }, ..with };
        let shared = Arc::new(Shared {
            tenant: Tenant::control(),
            seals: Seals(Arc::clone(&with.secret)),
            folder: data.join(FOLDER),
            lead: Mutex::default(),
            known: Mutex::default(),
            changed: Condvar::new(),
            patience,
            with,
        });
        control.carry_by(Arc::new(Carrying(Arc::clone(&shared))));
        let claim = shared.with.node.as_ref();
        let claim = claim.map(|node| Claim::new(node.writer().clone(), node.lease()));
        Self::open(data, &shared, control, claim)
    }
}

fn tell(level: Level, what: &'static str, why: &str) {
    log::event(level, what, &[("why", Value::Text(&why))]);
}
