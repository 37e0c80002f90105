//! The workspaces of this node on a remote, by name.

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
use recalld_config::remote::{Remote, Safe};
use recalld_metastore::Control;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};
use recalld_telemetry::metrics::Latencies;

/// What this node is to a remote.
pub struct Seats {
    pub(super) settings: Remote,
    pub(super) reached: Reached,
    pub(super) driver: Driver,
    /// Its signs of life, if it may write.
    pub(super) node: Option<Arc<Node>>,
    /// What it is called, a replica too.
    pub(super) name: NodeId,
    /// What it said last that it has; `None` where that is not known.
    pub(super) told: Mutex<Option<Holds>>,
    /// What the folders of workspaces have.
    pub(super) holdings: Holdings,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    /// How long after its making each record was shown that is followed.
    pub(super) lag: Arc<Latencies>,
    /// What of others' files is on this machine.
    pub(super) cache: Arc<Cache>,
    /// Ends with this.
    _keeper: Keeper,
    pub(super) places: Mutex<HashMap<String, Arc<RwLock<At>>>>,
    /// The control store's place, where nodes share a secret.
    pub(super) control: OnceLock<Arc<ControlChain>>,
    /// Deleted workspaces that are being emptied on the remote.
    pub(super) emptying: Mutex<HashMap<String, Emptying>>,
    /// Raised when this node ends.
    pub(super) ends: Arc<Halt>,
    /// Those that this process may hold, that are not open and not given away.
    pub(super) not_given: Mutex<BTreeSet<String>>,
    /// Those that did not open.
    pub(super) failing: Failing,
    /// How many wait for a workspace to be taken.
    pub(super) waiting: AtomicUsize,
    /// What brings the ledgers of workspaces that are open.
    pub(super) ledgers: Mutex<Vec<Weak<LedgerBringer>>>,
}

/// The place of one workspace.
pub(super) struct At {
    pub(super) seat: Seat,
    pub(super) claim: Option<Claim>,
    /// `None` while it changes, and where it could not.
    pub(super) role: Option<Role>,
    /// What was followed by a role that is over.
    pub(super) tracker: Option<Tracker>,
}

/// How a workspace stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stands {
    /// It is written here.
    Leads(Standing),
    /// It is followed here, and may be so old; `None` where that is not known.
    Follows(Option<Duration>),
    /// It is changing from one to the other.
    Changing,
}

impl fmt::Debug for Seats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seats").field("remote", &self.settings.address).finish_non_exhaustive()
    }
}

impl Seats {
    /// Reaches the remote, and where this node is to write, tries whether it may, and begins to live.
    ///
    /// # Errors
    /// Which setting is wrong, what the remote said, or why it must not be written to; each with what to do.
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
            waiting: AtomicUsize::new(0),
            ledgers: Mutex::default(),
        })
    }

    /// Opens the control store's place: it is one of all nodes that share this secret.
    ///
    /// # Errors
    /// Why not; with what to do.
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
            clock: Arc::clone(&self.clock),
            random: Arc::clone(&self.random),
        };
        let opened = ControlChain::open(data, control, with);
        let opened = opened.map_err(|why| format!("{}: {why}", self.settings.address))?;
        Ok(Arc::clone(self.control.get_or_init(|| Arc::new(opened))))
    }

    /// What this node is called.
    pub fn name(&self) -> &NodeId {
        &self.name
    }

    /// The settings.
    pub fn settings(&self) -> &Remote {
        &self.settings
    }

    /// What was asked of the remote.
    pub fn reached(&self) -> &Reached {
        &self.reached
    }

    /// How long after its making each record was shown that is followed.
    pub fn lag(&self) -> &Latencies {
        &self.lag
    }

    /// What of others' files is on this machine.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(super) fn at(&self, name: &str) -> Option<Arc<RwLock<At>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// How a workspace stands that is open here.
    pub fn stands(&self, name: &str) -> Option<Stands> {
        let at = self.at(name)?;
        // Nobody waits for a change that takes its time. Those who ask do not keep one another from knowing.
        match at.try_read() {
            Ok(at) => Some(at.stands()),
            Err(_) => Some(Stands::Changing),
        }
    }

    /// Whether a workspace that is open here is to be opened anew, since its role is over or another one can be had.
    /// One that did not open a moment ago is left alone.
    pub fn wants_change(&self, name: &str) -> bool {
        self.at(name).is_some_and(|at| at.try_read().is_ok_and(|at| at.wants_change()))
            && self.failing.why(name, self.driver.ticks.now()).is_none()
    }

    /// Where the entries of a workspace's ledger are brought, whose folder is `home`.
    ///
    /// # Errors
    /// Why it cannot have one.
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

    /// Brings what ledgers have on this disk alone, for as long as `goes_on`.
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

    /// Ends the role. Where it followed, the next opening goes on from there.
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

/// For a change: whoever asks meanwhile is told that.
pub(super) fn locked(at: &RwLock<At>) -> RwLockWriteGuard<'_, At> {
    at.write().unwrap_or_else(PoisonError::into_inner)
}
