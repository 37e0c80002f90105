//! Record logs in etcd with long records as objects: erased and deleted data must vanish from both.

use std::sync::Arc;
use std::time::Duration;

use engine::os::clock::{Clock, SystemClock, SystemRandom};
use engine::os::disk::{Disk, FsDisk};
use engine::{Batch, NoThrottle};
use recalld_replication::core::Retention;
use recalld_replication::limits::ETCD_INLINE_MAX;
use recalld_replication::{
    Carrier, Deleted, Emptied, Emptying, Hex, Key, Look, Objects, Role, Seated, Sweeper,
    find_erased, verify,
};

use super::etcd;
use super::fake::{Fake, Flaw};
use super::tiny_etcd::Etcds;
use crate::machine::{Machine, PATIENCE, batch, texts, until};

const PHRASE: &str = "the combination of the safe on the third floor";
const MINUTES: Duration = Duration::from_secs(301);

/// An etcd, its object store, and a directory for the machines.
struct Coordinated {
    etcd: Etcds,
    objects: Arc<dyn Objects>,
    root: tempfile::TempDir,
}

impl Coordinated {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { etcd: Etcds::start(), objects: Fake::open(Flaw::None), root }
    }

    fn machine(&self, name: &str) -> Machine {
        let (chain, _) = etcd::open(&self.etcd.host, None, &self.objects);
        let objects = Arc::clone(&self.objects);
        Machine::with(name, (Arc::new(chain), objects), &self.root.path().join(name), false)
    }

    fn folder(&self, name: &str) -> Arc<dyn Disk> {
        Arc::new(FsDisk::open(&self.root.path().join(name)).unwrap())
    }

    /// Returns true if any object below this prefix contains these bytes.
    fn hold(&self, prefix: &str, wanted: &[u8]) -> bool {
        let listed = self.objects.list(prefix, None, 1000).unwrap();
        listed.iter().any(|about| {
            let bytes = self.objects.get(&about.key, None, u64::MAX).unwrap().unwrap();
            holds(&bytes, wanted)
        })
    }
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|part| part == wanted)
}

/// An item whose record becomes an object, or stays in etcd.
fn item(is_long: bool) -> Batch {
    let more = if is_long { ETCD_INLINE_MAX } else { 0 };
    batch(&format!("{PHRASE} {}", "x".repeat(more)))
}

fn carrier(seated: &Seated) -> Arc<Carrier> {
    let Role::Leads(carrier) = &seated.role else { panic!("nobody else writes it") };
    Arc::clone(carrier)
}

/// Returns true if any record is an object.
fn has_body(objects: &Arc<dyn Objects>) -> bool {
    let listed = objects.list("t/local/body/", None, 9).unwrap();
    !listed.is_empty()
}

#[test]
fn what_was_erased_is_looked_for_in_etcd_and_in_long_records() {
    let far = Coordinated::new();
    let mut one = far.machine("box-1");
    let led = one.open().unwrap();
    led.store.write(batch("what stays")).unwrap();
    assert!(carrier(&led).settle(PATIENCE));
    let [long, short] = [true, false].map(|is_long| {
        let written = led.store.write(item(is_long)).unwrap();
        written.items[0].0
    });
    assert!(carrier(&led).settle(PATIENCE) && has_body(&far.objects));
    let looked = |id: u128, phrase: Option<&str>, name: &str| {
        let (driver, tenant) = (&one.seat.driver, &one.seat.tenant);
        find_erased(driver, tenant, (id, phrase), &far.folder(name)).unwrap()
    };
    let before = looked(long, Some(PHRASE), "before");
    let has = |what: &str| before.found.iter().filter(|found| found.contains(what)).count();
    assert!(has("t/local/body/") == 1 && has("t/local/chain/") == 2, "{:?}", before.found);
    // The state explains the record under both of its keys, that in etcd and that of the object.
    assert_eq!(has("no state that is kept names it"), 0, "{:?}", before.found);
    assert!(has("nothing says that it was erased") == 1 && !before.has_tombstone);
    // Without a phrase both items are found as well, by their ids.
    for id in [long, short] {
        let found = looked(id, None, &format!("before-{id}")).found;
        assert!(found.iter().any(|found| found.contains("has an item with the id")), "{found:?}");
    }

    led.store.seal().unwrap();
    led.store.erase(&[long, short], "officer", "asked for", &NoThrottle).unwrap();
    for _ in 0..2 {
        assert!(carrier(&led).settle(PATIENCE));
        carrier(&led).collect().unwrap().unwrap();
        one.pass(MINUTES);
    }
    until("it is heard again", || one.seat.node.as_ref().unwrap().is_held());
    for id in [long, short] {
        let after = looked(id, Some(PHRASE), &format!("after-{id}"));
        assert!(after.found.is_empty() && after.has_tombstone, "{:?}", after.found);
    }
    // A stray object that is no record is not explained by any.
    let stray = Key::Body(one.seat.tenant.clone(), 1, Hex([7; 16]));
    far.objects.put(&stray, &long.to_le_bytes()).unwrap();
    let found = looked(long, None, "stray").found;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(&format!("{stray} has the id, and no state")), "{found:?}");
    assert_eq!(texts(&led.store), ["what stays"]);
}

#[test]
fn what_was_deleted_goes_from_etcd_and_from_the_objects() {
    let far = Coordinated::new();
    let mut one = far.machine("box-1");
    let led = one.open().unwrap();
    led.store.write(item(true)).unwrap();
    led.store.seal().unwrap();
    assert!(carrier(&led).settle(PATIENCE));
    for is_long in [true, false] {
        led.store.write(item(is_long)).unwrap();
    }
    assert!(carrier(&led).settle(PATIENCE));
    assert!(has_body(&far.objects) && far.hold("", PHRASE.as_bytes()));
    assert!(far.etcd.values().iter().any(|value| holds(value, PHRASE.as_bytes())));
    let Seated { store, role } = led;
    let Role::Leads(carrier) = role else { panic!("nobody else writes it") };
    drop(store);
    assert!(carrier.give(None, PATIENCE));

    let two = far.machine("box-2");
    let sweeper = Sweeper {
        driver: two.seat.driver.clone(),
        node: Arc::clone(two.seat.node.as_ref().unwrap()),
        retention: Retention { full: MINUTES, fine: MINUTES },
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
    };
    let mut known = Emptying::new(&sweeper.node);
    let mut step = |at| {
        // Etcd reports no age of a record, so the purge does not wait for one.
        let deleted = Deleted {
            tenant: two.seat.tenant.clone(),
            at,
            looks_again: false,
            kept: Duration::MAX,
        };
        sweeper.empty(&deleted, &mut known, &|_| Ok(())).unwrap()
    };
    let spared = step(0);
    assert!(matches!(&spared, Emptied::Spared(why) if why.contains("box-1")), "{spared:?}");
    let now = SystemClock.now().0;
    let first = step(now);
    assert!(matches!(&first, Emptied::Waiting(done) if done.objects > 0), "{first:?}");
    assert!(far.objects.list("t/local/data/", None, 9).unwrap().is_empty());
    two.pass(MINUTES);
    let second = step(now);
    assert!(matches!(&second, Emptied::Done(done) if done.records > 0), "{second:?}");
    assert!(!far.hold("", PHRASE.as_bytes()) && !has_body(&far.objects));
    assert!(!far.etcd.values().iter().any(|value| holds(value, PHRASE.as_bytes())));
    let checked = verify(&two.seat.driver, &two.seat.tenant, Look::Bytes).unwrap();
    assert!(checked.findings.is_empty() && checked.records == 2, "{checked:?}");
}
