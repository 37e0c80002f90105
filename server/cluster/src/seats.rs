//! The workspaces of this node on a remote: which are written here, which are followed, and what is to change.
//!
//! Owns the node's part in a remote: its name, its signs of life, and the place of each workspace that is open. Must
//! not know what calls want of a workspace.

mod emptying;
mod failing;
mod holding;
mod keeping;
mod opening;
mod same;
mod whereabouts;

pub use emptying::{Others, Step, ToEmpty};
use failing::Failing;
pub use keeping::{FarErasure, Swept};
pub use opening::Ending;
pub use opening::GIVE_WAIT_MAX;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{
    Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};
use std::time::{Duration, Instant};

use engine::os::clock::{Clock, Random};
use engine::os::disk::{Disk, RealDisk};
use engine::{OpenError, Store};
use recalld_replication::core::{Claim, Writer};
use recalld_replication::{
    Address, Cache, Coordinator, Driver, Emptying, Halt, Holdings, Holds, Keeper, LedgerBringer,
    Node, NodeId, Nonce, NotOurs, NotSeated, Place, Reached, Role, S3Settings, Seat, Seated,
    Standing, Tenant, TickSource, Tracker, introduce, put_small_file, reach,
};

use crate::control_chain::{ControlChain, With};
use recalld_audit::Elsewhere;
use recalld_auth::ClusterSecret;
use recalld_config::remote::{Remote, Safe};
use recalld_fs_util::data_dir;
use recalld_metastore::Control;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};
use recalld_telemetry::metrics::Latencies;

/// Where a node's name is kept that nobody gave it.
const NODE_FILE: &str = "node";
/// How long a start waits until its node is heard, beside the time that a request may take.
const HEARD_WAIT_MAX: Duration = Duration::from_secs(20);

/// What this node is to a remote.
pub struct Seats {
    settings: Remote,
    reached: Reached,
    driver: Driver,
    /// Its signs of life, if it may write.
    node: Option<Arc<Node>>,
    /// What it is called, a replica too.
    name: NodeId,
    /// What it said last that it has; `None` where that is not known.
    told: Mutex<Option<Holds>>,
    /// What the folders of workspaces have.
    holdings: Holdings,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    /// How long after its making each record was shown that is followed.
    lag: Arc<Latencies>,
    /// What of others' files is on this machine.
    cache: Arc<Cache>,
    /// Ends with this.
    _keeper: Keeper,
    places: Mutex<HashMap<String, Arc<RwLock<At>>>>,
    /// The control store's place, where nodes share a secret.
    control: OnceLock<Arc<ControlChain>>,
    /// Deleted workspaces that are being emptied on the remote.
    emptying: Mutex<HashMap<String, Emptying>>,
    /// Raised when this node ends.
    ends: Arc<Halt>,
    /// Those that this process may hold, that are not open and not given away.
    not_given: Mutex<BTreeSet<String>>,
    /// Those that did not open.
    failing: Failing,
    /// How many wait for a workspace to be taken.
    waiting: AtomicUsize,
    /// What brings the ledgers of workspaces that are open.
    ledgers: Mutex<Vec<Weak<LedgerBringer>>>,
}

/// The place of one workspace.
struct At {
    seat: Seat,
    claim: Option<Claim>,
    /// `None` while it changes, and where it could not.
    role: Option<Role>,
    /// What was followed by a role that is over.
    tracker: Option<Tracker>,
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

    fn at(&self, name: &str) -> Option<Arc<RwLock<At>>> {
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
    fn open(&mut self) -> Result<Arc<Store>, NotSeated> {
        let Seated { store, role } = self.seat.open(self.tracker.take(), self.claim.as_mut())?;
        self.role = Some(role);
        Ok(store)
    }

    /// Ends the role. Where it followed, the next opening goes on from there.
    fn let_go(&mut self) {
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

    fn stands(&self) -> Stands {
        match &self.role {
            None => Stands::Changing,
            Some(Role::Leads(carrier)) => Stands::Leads(carrier.standing()),
            Some(Role::Follows(following)) => Stands::Follows(following.age().stale),
        }
    }

    fn wants_change(&self) -> bool {
        match &self.role {
            None => true,
            Some(Role::Leads(carrier)) => carrier.is_over(),
            Some(Role::Follows(following)) => self.seat.may_be_free(&following.age()),
        }
    }
}

fn tenant_of(name: &str) -> Result<Tenant, NotSeated> {
    Tenant::new(name).map_err(|why| NotSeated::Here(why.to_string()))
}

fn seen(at: &RwLock<At>) -> RwLockReadGuard<'_, At> {
    at.read().unwrap_or_else(PoisonError::into_inner)
}

/// For a change: whoever asks meanwhile is told that.
fn locked(at: &RwLock<At>) -> RwLockWriteGuard<'_, At> {
    at.write().unwrap_or_else(PoisonError::into_inner)
}

/// What this machine may keep of others' files, and has of them from the time before.
fn cache(settings: &Remote, data: &Path) -> Result<Arc<Cache>, String> {
    let homes = data_dir::tenant_dirs(data)
        .map_err(|error| format!("{}: {error}", data.join("tenants").display()))?;
    let followed =
        homes.into_iter().filter(|home| recalld_replication::is_followed(home).is_ok_and(|it| it));
    let followed: Vec<_> = followed.collect();
    let free = RealDisk::open(data).and_then(|disk| disk.free_bytes());
    let free = free.map_err(|error| error.to_string())?;
    Ok(Cache::over(&followed, settings.cache_bytes, free))
}

/// The clients of a remote.
pub fn reached(settings: &Remote) -> Result<Reached, String> {
    let objects = Address::parse(&settings.address).map_err(|why| why.to_string())?;
    let coordinator = settings.coordinator.as_deref().map(Coordinator::parse).transpose();
    let place = Place {
        objects,
        coordinator: coordinator.map_err(|why| why.to_string())?,
        s3: S3Settings {
            endpoint: settings.endpoint.clone(),
            region: settings.region.clone(),
            path_style: settings.path_style,
            allow_http: settings.allow_http,
            ca_file: settings.ca_file.clone(),
        },
        coordinator_ca_file: settings.ca_file.clone(),
    };
    reach(&place, &|name| std::env::var(name).ok()).map_err(|why| why.to_string())
}

/// Tries whether the remote may be written to, and begins to send signs of life.
fn begin_to_live(
    settings: &Remote,
    (data, node): (&Path, NodeId),
    (reached, driver, random): (&Reached, &Driver, &dyn Random),
) -> Result<Node, String> {
    let address = &settings.address;
    reached.probe().map_err(|unfit| format!("{address}: {unfit}"))?;
    same::recognise(data, address, &*reached.objects, Nonce::drawn(random))
        .map_err(|why| format!("{address}: {why}"))?;
    let writer = Writer {
        node,
        run: Nonce::drawn(random),
        url: settings.node_url.clone().unwrap_or_default(),
    };
    let node = Node::start(driver.clone(), writer, settings.lease_seconds);
    let node = node.map_err(|error| error.to_string())?;
    let began = Instant::now();
    while !node.is_held() {
        if began.elapsed() > HEARD_WAIT_MAX {
            let why = node.trouble().unwrap_or_else(|| "it does not answer".to_owned());
            return Err(format!("{address}: {why}"));
        }
        driver.halt.wait(Duration::from_millis(20));
    }
    Ok(node)
}

/// What this node is called.
fn name_of(settings: &Remote, data: &Path, random: &dyn Random) -> Result<NodeId, String> {
    match &settings.node {
        Some(node) => Ok(node.clone()),
        None => kept_name(data, &Nonce::drawn(random).to_string()[..12]),
    }
}

/// The name that this node had before, or a new one, kept in the data directory.
fn kept_name(data: &Path, fresh: &str) -> Result<NodeId, String> {
    let path = data.join(NODE_FILE);
    let failed = |why: String| format!("{}: {why}", path.display());
    match fs::read_to_string(&path) {
        Ok(text) => NodeId::new(text.trim()).map_err(|why| failed(why.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let name = format!("node-{fresh}");
            let put = put_small_file(data, NODE_FILE, format!("{name}\n").as_bytes());
            put.map_err(|error| failed(error.to_string()))?;
            NodeId::new(name).map_err(|why| failed(why.to_string()))
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Whether a remote has anything of ours, for those who only read.
///
/// # Errors
/// It does not answer, or is another thing.
pub fn check_ours(reached: &Reached) -> Result<(), String> {
    match introduce(&*reached.objects, None) {
        Ok(_) | Err(NotOurs::Empty) => Ok(()),
        Err(why) => Err(why.to_string()),
    }
}

/// Whether another process has the directory.
pub fn is_locked(error: &NotSeated) -> bool {
    matches!(error, NotSeated::Store(OpenError::Locked))
}
