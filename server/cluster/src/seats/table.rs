use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{
    Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};
use std::time::Duration;

use engine::Store;
use engine::os::clock::{Clock, Random};

use recalld_replication::core::Claim;
use recalld_replication::{
    Cache, Driver, Emptying, Halt, Holdings, Holds, Keeper, LedgerBringer, Node, NodeId, NotSeated,
    Reached, Role, Seat, Seated, Standing, Tenant, TickSource, Tracker,
};

use super::failing::Failing;
use super::reach::{begin_to_live, cache, name_of, reached};
use crate::control_chain::{ControlChain, With};
use recalld_audit::Elsewhere;
use recalld_auth::ClusterSecret;
use recalld_common::cancel::CallScope;
use recalld_common::monitor::EventCount;
use recalld_config::remote::{Remote, Safe};
use recalld_metastore::Control;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};
use recalld_telemetry::metrics::Latencies;

/// Replica manager: the roles of this node's workspaces on one remote.
pub struct Seats {
    pub(super) settings: Remote,
    pub(super) reached: Reached,
    pub(super) driver: Driver,
    /// Membership with heartbeats; `None` if this node may not write.
    pub(super) node: Option<Arc<Node>>,
    /// Node name; a replica has one, too.
    pub(super) name: NodeId,
    /// Inventory last published; `None` if the last publish failed.
    pub(super) told: Mutex<Option<Holds>>,
    /// Inventory of the local workspace directories.
    pub(super) holdings: Holdings,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    /// Delays between the writing of a record and its visibility on this follower.
    pub(super) lag: Arc<Latencies>,
    /// Cache of files of followed workspaces.
    pub(super) cache: Arc<Cache>,
    /// Prefetcher thread; ends with this value.
    _keeper: Keeper,
    pub(super) places: Mutex<HashMap<String, Arc<RwLock<At>>>>,
    /// Metastore replica, if the nodes share a secret.
    pub(super) control: OnceLock<Arc<ControlChain>>,
    /// Deleted workspaces whose purge is in progress.
    pub(super) emptying: Mutex<HashMap<String, Emptying>>,
    /// Signalled when this node shuts down.
    pub(super) ends: Arc<Halt>,
    /// Closed workspaces that this process may lease and has not released.
    pub(super) not_given: Mutex<BTreeSet<String>>,
    /// Workspaces that failed to open.
    pub(super) failing: Failing,
    /// Counts the role changes of workspaces and of the metastore, and the polls that returned new records.
    pub(super) moves: EventCount,
    /// Callers that wait for an acquisition.
    pub(super) waiting: AtomicUsize,
    /// Uploaders of the ledgers of open workspaces.
    pub(super) ledgers: Mutex<Vec<Weak<LedgerBringer>>>,
}

/// Replica slot of one workspace.
pub(super) struct At {
    pub(super) seat: Seat,
    pub(super) claim: Option<Claim>,
    /// `None` during a role change, and after one that failed.
    pub(super) role: Option<Role>,
    /// Log tailer of a former role, for reuse.
    pub(super) tracker: Option<Tracker>,
}

/// Role of a workspace on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stands {
    /// This node is the leader.
    Leads(Standing),
    /// This node is a follower, with this staleness; `None` if unknown.
    Follows(Option<Duration>),
    /// The role is changing.
    Changing,
}

impl fmt::Debug for Seats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seats").field("remote", &self.settings.address).finish_non_exhaustive()
    }
}

impl Seats {
    /// Connects to the remote. If this node may write, probes the remote and starts the heartbeats.
    ///
    /// # Errors
    /// A wrong setting, an error of the remote, or the reason why the remote must not be written to; each with a
    /// remedy.
    pub fn open(
        settings: &Remote,
        data: &Path,
        (clock, random): (&Arc<dyn Clock>, &Arc<dyn Random>),
        ticks: Arc<dyn TickSource>,
    ) -> Result<Self, String> {
        let reached = reached(settings)?;
        let driver = Driver {
            chain: Arc::clone(&reached.chain),
            objects: Arc::clone(&reached.objects),
            ticks,
            halt: Arc::new(Halt::default()),
        };
        let name = name_of(settings, data, &**random)?;
        let node = match settings.is_replica {
            true => None,
            false => {
                let with = (&reached, &driver, &**random);
                Some(Arc::new(begin_to_live(settings, (data, name.clone()), with)?))
            }
        };
        let cache = cache(settings, data)?;
        let keeper = Keeper::start(&cache).map_err(|error| error.to_string())?;
        Ok(Self {
            cache,
            _keeper: keeper,
            settings: settings.clone(),
            reached,
            driver,
            name,
            node,
            told: Mutex::default(),
            holdings: Holdings::default(),
            clock: Arc::clone(clock),
            random: Arc::clone(random),
            lag: Arc::default(),
            places: Mutex::default(),
            control: OnceLock::new(),
            emptying: Mutex::default(),
            ends: Arc::default(),
            not_given: Mutex::default(),
            failing: Failing::default(),
            moves: EventCount::default(),
            waiting: AtomicUsize::new(0),
            ledgers: Mutex::default(),
        })
    }

    /// Opens the replica of the metastore, which all nodes with this secret share.
    ///
    /// # Errors
    /// The replica did not open; with a remedy.
    pub fn open_control(
        &self,
        data: &Path,
        control: &Arc<Control>,
        secret: Arc<ClusterSecret>,
    ) -> Result<Arc<ControlChain>, String> {
        let with = With {
            driver: self.driver.clone(),
            name: self.name.clone(),
            node: self.node.clone(),
            secret,
            stale_max: self.settings.stale_max,
            moves: self.moves.clone(),
            clock: Arc::clone(&self.clock),
            random: Arc::clone(&self.random),
        };
        let opened = ControlChain::open(data, control, with);
        let opened = opened.map_err(|why| format!("{}: {why}", self.settings.address))?;
        Ok(Arc::clone(self.control.get_or_init(|| Arc::new(opened))))
    }

    /// Name of this node.
    pub fn name(&self) -> &NodeId {
        &self.name
    }

    /// Settings of the remote.
    pub fn settings(&self) -> &Remote {
        &self.settings
    }

    /// Clients of the remote, with their request counts.
    pub fn reached(&self) -> &Reached {
        &self.reached
    }

    /// Delays between the writing of a record and its visibility on this follower.
    pub fn lag(&self) -> &Latencies {
        &self.lag
    }

    /// Cache of files of followed workspaces.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(super) fn at(&self, name: &str) -> Option<Arc<RwLock<At>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Returns the first result of `check`, which runs at once and again after each role change and after new records
    /// of a followed workspace; `None` if the call is over before.
    pub fn wait_for<T>(&self, call: &CallScope<'_>, check: impl FnMut() -> Option<T>) -> Option<T> {
        self.moves.wait_for(call, check)
    }

    /// Role of a workspace that is open here; `None` if the workspace is closed.
    pub fn stands(&self, name: &str) -> Option<Stands> {
        let at = self.at(name)?;
        // A slot locked by a slow role change is not waited for. Readers do not block one another.
        match at.try_read() {
            Ok(at) => Some(at.stands()),
            Err(_) => Some(Stands::Changing),
        }
    }

    /// Returns true if an open workspace should be reopened, as its role has ended or another one is available. Returns
    /// false while the workspace is in backoff after a failed opening.
    pub fn wants_change(&self, name: &str) -> bool {
        self.at(name).is_some_and(|at| at.try_read().is_ok_and(|at| at.wants_change()))
            && self.failing.why(name, self.driver.ticks.now()).is_none()
    }

    /// Remote sink of a workspace's ledger; `home` is the directory of the workspace.
    ///
    /// # Errors
    /// The name is not a valid workspace name.
    pub fn ledger(&self, name: &str, home: &Path) -> Result<Elsewhere, NotSeated> {
        let whose = (tenant_of(name)?, self.name.clone());
        let random = Arc::clone(&self.random);
        let bringer = Arc::new(LedgerBringer::new(self.driver.clone(), whose, home, random));
        let mut ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        ledgers.retain(|known| known.strong_count() > 0);
        ledgers.push(Arc::downgrade(&bringer));
        let is_awaited = self.settings.durability == Safe::Remote;
        Ok(Elsewhere { bringer, is_awaited })
    }

    /// Uploads ledger entries that are only on this disk, while `goes_on` returns true.
    pub fn bring_ledgers(&self, goes_on: &dyn Fn() -> bool) {
        let ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for bringer in ledgers.iter().filter_map(Weak::upgrade).take_while(|_| goes_on()) {
            let had_trouble = bringer.trouble().is_some();
            let brought = bringer.bring_all(Duration::ZERO);
            let workspace = ("workspace", Value::Text(bringer.tenant()));
            if let Some(why) = bringer.take_begun_anew() {
                let fields = [workspace, ("why", Value::Text(&why))];
                let what = "the ledger on the remote is another than the one here: a new one was begun beside it";
                log::event(Level::Error, what, &fields);
            }
            if let Err(why) = brought
                && !had_trouble
            {
                let fields = [workspace, ("why", Value::Text(&why))];
                log::event(Level::Warn, "entries of a ledger are on this disk alone", &fields);
            }
        }
    }
}

impl At {
    pub(super) fn open(&mut self) -> Result<Arc<Store>, NotSeated> {
        let Seated { store, role } = self.seat.open(self.tracker.take(), self.claim.as_mut())?;
        self.role = Some(role);
        Ok(store)
    }

    /// Ends the role. A follower's log tailer is retained for the next opening.
    pub(super) fn let_go(&mut self) {
        match self.role.take() {
            None => {}
            Some(Role::Follows(following)) => {
                let at = following.age().at;
                self.tracker = following.end();
                self.note_carried(at.seq, at.number);
            }
            Some(Role::Leads(carrier)) => {
                let standing = carrier.standing();
                self.note_carried(standing.seq, standing.record);
            }
        }
    }

    fn note_carried(&self, seq: u64, record: u64) {
        if let Err(why) = self.seat.note_carried(seq, record) {
            let fields = [("why", Value::Text(&why))];
            log::event(Level::Warn, "what is on the remote was not remembered", &fields);
        }
    }

    pub(super) fn stands(&self) -> Stands {
        match &self.role {
            None => Stands::Changing,
            Some(Role::Leads(carrier)) => Stands::Leads(carrier.standing()),
            Some(Role::Follows(following)) => Stands::Follows(following.age().stale),
        }
    }

    pub(super) fn wants_change(&self) -> bool {
        match &self.role {
            None => true,
            Some(Role::Leads(carrier)) => carrier.is_over(),
            Some(Role::Follows(following)) => self.seat.may_be_free(&following.age()),
        }
    }
}

pub(super) fn tenant_of(name: &str) -> Result<Tenant, NotSeated> {
    Tenant::new(name).map_err(|why| NotSeated::Here(why.to_string()))
}

pub(super) fn seen(at: &RwLock<At>) -> RwLockReadGuard<'_, At> {
    at.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the slot for a role change. Readers meanwhile see `Stands::Changing`.
pub(super) fn locked(at: &RwLock<At>) -> RwLockWriteGuard<'_, At> {
    at.write().unwrap_or_else(PoisonError::into_inner)
}
