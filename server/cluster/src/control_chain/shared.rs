//! What the thread of this node's part in the control store, and whoever asks the store, share.
//!
//! Owns how it stands, and who waits for what. Must not know how a chain is read or written, nor what is said of it.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::os::clock::{Clock, Random};
use recalld_replication::{Driver, Head, Node, NodeId, Nonce, Tenant, Ticks};

use super::leading::Lead;
use super::sealed::Seals;
use crate::whereabouts::Peer;
use recalld_auth::ClusterSecret;
use recalld_http_server::limits::WORKERS_MIN;
use recalld_metastore::ControlError;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

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

/// How long somebody waits for a look.
const LOOK_WAIT_MAX: Duration = Duration::from_secs(2);
/// How many wait for a look at once: of the fewest workers that there are, some are left for those who are known.
pub(super) const LOOKS_WAITING_MAX: usize = 6;
const _: () = assert!(LOOKS_WAITING_MAX < WORKERS_MIN);
/// How long a change waits for the remote before nobody knows.
const CARRY_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long an end waits for the store to be given away, and as long again for what is called off then.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long what waits for the remote waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) carry: Duration,
    pub(super) end: Duration,
}

impl Patience {
    pub(super) const MOST: Self = Self { carry: CARRY_WAIT_MAX, end: END_WAIT_MAX };
}

/// What the thread, and whoever asks the store, share.
pub(super) struct Shared {
    pub(super) with: With,
    pub(super) patience: Patience,
    pub(super) tenant: Tenant,
    pub(super) seals: Seals,
    pub(super) folder: PathBuf,
    /// Where this node writes it. Held while a record is made.
    pub(super) lead: Mutex<Option<Lead>>,
    pub(super) known: Mutex<Known>,
    /// Somebody wants a look, one is over, or all is.
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct Known {
    /// A moment just before the newest record of this node was sent, where it writes.
    pub(super) leads: Option<Ticks>,
    /// A moment of which all that was changed before it is here.
    pub(super) fresh: Option<Ticks>,
    /// The newest record that is here.
    pub(super) at: Option<Head>,
    /// Whether the store here is what the chain says at all.
    pub(super) is_whole: bool,
    /// Whether its writer seems to be gone.
    pub(super) is_free: bool,
    pub(super) trouble: Option<String>,
    /// How many looks began, and ended.
    pub(super) looks: (u64, u64),
    /// How many wait for one.
    pub(super) waiting: usize,
    /// What this node wrote last may be in the chain and is not here: its epoch is over.
    pub(super) is_missed: bool,
    pub(super) is_wanted: bool,
    /// All is to end.
    pub(super) is_ended: bool,
    /// All has ended.
    pub(super) is_over: bool,
}

impl Shared {
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The epoch of this node, if it has one that goes on.
    pub(super) fn lead(&self) -> MutexGuard<'_, Option<Lead>> {
        let mut lead = self.lead.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut self.known().is_missed) {
            *lead = None;
        }
        lead
    }

    /// Waits so long for its thread to end; whether it has.
    pub(super) fn wait_until_over(&self, thread: &JoinHandle<()>) -> bool {
        let goes_on = |known: &mut Known| !known.is_over && !thread.is_finished();
        let waited = self.changed.wait_timeout_while(self.known(), self.patience.end, goes_on);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over || thread.is_finished()
    }

    pub(super) fn now(&self) -> Ticks {
        self.with.driver.ticks.now()
    }

    /// Whether this node's word is all there is: nobody else can have written meanwhile.
    pub(super) fn covers(&self, known: Ticks) -> bool {
        self.with.node.as_ref().is_some_and(|node| node.covers(known))
    }

    pub(super) fn is_ready(&self) -> bool {
        let known = self.known();
        known.leads.is_some() || (known.is_whole && known.fresh.is_some())
    }

    pub(super) fn stands(&self) -> ControlStands {
        let known = self.known();
        if let Some(leads) = known.leads {
            let node = self.with.node.as_ref();
            return match node.map(|node| node.lapsed_for(leads)) {
                Some(None) => ControlStands::Leads,
                age => ControlStands::Follows { age: age.flatten(), writer: None, run: None },
            };
        }
        let fresh = known.fresh.filter(|_| known.is_whole);
        let age = fresh.map(|fresh| self.now() - fresh);
        let own = self.with.node.as_ref().map(|node| &node.writer().node);
        let writer = known.at.as_ref().filter(|at| !known.is_free && own != Some(&at.node));
        let run = writer.map(|at| at.run);
        let writer = writer.map(|at| Peer {
            node: at.node.to_string(),
            url: Some(at.url.clone()).filter(|url| !url.is_empty()),
        });
        ControlStands::Follows { age, writer, run }
    }

    pub(super) fn catch_up(&self) -> CaughtUp {
        let asked = self.now();
        let mut known = self.known();
        if known.leads.is_some_and(|leads| self.covers(leads)) {
            return CaughtUp::Needless;
        }
        if known.waiting >= LOOKS_WAITING_MAX {
            return CaughtUp::Unknown;
        }
        known.waiting += 1;
        // One that began before may have missed it.
        let wanted = known.looks.0 + 1;
        known.is_wanted = true;
        self.changed.notify_all();
        let waits = |known: &mut Known| known.looks.1 < wanted && !known.is_ended;
        let waited = self.changed.wait_timeout_while(known, LOOK_WAIT_MAX, waits);
        let mut known = waited.unwrap_or_else(PoisonError::into_inner).0;
        known.waiting -= 1;
        let is_here = known.is_whole && known.fresh >= Some(asked);
        if is_here || known.leads.is_some_and(|leads| self.covers(leads)) {
            CaughtUp::Here
        } else {
            CaughtUp::Unknown
        }
    }

    pub(super) fn may_write(&self) -> Result<(), ControlError> {
        if self.known().leads.is_some() { Ok(()) } else { Err(self.elsewhere()) }
    }

    /// What is in the chain comes back to this store as to any other.
    pub(super) fn missed(&self) {
        self.known().is_missed = true;
        self.lost();
    }

    /// Whether what is made for the epoch of this node is still wanted.
    pub(super) fn lead_goes_on(&self) -> bool {
        !self.known().is_ended
    }

    /// Ends the epoch of this node where it is over.
    pub(super) fn drop_if_over(&self, mut lead: MutexGuard<'_, Option<Lead>>) {
        let is_over = lead.take_if(|lead| lead.is_over()).is_some();
        drop(lead);
        if is_over {
            self.lost();
        }
    }

    /// This node does not write it from here on: what is here now is all there was, and is looked at as a copy
    /// (NOD-30).
    pub(super) fn grows_old(&self) {
        let mut known = self.known();
        let Some(leads) = known.leads.take() else { return };
        let until = if self.covers(leads) { self.now() } else { leads };
        known.fresh = known.fresh.max(Some(until));
    }

    /// This node writes it no more.
    pub(super) fn lost(&self) {
        self.grows_old();
        self.known().is_wanted = true;
        self.changed.notify_all();
        log::event(Level::Warn, "this node writes the control store no more; it follows", &[]);
    }
}

pub(super) fn tell(level: Level, what: &'static str, why: &str) {
    log::event(level, what, &[("why", Value::Text(&why))]);
}
