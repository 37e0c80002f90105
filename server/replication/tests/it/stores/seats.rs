//! Nodes that share workspaces on one storage: leaders, followers and failover.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::memory::Memory;
use crate::machine::{LEASE_S, Machine, batch, texts};
use crate::machine::{PATIENCE, until};
use engine::{Options, Store};
use recalld_replication::{
    About, Away, CarryWhen, Key, NodeId, NotSeated, ObjectChain, Objects, Role, Seated, Tried,
    forget, held_in, may_have_bytes,
};

impl Machine {
    pub(crate) fn new(name: &str, memory: &Arc<Memory>, home: &Path, is_replica: bool) -> Self {
        Self::over(name, Arc::clone(memory) as _, home, is_replica)
    }

    pub(crate) fn over(
        name: &str,
        objects: Arc<dyn Objects>,
        home: &Path,
        is_replica: bool,
    ) -> Self {
        let chain = Arc::new(ObjectChain::new(Arc::clone(&objects)));
        Self::with(name, (chain, objects), home, is_replica)
    }
}

#[test]
fn a_replica_follows_and_takes_no_writes() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let mut replica = Machine::new("box-2", &memory, &folder.path().join("two"), true);
    assert!(matches!(replica.open(), Err(NotSeated::Nothing)));
    let mut writer = Machine::new("box-1", &memory, &folder.path().join("one"), false);
    let led = writer.open().unwrap();
    assert!(matches!(led.role, Role::Leads(_)));
    led.store.write(batch("one")).unwrap();

    let Seated { store, role } = replica.open().unwrap();
    let Role::Follows(following) = role else { panic!("it only reads") };
    until("the first", || texts(&store) == ["one"]);
    led.store.write(batch("two")).unwrap();
    following.touch();
    until("the second", || texts(&store) == ["one", "two"]);
    assert_eq!(following.age().at.node.as_str(), "box-1");
    let error = store.write(batch("no")).unwrap_err().to_string();
    assert!(error.contains("box-1"), "{error}");
    until("it is fresh", || following.age().stale.is_some_and(|stale| stale < PATIENCE));

    // After a restart the replica still has its rows.
    drop((store, following));
    let again = replica.open().unwrap();
    assert_eq!(texts(&again.store), ["one", "two"]);
}

/// Storage whose leader writes one more item on each read of a record.
#[derive(Debug)]
struct Busy {
    memory: Arc<Memory>,
    store: Arc<Store>,
    written: AtomicU64,
}

impl Objects for Busy {
    fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), Away> {
        self.memory.put(key, bytes)
    }

    fn put_new(&self, key: &Key, bytes: &[u8]) -> Tried {
        self.memory.put_new(key, bytes)
    }

    fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Away> {
        if matches!(key, Key::Chain(..)) {
            let number = self.written.fetch_add(1, Ordering::SeqCst);
            assert!(number < 10_000, "it is read for ever");
            self.store.write(batch(&format!("number {number}"))).unwrap();
        }
        self.memory.get(key, range, most)
    }

    fn head(&self, key: &Key) -> Result<Option<About>, Away> {
        self.memory.head(key)
    }

    fn list(&self, prefix: &str, after: Option<&Key>, most: usize) -> Result<Vec<About>, Away> {
        self.memory.list(prefix, after, most)
    }

    fn remove(&self, keys: &[Key]) -> Result<(), Away> {
        self.memory.remove(keys)
    }
}

#[test]
fn who_follows_a_writer_that_never_rests_is_there_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let mut writer = Machine::new("box-1", &memory, &folder.path().join("one"), false);
    let led = writer.open().unwrap();
    led.store.write(batch("first")).unwrap();
    let mut second = Machine::new("box-2", &memory, &folder.path().join("two"), false);
    let (store, written) = (Arc::clone(&led.store), AtomicU64::new(0));
    let busy = Arc::new(Busy { memory, store, written });
    second.seat.driver.chain = Arc::new(ObjectChain::new(Arc::clone(&busy) as _));
    second.seat.driver.objects = Arc::clone(&busy) as _;
    let followed = second.open().unwrap();
    assert!(matches!(followed.role, Role::Follows(_)));
    assert_eq!(texts(&followed.store)[0], "first");
}

#[test]
fn who_comes_second_follows_until_the_first_gives() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let mut one = Machine::new("box-1", &memory, &folder.path().join("one"), false);
    let mut two = Machine::new("box-2", &memory, &folder.path().join("two"), false);
    let led = one.open().unwrap();
    led.store.write(batch("one")).unwrap();
    let followed = two.open().unwrap();
    assert!(matches!(followed.role, Role::Follows(_)));
    drop(followed);

    let Seated { store, role } = led;
    let Role::Leads(carrier) = role else { panic!("it was first") };
    drop(store);
    assert!(carrier.give(None, PATIENCE));
    let standing = carrier.standing();
    one.seat.note_carried(standing.seq, standing.record).unwrap();
    assert_eq!(held_in(&one.seat.home).unwrap().unwrap().record, standing.record);
    drop(carrier);
    let led = two.open().unwrap();
    assert!(matches!(led.role, Role::Leads(_)));
    led.store.write(batch("two")).unwrap();
    let followed = one.open().unwrap();
    assert!(matches!(followed.role, Role::Follows(_)));
    until("the other's", || texts(&followed.store) == ["one", "two"]);
    assert!(left(&folder.path().join("one")).is_empty(), "all that was here is in the chain");
}

#[test]
fn what_was_given_to_a_node_that_never_comes_is_had_after_one_lease() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let mut one = Machine::new("box-1", &memory, &folder.path().join("one"), false);
    let mut two = Machine::new("box-2", &memory, &folder.path().join("two"), false);
    let Seated { store, role } = one.open().unwrap();
    store.write(batch("one")).unwrap();
    let Role::Leads(carrier) = role else { panic!("it was first") };
    drop(store);
    assert!(carrier.give(NodeId::new("box-9").ok(), PATIENCE));
    drop(carrier);

    let followed = two.open().unwrap();
    let Role::Follows(following) = followed.role else { panic!("it is given to another") };
    assert!(!two.seat.may_be_free(&following.age()));
    two.pass(Duration::from_secs(LEASE_S.into()));
    until("a lease is over", || two.seat.may_be_free(&following.age()));
    drop(followed.store);
    let tracker = following.end();
    until("it is heard again", || two.seat.node.as_ref().unwrap().is_held());
    let led = two.seat.open(tracker, two.claim.as_mut()).unwrap();
    assert!(matches!(led.role, Role::Leads(_)), "not after another one");
}

/// Stores that were set aside.
fn left(home: &Path) -> Vec<String> {
    let names = std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    names.filter(|name| name.starts_with("store.left-")).collect()
}

#[test]
fn a_node_that_went_silent_is_followed_by_another_and_what_only_it_had_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let mut one = Machine::new("box-1", &memory, &folder.path().join("one"), false);
    one.seat.how.when = CarryWhen::Following(Duration::from_secs(3600));
    let led = one.open().unwrap();
    led.store.write(batch("carried")).unwrap();
    let Role::Leads(carrier) = &led.role else { panic!("it is alone") };
    led.store.seal().unwrap();
    assert!(carrier.settle(PATIENCE));
    led.store.write(batch("not carried")).unwrap();
    drop(led);
    // The node ends as well, so its heartbeats stop.
    drop(one);

    let mut two = Machine::new("box-2", &memory, &folder.path().join("two"), false);
    let seated = loop {
        let seated = two.open().unwrap();
        if matches!(seated.role, Role::Leads(_)) {
            break seated;
        }
        drop(seated);
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(texts(&seated.store), ["carried"]);
    seated.store.write(batch("of the second")).unwrap();

    let home = folder.path().join("one");
    let mut one = Machine::new("box-1", &memory, &home, false);
    let followed = one.open().unwrap();
    assert!(matches!(followed.role, Role::Follows(_)));
    until("the second's", || texts(&followed.store) == ["carried", "of the second"]);
    let left = left(&home);
    assert_eq!(left.len(), 1);
    let ground = engine::Env::on_disk(&home.join(&left[0])).unwrap();
    let aside = Store::open(ground, Options::default()).unwrap();
    assert_eq!(texts(&aside), ["carried", "not carried"]);
    drop((aside, followed, one));

    // The store is removed for good: nothing here names the workspace any more.
    std::fs::remove_dir_all(home.join("store")).unwrap();
    std::fs::write(home.join("remote-ledger.json"), "of the ledger").unwrap();
    assert!(held_in(&home).unwrap().is_some_and(|held| held.left == 1));
    for _ in 0..2 {
        forget(&home).unwrap();
        assert!(held_in(&home).unwrap().is_none() && !may_have_bytes(&home));
    }
    let entries = std::fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(entries.collect::<Vec<_>>(), ["remote-ledger.json"], "the ledger stays");
}

#[test]
fn a_node_that_comes_back_soon_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let home = folder.path().join("one");
    for (round, text) in ["one", "two", "three"].into_iter().enumerate() {
        let mut one = Machine::new("box-1", &memory, &home, false);
        one.seat.how.when = CarryWhen::Following(Duration::from_secs(3600));
        let led = one.open().unwrap();
        assert!(matches!(led.role, Role::Leads(_)), "round {round}");
        led.store.write(batch(text)).unwrap();
    }
    let mut one = Machine::new("box-1", &memory, &home, false);
    let led = one.open().unwrap();
    assert_eq!(texts(&led.store), ["one", "two", "three"], "what was not carried is not lost");
    let Role::Leads(carrier) = &led.role else { panic!("nobody else was there") };
    assert!(carrier.settle(PATIENCE));
    let mut replica = Machine::new("box-2", &memory, &folder.path().join("two"), true);
    let followed = replica.open().unwrap();
    assert_eq!(texts(&followed.store), ["one", "two", "three"]);
}

#[test]
fn what_is_not_carried_yet_waits_for_the_node_that_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let home = folder.path().join("one");
    std::fs::create_dir_all(&home).unwrap();
    let own = Store::open(engine::Env::on_disk(&home.join("store")).unwrap(), Options::default());
    let own = own.unwrap();
    own.write(batch("from before")).unwrap();
    own.seal().unwrap();
    drop(own);
    let mut one = Machine::new("box-1", &memory, &home, false);
    let mut two = Machine::new("box-2", &memory, &folder.path().join("two"), false);
    // The first record is stored, but no file.
    memory.takes(Some(0));
    let Seated { store, role } = one.open().unwrap();
    let Role::Leads(carrier) = role else { panic!("it was first") };
    drop(store);
    assert!(carrier.give_up(PATIENCE));
    drop(carrier);
    let why = two.open().map(|_| ()).unwrap_err();
    assert!(
        matches!(&why, NotSeated::NotCarried(newest) if newest.node.as_str() == "box-1"),
        "{why}"
    );

    // Without a claim, the first node's store does not become a follower's either.
    let why = one.seat.open(None, None).map(|_| ()).unwrap_err();
    assert!(matches!(why, NotSeated::NotCarried(_)), "{why}");
    assert!(!recalld_replication::is_followed(&home).unwrap() && left(&home).is_empty());

    memory.takes(None);
    let Seated { store, role } = one.open().unwrap();
    assert_eq!(texts(&store), ["from before"]);
    let Role::Leads(carrier) = role else { panic!("nobody else has it") };
    assert!(carrier.settle(PATIENCE));
    drop(store);
    assert!(carrier.give(None, PATIENCE));
    let led = two.open().unwrap();
    assert!(matches!(led.role, Role::Leads(_)));
    assert_eq!(texts(&led.store), ["from before"]);
}

#[test]
fn a_writer_whose_store_is_gone_has_it_from_the_chain() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let home = folder.path().join("one");
    let mut one = Machine::new("box-1", &memory, &home, false);
    one.open().unwrap().store.write(batch("one")).unwrap();
    drop(one);
    std::fs::remove_dir_all(home.join("store")).unwrap();
    let mut one = Machine::new("box-1", &memory, &home, false);
    let led = one.open().unwrap();
    assert!(matches!(led.role, Role::Leads(_)));
    assert_eq!(texts(&led.store), ["one"]);
}

#[test]
fn what_was_brought_back_in_part_is_not_all_that_the_chain_has() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let home = folder.path().join("one");
    let mut one = Machine::new("box-1", &memory, &home, false);
    let led = one.open().unwrap();
    let Role::Leads(carrier) = &led.role else { panic!("it was first") };
    led.store.write(batch("one")).unwrap();
    assert!(carrier.settle(PATIENCE));
    // A step that is too large for a record.
    memory.put_since();
    let large = "large ".repeat(100_000);
    let mut both = batch(&large);
    both.items.extend(batch(&large).items);
    led.store.write(both).unwrap();
    let put = memory.put_since();
    let [object] = &put[..] else { panic!("it is one object: {put:?}") };
    drop((led, one));
    std::fs::remove_dir_all(home.join("store")).unwrap();
    let mut bytes = Vec::new();
    memory.tamper(object, |there| bytes = std::mem::take(there));
    let mut one = Machine::new("box-1", &memory, &home, false);
    let why = one.open().map(|_| ()).unwrap_err();
    memory.tamper(object, |there| *there = bytes);
    let led = one.open().unwrap();
    assert_eq!(texts(&led.store), ["one", &large, &large], "after {why}");
}

#[test]
fn another_store_is_not_mixed_in() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let mut one = Machine::new("box-1", &memory, &folder.path().join("one"), false);
    let led = one.open().unwrap();
    led.store.write(batch("one")).unwrap();
    let home = folder.path().join("two");
    std::fs::create_dir_all(&home).unwrap();
    let own = Store::open(engine::Env::on_disk(&home.join("store")).unwrap(), Options::default());
    own.unwrap().write(batch("mine")).unwrap();
    let mut two = Machine::new("box-2", &memory, &home, true);
    let error = two.open().unwrap_err();
    assert!(matches!(&error, NotSeated::Here(why) if why.contains("another store")), "{error}");
    drop(two);
    let own = Store::open(engine::Env::on_disk(&home.join("store")).unwrap(), Options::default());
    assert_eq!(texts(&own.unwrap()), ["mine"]);
}
