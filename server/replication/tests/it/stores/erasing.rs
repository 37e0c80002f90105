//! Erasure on one node: the data vanishes from the storage and from every other node, and the progress of each is
//! known.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::memory::Memory;
use crate::machine::{Machine, batch, texts};
use crate::machine::{PATIENCE, until};
use engine::NoThrottle;
use recalld_replication::core::{Reached, reached};
use recalld_replication::{
    Carrier, CarryWhen, Counts, Erasing, Folder, Holding, Holds, Key, NodeId, Objects, Role,
    Seated, Tenant,
};

const SECRET: &str = "the combination of the safe on the third floor";
const MINUTES: Duration = Duration::from_secs(301);

fn tenant() -> Tenant {
    Tenant::new("local").unwrap()
}

/// Files below a folder that contain these bytes.
fn found_in(folder: &Path, wanted: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut found_in(&path, wanted));
        } else if contains(&fs::read(&path).unwrap(), wanted.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|part| part == wanted)
}

/// Publishes the inventory of a node.
fn tells(objects: &dyn Objects, name: &str, record: u64, left: u32) {
    let node = NodeId::new(name).unwrap();
    let workspaces = [(tenant(), Holding { record, left })].into();
    let holds = Holds { node: node.clone(), workspaces };
    objects.put(&Key::Holds(node), &holds.encode()).unwrap();
}

fn far(machine: &Machine) -> Reached {
    let far = machine.seat.driver.run(&tenant(), async |port| reached(&port).await);
    far.unwrap().unwrap().expect("something was erased")
}

fn carrier(seated: &Seated) -> Arc<Carrier> {
    let Role::Leads(carrier) = &seated.role else { panic!("nobody else writes it") };
    Arc::clone(carrier)
}

/// Record that a follower is at.
fn shown(seated: &Seated) -> u64 {
    let Role::Follows(following) = &seated.role else { panic!("it only reads") };
    following.age().at.number
}

#[test]
fn an_erasure_is_everywhere_once_the_last_node_that_was_away_has_come_back() {
    let root = tempfile::tempdir().unwrap();
    let bucket = root.path().join("bucket");
    let home = |name: &str| root.path().join(name);
    let objects: Arc<dyn Objects> =
        Arc::new(Folder::open(&bucket, Arc::<Counts>::default()).unwrap());
    let machine =
        |name: &str, is_replica| Machine::over(name, Arc::clone(&objects), &home(name), is_replica);
    let mut one = machine("box-1", false);
    let [mut two, mut three] = ["box-2", "box-3"].map(|name| machine(name, true));
    let led = one.open().unwrap();
    led.store.write(batch("what stays")).unwrap();
    let secret = led.store.write(batch(SECRET)).unwrap().items[0];
    led.store.seal().unwrap();
    assert!(carrier(&led).settle(PATIENCE));
    let (second, third) = (two.open().unwrap(), three.open().unwrap());
    for seated in [&second, &third] {
        until("they follow", || texts(&seated.store) == ["what stays", SECRET]);
    }
    tells(&*objects, "box-3", shown(&third), 0);
    // `box-3` goes away before the erasure.
    drop(third);
    for place in [&bucket, &home("box-1"), &home("box-2"), &home("box-3")] {
        assert!(!found_in(place, SECRET).is_empty(), "{}", place.display());
    }

    let mut list = Erasing::of(&home("box-1")).unwrap().unwrap();
    list.note([secret.0]).unwrap();
    led.store.erase(&[secret.0], "officer", "asked for", &NoThrottle).unwrap();
    assert!(carrier(&led).settle(PATIENCE));
    carrier(&led).collect().unwrap().unwrap();
    let record = far(&one).record;
    let owed = list.owed();
    assert_eq!(owed.iter().map(|owed| owed.id).collect::<Vec<_>>(), [secret.0]);
    list.ended_by(&owed, record).unwrap();
    assert!(!far(&one).is_gone(record), "records are not known for long enough");
    until("the second has it", || shown(&second) >= record);
    // Advance all clocks: no clock may run ten times as fast as another.
    [&one, &two, &three].into_iter().for_each(|machine| machine.pass(MINUTES));
    carrier(&led).collect().unwrap().unwrap();
    assert!(far(&one).is_gone(record));
    tells(&*objects, "box-2", shown(&second), 0);
    tells(&*objects, "box-1", record, 0);
    let behind = |far: &Reached| far.behind(record).map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(behind(&far(&one)), ["box-3"]);
    for place in [&bucket, &home("box-1"), &home("box-2")] {
        assert_eq!(found_in(place, SECRET), Vec::<String>::new());
    }
    assert!(!found_in(&home("box-3"), SECRET).is_empty());

    let third = three.open().unwrap();
    assert_eq!(texts(&third.store), ["what stays"]);
    tells(&*objects, "box-3", shown(&third), 1);
    assert_eq!(behind(&far(&one)), ["box-3"], "a store that was set aside follows nothing");
    tells(&*objects, "box-3", shown(&third), 0);
    assert!(far(&one).is_everywhere(record));
    assert_eq!(found_in(root.path(), SECRET), Vec::<String>::new());
    list.everywhere(record).unwrap();
    assert_eq!(Erasing::of(&home("box-1")).unwrap().unwrap().waiting(), 0);
}

#[test]
fn an_erasure_that_a_crash_cut_short_before_its_record_ends_history_all_the_same() {
    let root = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let home = root.path().join("one");
    let machine = || {
        let mut one = Machine::over("box-1", Arc::clone(&memory) as _, &home, false);
        one.seat.how.when = CarryWhen::Following(Duration::from_secs(3600));
        one
    };
    let mut one = machine();
    let led = one.open().unwrap();
    let secret = led.store.write(batch(SECRET)).unwrap().items[0];
    led.store.write(batch("what stays")).unwrap();
    led.store.seal().unwrap();
    assert!(carrier(&led).settle(PATIENCE));
    Erasing::of(&home).unwrap().unwrap().note([secret.0]).unwrap();
    memory.answers(false);
    led.store.erase(&[secret.0], "officer", "asked for", &NoThrottle).unwrap();
    assert_eq!(led.store.item_erasures_pending().unwrap(), 0, "it is out of the files here");
    drop((led, one));
    assert!(memory.holds(SECRET));

    memory.answers(true);
    let mut one = machine();
    let led = one.open().unwrap();
    assert!(carrier(&led).settle(PATIENCE));
    carrier(&led).collect().unwrap().unwrap();
    one.pass(MINUTES);
    let collected = carrier(&led).collect().unwrap().unwrap();
    assert_eq!((collected.erased_waiting, memory.holds(SECRET)), (0, false), "{collected:?}");
    assert!(far(&one).is_gone(far(&one).record));
    assert_eq!(texts(&led.store), ["what stays"]);
}

#[test]
fn an_erasure_that_is_asked_for_again_is_not_ended_by_what_was_on_its_way() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path().join("one");
    let mut one = Machine::over("box-1", Arc::<Memory>::default(), &home, false);
    drop(one.open().unwrap());
    let list = || Erasing::of(&home).unwrap().unwrap();
    list().note([7, 8]).unwrap();
    let on_its_way = list().owed();
    list().note([7]).unwrap();
    list().ended_by(&on_its_way, 5).unwrap();
    let owed = list().owed();
    assert_eq!(owed.iter().map(|owed| owed.id).collect::<Vec<_>>(), [7]);
    // A late end must not count either if the first erasure was complete and off the list before.
    list().ended_by(&owed, 6).unwrap();
    list().everywhere(6).unwrap();
    assert_eq!(list().waiting(), 0);
    list().note([7]).unwrap();
    list().ended_by(&[&on_its_way[..], &owed].concat(), 6).unwrap();
    assert!(list().owes());
    list().ended_by(&list().owed(), 9).unwrap();
    assert_eq!((list().owes(), list().newest()), (false, Some(9)));
}
