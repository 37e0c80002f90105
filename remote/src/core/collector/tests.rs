//! A collection that is stopped for long, while another node takes the workspace.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::chain::{Chain, ObjectChain};
use crate::core::{Ask, Machine, Step};
use crate::counts::Counts;
use crate::hex::Hex;
use crate::names::{NodeId, Tenant};
use crate::objects::{Folder, Objects};
use crate::record::{FarFile, Full, Head};

const OLD: DataKey = DataKey { epoch: 1, nonce: Hex([7; 16]) };

/// A chain in a folder, as others make it.
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

    fn old(&self) -> Key {
        Key::Data(self.tenant.clone(), OLD, 0)
    }

    /// Adds a record of an epoch, at the base `base`.
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

    /// Adds a take and a full record that names the old object.
    fn add_epoch(&mut self, epoch: u64) {
        let (before, _) = self.newest;
        self.add(epoch, before, Kind::Take);
        let file = FarFile {
            name: "segment-00000000000000000001".into(),
            key: OLD,
            bytes: 3,
            sha256: Hash::of(b"old"),
        };
        let (manifest, logs) = (b"toy".to_vec(), Vec::new());
        self.add(
            epoch,
            before + 2,
            Kind::Full(Full { manifest, files: vec![file], logs, erased: 0 }),
        );
    }
}

/// What comes of a collection of epoch 1 that keeps no history, before which and before whose next edge something happens.
fn collect(far: &mut Far, mut before_edge: impl FnMut(&mut Far)) -> Result<Collected, Lost> {
    let retention = Retention { full: Duration::ZERO, fine: Duration::ZERO };
    let mut collector = Collector::new(1, retention);
    let mut machine = Machine::new(far.tenant.clone(), false, async move |port: Rc<Port>| {
        collector.collect(&port, 9, &|_| false).await
    });
    let mut answer = None;
    loop {
        match machine.step(answer, Ticks(1)) {
            Step::Done(done) => return done,
            Step::Ask(ask) => {
                if matches!(ask, Ask::RaiseEdge(_)) {
                    before_edge(far);
                }
                answer = Some(ask.perform(&far.tenant, &far.chain, &*far.objects));
            }
        }
    }
}

#[test]
fn an_edge_that_somebody_else_raised_lets_nothing_go_here() {
    let mut far = Far::new();
    far.objects.put(&far.old(), b"old").unwrap();
    far.add_epoch(1);
    let done = collect(&mut far, |far| {
        // Another node takes the workspace, names the object too, and collects.
        far.add_epoch(2);
        let edge = Edge { boundary: 3, epoch: 2, ..Edge::default() };
        assert_eq!(far.chain.raise_edge(&far.tenant, &edge), Tried::Made);
    });
    assert!(far.objects.head(&far.old()).unwrap().is_some(), "record 4 names it");
    assert!(matches!(done, Err(Lost::Away(Away { may_pass: true, .. }))), "{done:?}");
}

#[test]
fn an_edge_that_is_raised_here_lets_go_what_no_record_names_any_more() {
    let mut far = Far::new();
    far.objects.put(&far.old(), b"old").unwrap();
    far.add_epoch(1);
    let (manifest, files, logs) = (b"toy".to_vec(), Vec::new(), Vec::new());
    far.add(1, 3, Kind::Full(Full { manifest, files, logs, erased: 0 }));
    let done = collect(&mut far, |_| {}).unwrap();
    assert_eq!((done.objects, done.waiting), (1, 2));
    assert!(far.objects.head(&far.old()).unwrap().is_none());
    assert_eq!(far.chain.edge(&far.tenant).unwrap().boundary, 2);
}
