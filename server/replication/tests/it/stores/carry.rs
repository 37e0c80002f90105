//! Replication of a real store, and copies that are built from its record log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::memory::Memory;
use crate::machine::{PATIENCE, until};
use engine::os::clock::{Clock, Micros, SystemRandom};
use engine::os::disk::{Disk, FsDisk};
use engine::{Batch, Env, ItemDraft, NoThrottle, Options, Snapshot, Store, StoreReader};
use recalld_replication::core::{Claim, Found, Holder, Retention, Stamp, Took, Writer, find};
use recalld_replication::limits::GIVE_STEPS_MAX;
use recalld_replication::{
    BootClock, Carried, Carrier, CarryHow, CarryWhen, Driver, Halt, LocalCopy, Look, Moved, NodeId,
    Nonce, NotRestored, ObjectChain, Shelf, Tenant, TickSource, Ticks, Tracker,
};

/// Real clock with an offset that a test can raise.
#[derive(Debug, Default)]
pub(crate) struct Told(pub(crate) AtomicU64);

impl Told {
    pub(crate) fn pass(&self, length: Duration) {
        self.0.fetch_add(u64::try_from(length.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

impl TickSource for Told {
    fn now(&self) -> Ticks {
        Ticks(self.0.load(Ordering::SeqCst) + BootClock.now().0)
    }
}

/// Wall clock that a test sets.
#[derive(Debug, Default)]
pub(crate) struct Dated(pub(crate) AtomicI64);

impl Clock for Dated {
    fn now(&self) -> Micros {
        Micros(self.0.load(Ordering::SeqCst))
    }
}

/// A node of a cluster, with its environment for a leader.
pub(crate) struct Node {
    pub(crate) memory: Arc<Memory>,
    pub(crate) ticks: Arc<Told>,
    pub(crate) date: Arc<Dated>,
    pub(crate) driver: Driver,
    pub(crate) writer: Writer,
}

pub(crate) fn nonce(byte: u8) -> Nonce {
    Nonce::parse(&format!("{byte:02x}").repeat(16)).unwrap()
}

pub(crate) fn tenant() -> Tenant {
    Tenant::new("local").unwrap()
}

impl Node {
    pub(crate) fn new(name: &str, memory: &Arc<Memory>) -> Self {
        let ticks = Arc::new(Told::default());
        let driver = Driver {
            chain: Arc::new(ObjectChain::new(Arc::clone(memory) as _)),
            objects: Arc::clone(memory) as _,
            ticks: Arc::clone(&ticks) as _,
            halt: Arc::new(Halt::default()),
        };
        let (node, url) = (NodeId::new(name).unwrap(), String::new());
        Self {
            memory: Arc::clone(memory),
            ticks,
            date: Arc::default(),
            driver,
            writer: Writer { node, run: nonce(7), url },
        }
    }

    pub(crate) fn found(&self) -> Option<Found> {
        let found = self.driver.run(&tenant(), async |port| find(&port, None).await);
        found.expect("nothing is over").expect("the chain can be read")
    }

    /// Acquires the workspace. Also returns the records before the acquisition, from the newest full record on.
    pub(crate) fn take(&self) -> (Holder, Vec<recalld_replication::Record>) {
        let found = self.found();
        let claim = Claim::new(self.writer.clone(), Duration::from_secs(15));
        let stamp =
            Stamp { at: 5, nonce: nonce(u8::try_from(self.memory.names("").len()).unwrap()) };
        let took = self
            .driver
            .run(&tenant(), async |port| claim.take(&port, found.as_ref(), nonce(9), stamp).await);
        let Some(Took::Held(holder)) = took else { panic!("{took:?}") };
        (*holder, found.map_or(Vec::new(), |found| found.records))
    }

    /// Opens a replicated store in a folder.
    pub(crate) fn open(&self, folder: &Path, when: CarryWhen) -> (Carrier, Arc<Store>) {
        let (holder, records) = self.take();
        let with = (Arc::clone(&self.date) as _, Arc::new(SystemRandom) as _);
        let retention = Retention { full: Duration::from_secs(3600), fine: Duration::ZERO };
        let home = folder.parent().unwrap();
        let carried = Carried::of(home, holder.newest().head.store, holder.epoch());
        let how = (CarryHow { when, retention }, Some(carried));
        let carrier = Carrier::start(self.driver.clone(), holder, &records, with, how).unwrap();
        let ground = Env { replication_sink: Some(carrier.far()), ..Env::on_disk(folder).unwrap() };
        let store = Arc::new(Store::open(ground, Options::default()).unwrap());
        carrier.carry_for(&store);
        (carrier, store)
    }

    /// Builds a store from the record log in a folder of its own, and opens the store without replication.
    pub(crate) fn copy(&self, folder: &Path) -> Store {
        let mut copy = LocalCopy::over(Arc::new(FsDisk::open(folder).unwrap()));
        let found = self.found().expect("the chain has records");
        let tenant = tenant();
        let shelf = Shelf { objects: &*self.driver.objects, tenant: &tenant };
        copy.apply(shelf, &found.records, &|| true).unwrap();
        copy.clear().unwrap();
        assert!(copy.is_store());
        Store::open(Env::on_disk(folder).unwrap(), Options::default()).unwrap()
    }
}

pub(crate) fn batch(texts: &[String]) -> Batch {
    let item = |text: &String| ItemDraft {
        kind: "note".into(),
        modality: "text".into(),
        recorded_by: "somebody".into(),
        via: "a test".into(),
        text: text.clone(),
        reference: Some(text.clone()),
        ..ItemDraft::default()
    };
    Batch { items: texts.iter().map(item).collect(), ..Batch::default() }
}

/// Texts of a store, in order.
pub(crate) fn texts(store: &Store) -> Vec<String> {
    texts_of(&store.snapshot())
}

fn texts_of(snapshot: &Snapshot) -> Vec<String> {
    let places = snapshot.item_addresses().unwrap();
    places.map(|place| snapshot.item(place).unwrap().text.to_owned()).collect()
}

pub(crate) fn some(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|number| format!("note number {number}")).collect()
}

#[test]
fn what_is_acknowledged_is_in_the_chain() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    let (carrier, store) = node.open(&folder.path().join("one"), CarryWhen::Acknowledging);
    for round in 0..5 {
        store.write(batch(&some(round * 3, 3))).unwrap();
        let copy = node.copy(&folder.path().join(format!("copy-{round}")));
        assert_eq!(texts(&copy), some(0, round * 3 + 3));
    }
    store.seal().unwrap();
    store.write(batch(&some(15, 1))).unwrap();
    assert!(carrier.settle(PATIENCE));
    let copy = node.copy(&folder.path().join("copy-after-seal"));
    assert_eq!(texts(&copy), some(0, 16));
}

#[test]
fn a_large_commit_is_objects_and_a_long_log_is_folded() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    let (carrier, store) = node.open(&folder.path().join("one"), CarryWhen::Acknowledging);
    let large = |letter: &str| format!("{letter}{}", "x".repeat(700 << 10));
    let mut all = Vec::new();
    for letters in [["a", "b"], ["c", "d"], ["e", "f"]] {
        let texts = letters.map(large);
        let mut batch = batch(&texts);
        batch.items.iter_mut().for_each(|item| item.reference = None);
        store.write(batch).unwrap();
        all.extend(texts);
    }
    assert!(!memory.names("t/local/data/").is_empty());
    assert_eq!(texts(&node.copy(&folder.path().join("copy"))), all);
    // A manifest that leaves the log in place needs a full record, which must not contain the whole log.
    store.bind_model(engine::Model { fingerprint: [7; 32], dimensions: 4 }).unwrap();
    store.write(self::batch(&some(0, 1))).unwrap();
    assert!(carrier.settle(PATIENCE));
    all.extend(some(0, 1));
    let found = node.found().unwrap();
    let recalld_replication::Kind::Full(full) = &found.records[0].kind else {
        panic!("it begins with a full one")
    };
    assert!(
        full.logs[0].folds.len() == 1 && full.logs[0].rest.len() < 1 << 20,
        "{:?}",
        full.logs[0]
    );
    let copy = node.copy(&folder.path().join("another"));
    assert_eq!(texts(&copy), all);
    assert_eq!(copy.snapshot().model(), store.snapshot().model());
}

#[test]
fn a_remote_that_is_away_holds_up_writes_and_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    let (carrier, store) = node.open(&folder.path().join("one"), CarryWhen::Acknowledging);
    store.write(batch(&some(0, 2))).unwrap();
    memory.answers(false);
    let writer = Arc::clone(&store);
    let waiting = std::thread::spawn(move || writer.write(batch(&some(2, 1))));
    until("it is known to be away", || carrier.standing().trouble.is_some());
    assert_eq!(texts(&store), some(0, 2), "nothing is shown that is not carried");
    memory.answers(true);
    waiting.join().unwrap().unwrap();
    assert_eq!(texts(&store), some(0, 3));
    assert_eq!(texts(&node.copy(&folder.path().join("copy"))), some(0, 3));
}

#[test]
fn another_writer_ends_this_one_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let [one, two] = ["box-1", "box-2"].map(|name| Node::new(name, &memory));
    let (carrier, store) = one.open(&folder.path().join("one"), CarryWhen::Acknowledging);
    store.write(batch(&some(0, 2))).unwrap();
    assert!(carrier.settle(PATIENCE));

    drop(two.copy(&folder.path().join("two")));
    let (other, theirs) = two.open(&folder.path().join("two"), CarryWhen::Acknowledging);
    theirs.write(batch(&some(2, 2))).unwrap();
    let error = store.write(batch(&some(8, 1))).unwrap_err().to_string();
    assert!(error.contains("box-2"), "{error}");
    assert!(store.stop_reason().is_some());
    store.write(batch(&some(9, 1))).unwrap_err();
    assert_eq!(texts(&store), some(0, 2), "what was refused is not shown");
    theirs.write(batch(&some(4, 1))).unwrap();
    assert!(other.settle(PATIENCE));
    assert_eq!(texts(&one.copy(&folder.path().join("copy"))), some(0, 5));
}

#[test]
fn what_follows_is_acknowledged_at_once_and_given_when_all_of_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    let when = CarryWhen::Following(Duration::from_secs(3600));
    let (carrier, store) = node.open(&folder.path().join("one"), when);
    assert!(carrier.settle(PATIENCE));
    memory.answers(false);
    for number in 0..20 {
        store.write(batch(&some(number, 1))).unwrap();
    }
    assert_eq!(texts(&store), some(0, 20));
    assert!(carrier.standing().unsent_bytes > 0);
    memory.answers(true);
    drop(store);
    assert!(carrier.give(None, PATIENCE));
    drop(carrier);
    let found = node.found().unwrap();
    assert!(found.newest.given.is_some());
    assert_eq!(texts(&node.copy(&folder.path().join("copy"))), some(0, 20));
}

#[test]
fn what_nobody_wants_is_given_up_without_being_sent() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    let marker = "the combination of the safe";
    // A write that would be uploaded later, and a write that is too large for a record and that the storage rejects.
    for (name, delay, bytes) in
        [("later", Duration::from_secs(3600), 1), ("large", Duration::ZERO, 700 << 10)]
    {
        let (carrier, store) =
            node.open(&folder.path().join(name).join("store"), CarryWhen::Following(delay));
        assert!(carrier.settle(PATIENCE));
        memory.takes(Some(0));
        let before = node.found().unwrap().newest.head;
        let notes = ["a", "b"].map(|letter| format!("{marker}{}", letter.repeat(bytes)));
        let mut notes = batch(&notes);
        notes.items.iter_mut().for_each(|item| item.reference = None);
        store.write(notes).unwrap();
        if delay.is_zero() {
            until("it is sent in vain", || carrier.standing().trouble.is_some());
        }
        drop(store);
        assert!(carrier.give_up(PATIENCE));
        memory.takes(None);
        let newest = node.found().unwrap().newest;
        assert!(newest.given.is_some() && newest.head.seq == before.seq, "{name}");
        assert!(!memory.holds(marker), "{name}");
        forget(&memory);
    }
}

/// Empties the storage.
fn forget(memory: &Memory) {
    memory.names("").iter().for_each(|name| memory.forget(name));
}

#[test]
fn a_give_leaves_few_steps_to_whoever_comes_next() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    let (carrier, store) = node.open(&folder.path().join("one"), CarryWhen::Acknowledging);
    for number in 0..GIVE_STEPS_MAX + 4 {
        store.write(batch(&some(number, 1))).unwrap();
    }
    assert!(node.found().unwrap().records.len() > GIVE_STEPS_MAX);
    drop(store);
    assert!(carrier.give(None, PATIENCE));
    let found = node.found().unwrap();
    assert!(found.newest.given.is_some());
    assert_eq!(found.records.len(), 1, "a full record stands before the give");
    let copy = node.copy(&folder.path().join("copy"));
    assert_eq!(texts(&copy), some(0, GIVE_STEPS_MAX + 4));
}

#[test]
fn an_epoch_goes_on_where_the_one_before_ended() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    let home = folder.path().join("one");
    for epoch in 1..5 {
        let (carrier, store) = node.open(&home, CarryWhen::Acknowledging);
        assert_eq!(carrier.standing().epoch, epoch);
        let from = usize::try_from(epoch - 1).unwrap() * 2;
        store.write(batch(&some(from, 1))).unwrap();
        if epoch % 2 == 0 {
            store.seal().unwrap();
        }
        store.write(batch(&some(from + 1, 1))).unwrap();
        drop(store);
        drop(carrier);
        let copy = node.copy(&folder.path().join(format!("copy-{epoch}")));
        assert_eq!(texts(&copy), some(0, from + 2));
    }
}

#[test]
fn what_was_erased_is_nowhere_once_it_was_collected() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    let (carrier, store) = node.open(&folder.path().join("one"), CarryWhen::Acknowledging);
    let secret = "the secret of the third floor".to_owned();
    let written = store.write(batch(&[some(0, 1)[0].clone(), secret.clone()])).unwrap();
    store.seal().unwrap();
    store.write(batch(&some(1, 1))).unwrap();
    assert!(carrier.settle(PATIENCE));
    assert!(memory.holds(&secret));
    let id = written.items[1].0;
    let left = |phrase: Option<&str>, name: &str| {
        let disk: Arc<dyn Disk> = Arc::new(FsDisk::open(&folder.path().join(name)).unwrap());
        let left =
            recalld_replication::find_erased(&node.driver, &tenant(), (id, phrase), &disk).unwrap();
        assert_eq!(left.has_tombstone, name != "left-0");
        left.found
    };
    let found = left(Some(&secret), "left-0");
    assert!(found.iter().any(|what| what.ends_with("has the phrase")), "{found:?}");
    assert!(found.iter().any(|what| what.contains("nothing says that it was erased")), "{found:?}");
    assert!(found.iter().any(|what| what.contains("has an item with the id")), "{found:?}");

    store.erase(&[id], "officer", "asked for", &NoThrottle).unwrap();
    assert!(carrier.settle(PATIENCE));
    let found = node.found().unwrap();
    let erased = |record: &recalld_replication::Record| match &record.kind {
        recalld_replication::Kind::Full(full) => full.erased,
        _ => 0,
    };
    assert!(found.records.iter().any(|record| erased(record) > 0), "it says where history ends");
    node.ticks.pass(Duration::from_secs(301));
    let first = carrier.collect().unwrap().unwrap();
    assert!(first.objects > 0, "{first:?}");
    node.ticks.pass(Duration::from_secs(301));
    let second = carrier.collect().unwrap().unwrap();
    assert_eq!(second.erased_waiting, 0, "{first:?} {second:?}");
    assert!(!memory.holds(&secret));
    assert_eq!(left(Some(&secret), "left-1"), Vec::<String>::new());
    assert_eq!(texts(&node.copy(&folder.path().join("copy"))), some(0, 2));
    store.write(batch(&some(2, 1))).unwrap();
    assert_eq!(texts(&node.copy(&folder.path().join("later"))), some(0, 3));

    // A tombstone names the id, in a log and in segments; an object that no record names must not.
    store.seal().unwrap();
    store.write(batch(&some(3, 1))).unwrap();
    assert!(carrier.settle(PATIENCE));
    assert_eq!(left(Some(&secret), "left-2"), Vec::<String>::new());
    let stray = recalld_replication::Key::Data(
        tenant(),
        recalld_replication::DataKey {
            epoch: 9,
            nonce: recalld_replication::Nonce::drawn(&SystemRandom),
        },
        0,
    );
    recalld_replication::Objects::put(&*memory, &stray, &id.to_le_bytes()).unwrap();
    let found = left(None, "left-3");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(&format!("{stray} has the id, and no state")), "{found:?}");
}

#[test]
fn what_no_record_names_goes_and_what_one_names_stays() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    let home = folder.path().join("one");
    for round in 0..4 {
        let (carrier, store) = node.open(&home, CarryWhen::Acknowledging);
        store.write(batch(&some(round * 40, 40))).unwrap();
        store.seal().unwrap();
        assert!(carrier.settle(PATIENCE));
    }
    let before = memory.names("t/local/").len();
    let (carrier, store) = node.open(&home, CarryWhen::Acknowledging);
    store.compact_fully(&NoThrottle).unwrap();
    assert!(carrier.settle(PATIENCE));
    node.date.0.store(2 * 3_600_000_000, Ordering::SeqCst);
    for _ in 0..3 {
        carrier.collect().unwrap().unwrap();
        node.ticks.pass(Duration::from_secs(301));
    }
    let after = memory.names("t/local/").len();
    assert!(after < before, "{before} objects before, {after} after");
    assert_eq!(memory.names("t/local/data/").len(), 1, "one segment: {:?}", memory.names(""));
    assert_eq!(texts(&node.copy(&folder.path().join("copy"))), some(0, 160));
}

/// Polls until there is no newer record.
fn catch_up(tracker: &mut Tracker, reader: &mut Option<StoreReader>, disk: &Arc<FsDisk>) {
    loop {
        match tracker.look() {
            Moved::Newest => return,
            Moved::On(_) => {}
            other => panic!("{other:?}"),
        }
        let disk: Arc<FsDisk> = Arc::clone(disk);
        match reader {
            Some(reader) => drop(reader.refresh().unwrap()),
            None if tracker.is_store() => *reader = Some(StoreReader::open(disk).unwrap()),
            None => {}
        }
        tracker.settled().unwrap();
    }
}

#[test]
fn a_reader_follows_whatever_the_writer_does() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    let (carrier, store) = node.open(&folder.path().join("one"), CarryWhen::Acknowledging);
    let home = folder.path().join("follower");
    let disk = Arc::new(FsDisk::open(&home).unwrap());
    let mut tracker = Tracker::new(node.driver.clone(), tenant(), Arc::clone(&disk) as _);
    let mut reader = None;
    let mut wanted = Vec::new();
    for round in 0..60 {
        let new = some(round * 2, 2);
        store.write(batch(&new)).unwrap();
        wanted.extend(new);
        match round % 7 {
            2 => store.seal().unwrap(),
            4 => drop(store.compact_fully(&NoThrottle).unwrap()),
            5 => {
                let gone = wanted.remove(round);
                let snapshot = store.snapshot();
                let place = snapshot.find_ref(&gone).unwrap().unwrap();
                let id = snapshot.id(place).unwrap().0;
                store.erase(&[id], "officer", "asked for", &NoThrottle).unwrap();
            }
            _ => {}
        }
        if round % 5 == 0 {
            assert!(carrier.settle(PATIENCE));
        }
        if round % 9 == 8 {
            node.ticks.pass(Duration::from_secs(400));
            carrier.collect().unwrap().unwrap();
        }
        if round % 3 == 0 {
            catch_up(&mut tracker, &mut reader, &disk);
            let seen = texts_of(&reader.as_ref().unwrap().snapshot());
            assert_eq!(seen, wanted, "round {round}");
        }
        if round == 30 {
            // The log tailer restarts over the existing files.
            tracker = Tracker::new(node.driver.clone(), tenant(), Arc::clone(&disk) as _);
            reader = None;
        }
    }
    assert!(carrier.settle(PATIENCE));
    catch_up(&mut tracker, &mut reader, &disk);
    let names = |folder: &Path| {
        let names = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name());
        let mut names: Vec<String> = names.map(|it| it.into_string().unwrap()).collect();
        names.retain(|name| name != "LOCK" && !name.starts_with("manifest-"));
        names.sort();
        names
    };
    let theirs = names(&folder.path().join("one"));
    assert_eq!(names(&home), theirs, "what is left behind goes");
}

#[test]
fn a_workspace_is_had_as_it_was() {
    const HOUR: i64 = 3_600_000_000;
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    node.date.0.store(HOUR, Ordering::SeqCst);
    let (carrier, store) = node.open(&folder.path().join("one"), CarryWhen::Acknowledging);
    for round in 0..8 {
        node.date.0.store(HOUR + i64::try_from(round).unwrap() * 1000, Ordering::SeqCst);
        store.write(batch(&some(round, 1))).unwrap();
        if round == 4 {
            store.seal().unwrap();
        }
        assert!(carrier.settle(PATIENCE));
    }
    let back = |name: &str, as_of: Option<i64>| {
        let home = folder.path().join(name);
        let disk: Arc<dyn engine::os::disk::Disk> = Arc::new(FsDisk::open(&home).unwrap());
        let node_id = &node.writer.node;
        let done = recalld_replication::restore(
            &node.driver,
            &tenant(),
            node_id,
            as_of,
            (&disk, &SystemRandom),
        );
        done.map(|_| texts(&Store::open(Env::on_disk(&home).unwrap(), Options::default()).unwrap()))
    };
    assert_eq!(back("now", None).unwrap(), some(0, 8));
    assert_eq!(back("then", Some(HOUR + 2500)).unwrap(), some(0, 3));
    assert_eq!(back("exactly", Some(HOUR + 6000)).unwrap(), some(0, 7));
    let error = back("never", Some(HOUR - 1)).unwrap_err();
    assert!(matches!(error, NotRestored::TooOld(at) if at <= HOUR), "{error:?}");
    assert!(memory.names("t/local/pin/").is_empty(), "no pin stays");

    // From before the retention only full records are left, and after it none.
    node.ticks.pass(Duration::from_secs(301));
    node.date.0.store(HOUR + 60_000_000, Ordering::SeqCst);
    store.write(batch(&some(8, 1))).unwrap();
    assert!(carrier.settle(PATIENCE));
    carrier.collect().unwrap().unwrap();
    assert_eq!(back("sealed", Some(HOUR + 6500)).unwrap(), some(0, 7));
    assert_eq!(recalld_replication::tenants(&*memory).unwrap(), [tenant()]);
}

#[test]
fn what_is_wrong_on_the_storage_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    let (carrier, store) = node.open(&folder.path().join("one"), CarryWhen::Acknowledging);
    for round in 0..4 {
        store.write(batch(&some(round, 1))).unwrap();
        store.seal().unwrap();
        assert!(carrier.settle(PATIENCE));
    }
    let verify = |look| recalld_replication::verify(&node.driver, &tenant(), look).unwrap();
    let sound = verify(Look::Bytes);
    assert_eq!(sound.findings, Vec::<String>::new());
    assert!(sound.objects > 2 && sound.bytes > 1000 && sound.records > 4, "{sound:?}");

    let named = memory.names("t/local/data/");
    memory.tamper(&named[0], |bytes| *bytes.last_mut().unwrap() ^= 1);
    assert_eq!(verify(Look::Lengths).findings, Vec::<String>::new());
    let found = verify(Look::Bytes).findings;
    assert!(found.len() == 1 && found[0].contains("REM-05"), "{found:?}");
    memory.tamper(&named[0], |bytes| bytes.truncate(bytes.len() - 1));
    assert_eq!(verify(Look::Lengths).findings.len(), 1);
    let second = memory.names("t/local/chain/").swap_remove(1);
    memory.tamper(&second, |bytes| bytes[20] ^= 1);
    let found = verify(Look::Lengths).findings;
    assert!(found.iter().any(|found| found.contains("REM-01")), "{found:?}");
}

#[test]
fn a_file_that_is_not_what_its_manifest_says_is_not_carried() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let node = Node::new("box-1", &memory);
    let home = folder.path().join("one");
    let (carrier, store) = node.open(&home, CarryWhen::Following(Duration::ZERO));
    assert!(carrier.settle(PATIENCE));
    memory.answers(false);
    store.write(batch(&some(0, 1))).unwrap();
    store.seal().unwrap();
    let files = std::fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &std::path::PathBuf| path.to_string_lossy().contains("/segment-");
    let segment = files.into_iter().find(is_segment).unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    memory.answers(true);
    let is_told = || {
        let trouble = carrier.standing().trouble;
        trouble.is_some_and(|why| why.contains("its manifest says"))
    };
    until("it is told", is_told);
    let found = node.found().unwrap();
    let names = |record: &recalld_replication::Record| match &record.kind {
        recalld_replication::Kind::Full(full) => full.files.len(),
        _ => 0,
    };
    assert_eq!(found.records.iter().map(names).sum::<usize>(), 0, "no record names it");
}
