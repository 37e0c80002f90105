//! Requirements on any object store and any record log storage, including a real one: the store may have other objects,
//! and objects of the suite may remain.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use engine::os::clock::SystemRandom;
use recalld_replication::{
    Beat, Chain, DataKey, Edge, Hash, Kept, Key, NodeId, Nonce, Objects, Tenant, Tried,
};

const RACERS: u8 = 8;
const HOUR: Duration = Duration::from_secs(3600);

fn tenant() -> Tenant {
    Tenant::new(format!("suite-{}", Nonce::drawn(&SystemRandom))).unwrap()
}

fn data(tenant: &Tenant, epoch: u64, part: u32) -> Key {
    Key::Data(tenant.clone(), DataKey { epoch, nonce: Nonce::NONE }, part)
}

/// Checks all requirements on an object store.
pub(crate) fn objects(objects: &Arc<dyn Objects>) {
    reads_what_was_put(objects);
    creates_once(objects);
    lists_in_order(objects);
    removes(objects);
}

fn reads_what_was_put(objects: &Arc<dyn Objects>) {
    let tenant = tenant();
    let key = data(&tenant, 1, 0);
    let get = |range| objects.get(&key, range, 1 << 20).unwrap();
    assert_eq!(get(None), None);
    assert_eq!(get(Some(0..5)), None);
    assert_eq!(objects.head(&key).unwrap(), None);
    objects.put(&key, b"0123456789").unwrap();
    assert_eq!(get(None).unwrap(), b"0123456789");
    assert_eq!(get(Some(2..5)).unwrap(), b"234");
    assert_eq!(get(Some(0..1)).unwrap(), b"0");
    assert_eq!(get(Some(8..99)).unwrap(), b"89");
    assert_eq!(get(Some(99..100)).unwrap(), b"");
    assert_eq!(get(Some(3..3)).unwrap(), b"");
    let about = objects.head(&key).unwrap().unwrap();
    assert_eq!((&about.key, about.bytes), (&key, 10));
    assert!(about.age_s < 600, "{about:?}");
    let away = objects.get(&key, None, 9).unwrap_err();
    assert!(!away.may_pass, "{away:?}");
    objects.put(&key, b"").unwrap();
    assert_eq!(get(None).unwrap(), b"");
    assert_eq!(get(Some(0..9)).unwrap(), b"");
    let long: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    objects.put(&key, &long).unwrap();
    assert!(objects.get(&key, None, 2 << 20).unwrap().unwrap() == long);
    assert!(get(Some(500_000..900_000)).unwrap() == long[500_000..900_000]);
    objects.remove(&[key]).unwrap();
}

fn creates_once(objects: &Arc<dyn Objects>) {
    let tenant = tenant();
    let key = Key::Chain(tenant.clone(), 1);
    assert_eq!(objects.put_new(&key, b"first"), Tried::Made);
    assert!(matches!(objects.put_new(&key, b"second"), Tried::Unsure(_)));
    assert!(matches!(objects.put_new(&key, b"first"), Tried::Unsure(_)));
    assert_eq!(objects.get(&key, None, 99).unwrap().unwrap(), b"first");
    objects.remove(std::slice::from_ref(&key)).unwrap();
    assert_eq!(objects.put_new(&key, b"third"), Tried::Made);
    let race = Key::Chain(tenant, 2);
    let barrier = Barrier::new(usize::from(RACERS));
    let made: Vec<u8> = thread::scope(|scope| {
        let one = |racer: u8| {
            let (race, barrier) = (&race, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let tried = objects.put_new(race, &[racer]);
                assert!(!matches!(tried, Tried::Refused(_)), "{tried:?}");
                (tried == Tried::Made).then_some(racer)
            })
        };
        let racers: Vec<_> = (0..RACERS).map(one).collect();
        racers.into_iter().filter_map(|racer| racer.join().unwrap()).collect()
    });
    let there = objects.get(&race, None, 9).unwrap().unwrap();
    assert!(made == there || made.is_empty(), "{made:?} won, {there:?} is there");
    objects.remove(&[key, race]).unwrap();
}

fn lists_in_order(objects: &Arc<dyn Objects>) {
    let tenant = tenant();
    let mut keys: Vec<Key> = (0..7).map(|part| data(&tenant, 1, part)).collect();
    keys.extend([Key::Chain(tenant.clone(), 3), Key::Chain(tenant.clone(), 12)]);
    keys.push(Key::Edge(tenant.clone(), 2, 0));
    for key in &keys {
        objects.put(key, key.to_string().as_bytes()).unwrap();
    }
    keys.sort_by_key(Key::to_string);
    let list = |prefix: &str, after: Option<&Key>, most| {
        let listed = objects.list(prefix, after, most).unwrap();
        for about in &listed {
            assert_eq!(about.bytes, about.key.to_string().len() as u64);
            assert!(about.age_s < 600, "{about:?}");
        }
        listed.into_iter().map(|about| about.key).collect::<Vec<Key>>()
    };
    let all = format!("t/{tenant}/");
    assert_eq!(list(&all, None, 100), keys);
    assert_eq!(list(&all, None, 4), keys[..4]);
    assert_eq!(list(&all, None, 0), []);
    assert_eq!(list(&all, Some(&keys[3]), 100), keys[4..]);
    assert_eq!(list(&all, Some(&keys[9]), 100), []);
    assert_eq!(list(&format!("t/{tenant}/chain/"), None, 100), keys[..2]);
    let beyond = Key::Chain(tenant.clone(), 5);
    assert_eq!(list(&format!("t/{tenant}/chain/"), Some(&beyond), 100), keys[1..2]);
    assert_eq!(list(&format!("t/{tenant}/pin/"), None, 100), []);
    objects.remove(&keys).unwrap();
    assert_eq!(list(&all, None, 100), []);
}

fn removes(objects: &Arc<dyn Objects>) {
    let tenant = tenant();
    let keys: Vec<Key> = (0..5).map(|part| data(&tenant, 2, part)).collect();
    objects.put(&keys[1], b"x").unwrap();
    objects.put(&keys[3], b"x").unwrap();
    objects.remove(&[]).unwrap();
    objects.remove(&keys[..1]).unwrap();
    objects.remove(&keys).unwrap();
    assert!(keys.iter().all(|key| objects.head(key).unwrap().is_none()));
}

/// Checks all requirements on a record log storage. `other` is the same storage, as seen by another process.
pub(crate) fn chain(chain: &dyn Chain, other: &dyn Chain) {
    let tenant = tenant();
    let beat = beats(chain, other);
    creates_records_once(chain, other, &tenant);
    raises_the_edge(chain, other, &tenant);
    removes_records(chain, &tenant);
    chain.beat(&Beat { count: beat.count + 1, ..beat }).unwrap();
}

fn beats(chain: &dyn Chain, other: &dyn Chain) -> Beat {
    let node = NodeId::new(format!("n{}", Nonce::drawn(&SystemRandom))).unwrap();
    let run = Nonce::drawn(&SystemRandom);
    let mut beat = Beat { node, run, count: 1, url: "http://here".into(), lease_s: 5 };
    let theirs = Beat {
        node: NodeId::new(format!("m{}", Nonce::drawn(&SystemRandom))).unwrap(),
        ..beat.clone()
    };
    let seen = || {
        let all = other.beats().unwrap();
        all.into_iter().find(|seen| seen.node == beat.node)
    };
    assert_eq!(seen(), None);
    other.beat(&theirs).unwrap();
    chain.beat(&beat).unwrap();
    assert_eq!(seen().unwrap(), beat);
    beat.count = 2;
    chain.beat(&beat).unwrap();
    let all = other.beats().unwrap();
    assert!(all.contains(&beat) && all.contains(&theirs));
    beat
}

fn creates_records_once(chain: &dyn Chain, other: &dyn Chain, tenant: &Tenant) {
    assert_eq!(chain.read(tenant, 1).unwrap(), None);
    assert!(chain.numbers(tenant, 0, 10).unwrap().is_empty());
    assert_eq!(chain.edge(tenant).unwrap(), Edge::default());
    // Records below and above the inline limit of a coordinator.
    let records: Vec<Vec<u8>> =
        [10, 100_000, 30, 1_000_000, 50].iter().map(|&length| vec![b'{'; length]).collect();
    for (number, record) in (1..).zip(&records) {
        assert_eq!(chain.create(tenant, number, record), Tried::Made);
        let again = other.create(tenant, number, b"{other");
        assert!(matches!(again, Tried::Unsure(_)), "{again:?}");
        let again = chain.create(tenant, number, record);
        assert!(matches!(again, Tried::Unsure(_)), "{again:?}");
        assert!(other.read(tenant, number).unwrap().unwrap() == *record);
    }
    // A reported age is that of a new record; an absent record has none.
    assert!(other.age(tenant, 1).unwrap().is_none_or(|age| age < HOUR));
    assert!(matches!(other.age(tenant, 9), Err(_) | Ok(None)));
    assert_eq!(other.numbers(tenant, 0, 10).unwrap(), [1, 2, 3, 4, 5]);
    assert_eq!(other.numbers(tenant, 2, 2).unwrap(), [3, 4]);
    assert!(other.numbers(tenant, 5, 2).unwrap().is_empty());
    let barrier = Barrier::new(usize::from(RACERS));
    let made: usize = thread::scope(|scope| {
        let one = |racer: u8| {
            let barrier = &barrier;
            scope.spawn(move || {
                let who = if racer.is_multiple_of(2) { chain } else { other };
                barrier.wait();
                who.create(tenant, 6, &[b'{', racer]) == Tried::Made
            })
        };
        let racers: Vec<_> = (0..RACERS).map(one).collect();
        racers.into_iter().map(|racer| usize::from(racer.join().unwrap())).sum()
    });
    assert!(made <= 1 && chain.read(tenant, 6).unwrap().is_some(), "{made} made record 6");
}

fn raises_the_edge(chain: &dyn Chain, other: &dyn Chain, tenant: &Tenant) {
    let kept = vec![Kept { number: 2, sha256: Hash::of(b"2"), at: 7 }];
    let edge = Edge { boundary: 3, epoch: 1, kept, ..Edge::default() };
    assert_eq!(chain.raise_edge(tenant, &edge), Tried::Made);
    assert_eq!(other.edge(tenant).unwrap(), edge);
    assert!(matches!(other.raise_edge(tenant, &edge), Tried::Unsure(_)));
    // Each turn reduces the retained records at the same boundary once.
    let less = Edge { turn: 1, kept: Vec::new(), ..edge.clone() };
    assert_eq!(other.raise_edge(tenant, &less), Tried::Made);
    assert!(matches!(chain.raise_edge(tenant, &less), Tried::Unsure(_)));
    assert_eq!(chain.edge(tenant).unwrap(), less);
    let higher = Edge { boundary: 4, epoch: 2, ..edge.clone() };
    assert_eq!(other.raise_edge(tenant, &higher), Tried::Made);
    assert_eq!(chain.edge(tenant).unwrap(), higher);
    let late = Edge { turn: 2, ..edge };
    let tried = other.raise_edge(tenant, &late);
    assert_eq!(matches!(tried, Tried::Unsure(_)), chain.guards_edge(), "{tried:?}");
    assert_eq!(chain.edge(tenant).unwrap(), higher, "a lower one does not count");
}

fn removes_records(chain: &dyn Chain, tenant: &Tenant) {
    chain.remove(tenant, &[1, 3, 4]).unwrap();
    chain.remove(tenant, &[1, 3]).unwrap();
    assert_eq!(chain.numbers(tenant, 0, 10).unwrap(), [2, 5, 6]);
    assert_eq!(chain.read(tenant, 4).unwrap(), None);
    assert_eq!(chain.read(tenant, 2).unwrap().unwrap().len(), 100_000);
    let late = chain.create(tenant, 3, b"{late");
    if chain.guards_edge() {
        assert!(matches!(late, Tried::Unsure(_)), "{late:?}");
        assert_eq!(chain.read(tenant, 3).unwrap(), None);
    } else {
        assert_eq!(late, Tried::Made);
    }
    let all = Edge { boundary: 6, epoch: 3, ..Edge::default() };
    assert_eq!(chain.raise_edge(tenant, &all), Tried::Made);
    chain.remove(tenant, &[2, 3, 5, 6]).unwrap();
    assert!(chain.numbers(tenant, 0, 10).unwrap().is_empty());
}
