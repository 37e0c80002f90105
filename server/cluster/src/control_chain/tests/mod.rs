//! Nodes on one shared object folder: crashes at critical points, and a remote that does not respond.

mod ends;
mod follows;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::os::clock::{SystemClock, SystemRandom};
use recalld_replication::core::Writer;
use recalld_replication::{
    Driver, Kind, Node, NodeId, Nonce, ObjectChain, Record, TickSource, Ticks,
};
use tempfile::TempDir;

use self::wire::Wire;
use super::following::Reader;
use super::shared::{ControlStands, Patience, With};
use recalld_auth::ClusterSecret;
use recalld_common::monitor::EventCount;
use recalld_metastore::{Control, ControlError, NewTenant, TablesDigest};

/// Clock of a machine, which a test can advance.
#[derive(Debug, Default)]
pub(super) struct Hours(AtomicU64);

impl Hours {
    pub(super) fn pass(&self, length: Duration) {
        self.0.fetch_add(u64::try_from(length.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

impl TickSource for Hours {
    fn now(&self) -> Ticks {
        recalld_replication::BootClock.now() + Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

/// Directory of the nodes and of their objects.
pub(super) struct Bench {
    folder: TempDir,
}

/// A node without a thread: a test runs each step.
pub(super) struct Machine {
    pub(super) reader: Reader,
    pub(super) control: Arc<Control>,
    pub(super) wire: Arc<Wire>,
    pub(super) hours: Arc<Hours>,
    pub(super) node: Arc<Node>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub(super) fn data(&self, disk: &str) -> PathBuf {
        self.folder.path().join(disk)
    }

    /// Folder of the metastore's objects of this kind.
    pub(super) fn objects(&self, kind: &str) -> PathBuf {
        self.folder.path().join("objects/t/control-").join(kind)
    }

    /// Metastore of a disk, opened as by a command without a server.
    pub(super) fn control(&self, disk: &str) -> Control {
        std::fs::create_dir_all(self.data(disk)).unwrap();
        let path = self.data(disk).join("control.redb");
        Control::open(&path, Arc::new(SystemClock), Arc::new(SystemRandom)).unwrap()
    }

    /// A leader with one tenant, and its follower.
    pub(super) fn two(&self) -> (Machine, Machine) {
        let mut a = self.start("a", "a");
        a.turn().unwrap();
        make(&a.control, "acme").unwrap();
        let mut b = self.start("b", "b");
        b.turn().unwrap();
        (a, b)
    }

    /// Starts a node of this name on this disk.
    pub(super) fn start(&self, name: &str, disk: &str) -> Machine {
        self.start_with(name, disk, Patience::MOST)
    }

    pub(super) fn start_with(&self, name: &str, disk: &str, patience: Patience) -> Machine {
        let wire = Arc::new(Wire::over(&self.folder.path().join("objects")));
        let hours = Arc::new(Hours::default());
        let driver = Driver {
            chain: Arc::new(ObjectChain::new(Arc::clone(&wire) as _)),
            objects: Arc::clone(&wire) as _,
            ticks: Arc::clone(&hours) as _,
            halt: Arc::default(),
        };
        let random = Arc::new(SystemRandom);
        let run = Nonce::drawn(&*random);
        let writer = Writer { node: NodeId::new(name).unwrap(), run, url: String::new() };
        let node = Arc::new(Node::start(driver.clone(), writer, 5).unwrap());
        until("it is heard", || node.is_held());
        let control = Arc::new(self.control(disk));
        let with = With {
            driver,
            name: NodeId::new(name).unwrap(),
            node: Some(Arc::clone(&node)),
            secret: Arc::new(ClusterSecret::of([7; 32])),
            stale_max: Duration::from_secs(60),
            moves: EventCount::default(),
            clock: Arc::new(SystemClock),
            random,
        };
        let reader = Reader::begin(&self.data(disk), &control, with, patience).unwrap();
        Machine { reader, control, wire, hours, node }
    }

    /// Kinds of all records, from the first one.
    pub(super) fn kinds(&self) -> Vec<&'static str> {
        let numbers = 1..;
        let name = |number: u64| self.objects("chain").join(format!("{number:020}"));
        let read = numbers.map_while(|number| std::fs::read(name(number)).ok());
        read.map(|bytes| match Record::decode(&bytes).unwrap().0.kind {
            Kind::Take => "take",
            Kind::Step(_) => "step",
            Kind::Full(_) => "full",
            Kind::Give { .. } => "give",
        })
        .collect()
    }
}

impl Machine {
    pub(super) fn turn(&mut self) -> Result<(), String> {
        self.reader.turn()
    }

    pub(super) fn stands(&self) -> ControlStands {
        self.reader.shared.stands()
    }

    /// Digest of all rows.
    pub(super) fn digest(&self) -> TablesDigest {
        self.control.copy_state(&mut || Ok(()), &mut |_, _, _| Ok(())).unwrap()
    }

    pub(super) fn slugs(&self) -> Vec<String> {
        let tenants = self.control.tenants(None, 256).unwrap();
        tenants.into_iter().map(|tenant| tenant.slug).collect()
    }
}

pub(super) fn make(control: &Control, slug: &str) -> Result<(), ControlError> {
    control.create_tenant(&NewTenant { slug, title: slug, plan: "team" }).map(drop)
}

/// Waits for an event of another thread.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    panic!("{what} did not come");
}
