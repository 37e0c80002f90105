//! State that the replication thread and the readers and writers of the metastore share.
//!
//! Owns the replication status, and which caller waits for which event.

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
use recalld_common::monitor::EventCount;
use recalld_http_server::limits::WORKERS_MIN;
use recalld_metastore::ControlError;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// Dependencies of a metastore replica.
pub struct With {
    /// Access to record logs and objects.
    pub driver: Driver,
    /// Name of this node.
    pub name: NodeId,
    /// This node's membership; `None` if the node may not write.
    pub node: Option<Arc<Node>>,
    /// Secret that all nodes share.
    pub secret: Arc<ClusterSecret>,
    /// Maximum age of a readable local copy.
    pub stale_max: Duration,
    /// Advanced after each poll, as the role may have changed.
    pub moves: EventCount,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// Source of random bytes.
    pub random: Arc<dyn Random>,
}

/// Replication status of the metastore on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlStands {
    /// This node is the leader, and its copy is current.
    Leads,
    /// This node is a follower.
    Follows {
        /// Age of the local copy; `None` if unknown.
        age: Option<Duration>,
        /// The leader, if one is known and alive.
        writer: Option<Peer>,
        /// Process id (run) of the leader.
        run: Option<Nonce>,
    },
}

/// Result of a catch-up with the other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaughtUp {
    /// No other node can have written.
    Needless,
    /// All earlier changes are applied here.
    Here,
    /// Unknown: the poll failed or took too long.
    Unknown,
}

/// Maximum wait of a caller for a poll.
const LOOK_WAIT_MAX: Duration = Duration::from_secs(2);
/// Maximum callers that wait for a poll at once. Even with the fewest workers, some stay free for known callers.
pub(super) const LOOKS_WAITING_MAX: usize = 6;
const _: () = assert!(LOOKS_WAITING_MAX < WORKERS_MIN);
/// Maximum wait of a change for the remote; then its outcome is unknown.
const CARRY_WAIT_MAX: Duration = Duration::from_secs(10);
/// Maximum wait of a shutdown for the release of the epoch, and once more for the cancelled requests.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

/// Bounds of waits for the remote.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub(super) carry: Duration,
    pub(super) end: Duration,
}

impl Patience {
    pub(super) const MOST: Self = Self { carry: CARRY_WAIT_MAX, end: END_WAIT_MAX };
}

/// State shared by the replication thread and all callers.
pub(super) struct Shared {
    pub(super) with: With,
    pub(super) patience: Patience,
    pub(super) tenant: Tenant,
    pub(super) seals: Seals,
    pub(super) folder: PathBuf,
    /// Leader epoch of this node, if any. Locked while a record is written.
    pub(super) lead: Mutex<Option<Lead>>,
    pub(super) known: Mutex<Known>,
    /// Notified if a poll is requested, a poll has ended, or the replica shuts down.
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct Known {
    /// If this node is the leader: time just before its newest record was sent.
    pub(super) leads: Option<Ticks>,
    /// Freshness: all changes before this time are applied here.
    pub(super) fresh: Option<Ticks>,
    /// Newest record applied here.
    pub(super) at: Option<Head>,
    /// True if the local metastore is a state of the record log.
    pub(super) is_whole: bool,
    /// True if the leader is considered gone.
    pub(super) is_free: bool,
    pub(super) trouble: Option<String>,
    /// Numbers of polls begun and ended.
    pub(super) looks: (u64, u64),
    /// Callers that wait for a poll.
    pub(super) waiting: usize,
    /// True if this node's last write may be in the record log but not in the local file: its epoch is over.
    pub(super) is_missed: bool,
    pub(super) is_wanted: bool,
    /// Shutdown is requested.
    pub(super) is_ended: bool,
    /// Shutdown is complete.
    pub(super) is_over: bool,
}

impl Shared {
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks this node's leader epoch; `None` inside if there is none or it is over.
    pub(super) fn lead(&self) -> MutexGuard<'_, Option<Lead>> {
        let mut lead = self.lead.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut self.known().is_missed) {
            *lead = None;
        }
        lead
    }

    /// Waits at most `patience.end` for the thread to end. Returns true if the thread has ended.
    pub(super) fn wait_until_over(&self, thread: &JoinHandle<()>) -> bool {
        let goes_on = |known: &mut Known| !known.is_over && !thread.is_finished();
        let waited = self.changed.wait_timeout_while(self.known(), self.patience.end, goes_on);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over || thread.is_finished()
    }

    pub(super) fn now(&self) -> Ticks {
        self.with.driver.ticks.now()
    }

    /// Returns true if no other node can have written since `known`.
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
        // A poll that began earlier may have missed the change, so wait for a new one.
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

    /// Ends the epoch after a write of unknown outcome. If the record log has the change, this node receives it as a
    /// follower.
    pub(super) fn missed(&self) {
        self.known().is_missed = true;
        self.lost();
    }

    /// Returns true while work for this node's epoch is still useful.
    pub(super) fn lead_goes_on(&self) -> bool {
        !self.known().is_ended
    }

    /// Drops this node's leader epoch if it is over.
    pub(super) fn drop_if_over(&self, mut lead: MutexGuard<'_, Option<Lead>>) {
        let is_over = lead.take_if(|lead| lead.is_over()).is_some();
        drop(lead);
        if is_over {
            self.lost();
        }
    }

    /// Makes this node a follower: its copy was complete until now, or until the last record if the lease has expired,
    /// and ages from then on (NOD-30).
    pub(super) fn grows_old(&self) {
        let mut known = self.known();
        let Some(leads) = known.leads.take() else { return };
        let until = if self.covers(leads) { self.now() } else { leads };
        known.fresh = known.fresh.max(Some(until));
    }

    /// Ends this node's leadership and requests a poll.
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
