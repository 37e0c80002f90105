//! A machine over one storage: its node, its directory, and its replica of the workspace.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::os::clock::{SystemClock, SystemRandom};
use engine::{Batch, ItemDraft, Options, Store};
use recalld_replication::core::{Claim, Retention, Writer};
use recalld_replication::{
    BootClock, Cache, CarryHow, CarryWhen, Chain, Driver, Halt, Hex, Node, NodeId, NotSeated,
    Objects, Seat, Seated, Taken, Tenant, TickSource, Ticks,
};

/// Timeout of any wait in these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a condition.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::yield_now();
    }
}

pub(crate) const LEASE_S: u32 = 5;

/// Real clock with an offset that a test can raise.
#[derive(Debug, Default)]
struct Told(AtomicU64);

impl TickSource for Told {
    fn now(&self) -> Ticks {
        Ticks(self.0.load(Ordering::SeqCst) + BootClock.now().0)
    }
}

/// One machine.
pub(crate) struct Machine {
    pub(crate) seat: Seat,
    pub(crate) claim: Option<Claim>,
    ticks: Arc<Told>,
}

impl Machine {
    pub(crate) fn with(
        name: &str,
        (chain, objects): (Arc<dyn Chain>, Arc<dyn Objects>),
        home: &Path,
        is_replica: bool,
    ) -> Self {
        let ticks = Arc::new(Told::default());
        let halt = Arc::new(Halt::default());
        let driver = Driver { chain, objects, ticks: Arc::clone(&ticks) as _, halt };
        let mut run = [0; 16];
        engine::os::clock::Random::fill(&SystemRandom, &mut run);
        let writer = Writer { node: NodeId::new(name).unwrap(), run: Hex(run), url: name.into() };
        let start = || Node::start(driver.clone(), writer.clone(), LEASE_S).unwrap();
        let node = (!is_replica).then(|| Arc::new(start()));
        if let Some(node) = &node {
            until("the node is heard", || node.is_held());
        }
        let lease = Duration::from_secs(LEASE_S.into());
        let claim = node.as_ref().map(|_| Claim::new(writer.clone(), lease));
        let retention = Retention { full: Duration::ZERO, fine: Duration::ZERO };
        std::fs::create_dir_all(home).unwrap();
        let seat = Seat {
            driver,
            node,
            tenant: Tenant::new("local").unwrap(),
            home: home.to_owned(),
            options: Options::default(),
            how: CarryHow { when: CarryWhen::Acknowledging, retention },
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            observer: Arc::new(|_| ()),
            cache: Cache::new(1 << 30),
            taken: Taken::default(),
        };
        Self { seat, claim, ticks }
    }

    /// Advances the clock of this machine only.
    pub(crate) fn pass(&self, length: Duration) {
        self.ticks.0.fetch_add(u64::try_from(length.as_nanos()).unwrap(), Ordering::SeqCst);
    }

    pub(crate) fn open(&mut self) -> Result<Seated, NotSeated> {
        self.seat.open(None, self.claim.as_mut())
    }
}

pub(crate) fn batch(text: &str) -> Batch {
    let item = ItemDraft {
        kind: "note".into(),
        modality: "text".into(),
        recorded_by: "somebody".into(),
        via: "a test".into(),
        text: text.into(),
        ..ItemDraft::default()
    };
    Batch { items: vec![item], ..Batch::default() }
}

pub(crate) fn texts(store: &Store) -> Vec<String> {
    let snapshot = store.snapshot();
    let places = snapshot.item_addresses().unwrap();
    places.map(|place| snapshot.item(place).unwrap().text.to_owned()).collect()
}
