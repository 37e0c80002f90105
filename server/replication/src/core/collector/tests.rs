//! A collection, or a search for the newest record, is suspended for long while another node acquires the workspace.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::chain::Chain;
use crate::chain::objects::ObjectChain;
use crate::core::{Ask, Machine, Step, find};
use crate::counts::Counts;
use crate::hex::{Hash, Hex};
use crate::names::{NodeId, Tenant};
use crate::objects::Objects;
use crate::objects::folder::Folder;
use crate::record::{FarFile, Full, Head, Kind, Record};

const OLD: DataKey = DataKey { epoch: 1, nonce: Hex([7; 16]) };
const NEW: DataKey = DataKey { epoch: 2, nonce: Hex([8; 16]) };

/// A record log in a directory, with the records of several nodes.
struct Far {
    tenant: Tenant,
    chain: ObjectChain,
    objects: Arc<Folder>,
    newest: (u64, Hash),
    _home: tempfile::TempDir,
}

impl Far {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let objects = Arc::new(Folder::open(home.path(), Arc::new(Counts::default())).unwrap());
        let chain = ObjectChain::new(Arc::clone(&objects) as Arc<dyn Objects>);
        let tenant = Tenant::new("local").unwrap();
        Self { tenant, chain, objects, newest: (0, Hash::NONE), _home: home }
    }

    fn put(&self, key: DataKey) {
        self.objects.put(&Key::Data(self.tenant.clone(), key, 0), b"old").unwrap();
    }

    fn has(&self, key: DataKey) -> bool {
        self.objects.head(&Key::Data(self.tenant.clone(), key, 0)).unwrap().is_some()
    }

    /// Adds a record of `epoch` with this base.
    fn add(&mut self, epoch: u64, base: u64, kind: Kind) {
        let (before, previous) = self.newest;
        let head = Head {
            number: before + 1,
            tenant: self.tenant.clone(),
            store: Hex([3; 16]),
            epoch,
            node: NodeId::new(format!("n{epoch}")).unwrap(),
            run: Hex([1; 16]),
            url: String::new(),
            nonce: Hex([2; 16]),
            at: 5,
            previous,
            base,
            seq: 0,
        };
        let (bytes, hash) = Record { head, kind }.encode().unwrap();
        assert_eq!(self.chain.create(&self.tenant, before + 1, &bytes), Tried::Made);
        self.newest = (before + 1, hash);
    }

    fn add_full(&mut self, epoch: u64, keys: &[DataKey], erased: u64) {
        let file = |key: &DataKey| FarFile {
            name: format!("segment-{:020}", key.epoch),
            key: *key,
            bytes: 3,
            sha256: Hash::of(b"old"),
        };
        let (files, logs) = (keys.iter().map(file).collect(), Vec::new());
        let full = Full { manifest: b"toy".to_vec(), files, logs, erased };
        self.add(epoch, self.newest.0 + 1, Kind::Full(full));
    }

    /// Adds an acquire record, and a full record that references `keys`.
    fn add_epoch(&mut self, epoch: u64, keys: &[DataKey]) {
        self.add(epoch, self.newest.0, Kind::Take);
        self.add_full(epoch, keys, 0);
    }
}

/// Collector of epoch 1, which retains no history.
fn collector() -> Collector {
    Collector::new(1, Retention { full: Duration::ZERO, fine: Duration::ZERO })
}

/// Runs a collection. `before_edge` runs just before the watermark is raised.
fn collect(
    far: &mut Far,
    collector: &mut Collector,
    now: Ticks,
    mut before_edge: impl FnMut(&mut Far),
) -> Result<Collected, Lost> {
    let body = async move |port: Rc<Port>| collector.collect(&port, 9, &|_| false).await;
    let machine = Machine::new(far.tenant.clone(), false, body);
    run(far, machine, now, |far, ask| {
        if matches!(ask, Ask::RaiseEdge(_)) {
            before_edge(far);
        }
    })
}

/// Runs a state machine to its end. `before` runs before each request.
fn run<T>(
    far: &mut Far,
    mut machine: Machine<'_, T>,
    now: Ticks,
    mut before: impl FnMut(&mut Far, &Ask),
) -> T {
    let mut answer = None;
    loop {
        match machine.step(answer, now) {
            Step::Done(done) => return done,
            Step::Ask(ask) => {
                before(far, &ask);
                answer = Some(ask.perform(&far.tenant, &far.chain, &*far.objects));
            }
        }
    }
}

#[test]
fn what_is_below_the_edge_once_it_was_read_is_not_the_newest() {
    let mut far = Far::new();
    far.add_epoch(1, &[]);
    let body = async move |port: Rc<Port>| find(&port, None).await;
    let machine = Machine::new(far.tenant.clone(), false, body);
    let mut edges = 0;
    let found = run(&mut far, machine, Ticks(1), |far, ask| {
        edges += usize::from(matches!(ask, Ask::Edge));
        // All records were read by then. Now another node acquires the workspace, writes and collects.
        if edges == 2 && far.newest.0 == 2 {
            far.add_epoch(2, &[]);
            let edge = Edge { boundary: 3, epoch: 2, ..Edge::default() };
            assert_eq!(far.chain.raise_edge(&far.tenant, &edge), Tried::Made);
        }
    });
    assert_eq!(found.unwrap().unwrap().newest.head.number, 4);
}

#[test]
fn an_edge_that_somebody_else_raised_lets_nothing_go_here() {
    let mut far = Far::new();
    far.put(OLD);
    far.add_epoch(1, &[OLD]);
    let done = collect(&mut far, &mut collector(), Ticks(1), |far| {
        // Another node acquires the workspace, references the object too, and collects.
        far.add_epoch(2, &[OLD]);
        let edge = Edge { boundary: 3, epoch: 2, ..Edge::default() };
        assert_eq!(far.chain.raise_edge(&far.tenant, &edge), Tried::Made);
    });
    assert!(far.has(OLD), "record 4 names it");
    assert!(matches!(done, Err(Lost::Away(Away { may_pass: true, .. }))), "{done:?}");
}

#[test]
fn an_edge_that_is_raised_here_lets_go_what_no_record_names_any_more() {
    let mut far = Far::new();
    far.put(OLD);
    far.add_epoch(1, &[OLD]);
    far.add_full(1, &[], 0);
    let done = collect(&mut far, &mut collector(), Ticks(1), |_| {}).unwrap();
    assert_eq!((done.objects, done.waiting), (1, 2));
    assert!(!far.has(OLD));
    assert_eq!(far.chain.edge(&far.tenant).unwrap().boundary, 2);
}

#[test]
fn edges_that_count_no_more_go_however_many_there_are() {
    let mut far = Far::new();
    far.add_epoch(1, &[]);
    far.add_full(1, &[], 0);
    let last = 2 * NUMBERS_AT_ONCE as u64 + 3;
    for turn in 0..=last {
        let edge = Edge { boundary: 2, turn, epoch: 1, ..Edge::default() };
        assert_eq!(far.chain.raise_edge(&far.tenant, &edge), Tried::Made);
    }
    collect(&mut far, &mut collector(), Ticks(1), |_| {}).unwrap();
    let left = far.objects.list("t/local/edge/", None, usize::MAX).unwrap();
    let left: Vec<Key> = left.into_iter().map(|about| about.key).collect();
    let edge = |turn| Key::Edge(far.tenant.clone(), 2, turn);
    assert_eq!(left, [edge(last - 2), edge(last - 1), edge(last)]);
    assert_eq!(far.chain.edge(&far.tenant).unwrap().turn, last);
}

#[test]
fn who_has_lost_the_workspace_does_not_say_that_history_is_gone() {
    let mut far = Far::new();
    far.put(OLD);
    far.add_epoch(1, &[OLD]);
    far.put(NEW);
    far.add_epoch(2, &[OLD, NEW]);
    far.add_full(2, &[], 4);
    let mut late = collector();
    assert_eq!(collect(&mut far, &mut late, Ticks(1), |_| {}).unwrap().erased_waiting, 4);
    let done = collect(&mut far, &mut late, Ticks(1) + CHAIN_KEPT_MIN, |_| {}).unwrap();
    // Objects of a newer epoch are for that epoch's collector to remove.
    assert!(far.has(NEW) && !far.has(OLD));
    assert_eq!((done.records, done.gone), (4, 0));
}
