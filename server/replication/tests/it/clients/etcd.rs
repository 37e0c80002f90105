//! The etcd client, against a scripted etcd.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use recalld_replication::core::{
    Claim, Collector, Committed, Retention, Stamp, Took, Verdict, Writer,
};
use recalld_replication::{
    Beat, Chain, Coordinator, Counts, Driver, Edge, Etcd, Full, Hex, Key, Kind, NodeId, Nonce,
    Objects, Op, Tenant, TickSource, Ticks, Tried, probe,
};

use super::fake::{Fake, Flaw};
use super::suite;
use super::tiny_etcd::Etcds;
use super::wire::Fate;

struct Client {
    etcd: Etcd,
    objects: Arc<dyn Objects>,
    counts: Arc<Counts>,
}

fn client(hosts: &str, user: Option<&str>) -> Client {
    let objects = Fake::open(Flaw::None);
    let etcd = open(hosts, user, &objects);
    Client { etcd: etcd.0, objects, counts: etcd.1 }
}

pub(crate) fn open(
    hosts: &str,
    user: Option<&str>,
    objects: &Arc<dyn Objects>,
) -> (Etcd, Arc<Counts>) {
    let at = Coordinator::parse(&format!("etcd://{hosts}/box")).unwrap();
    let environment = |name: &str| user.filter(|_| name == "ETCDCTL_USER").map(str::to_owned);
    let counts = Arc::<Counts>::default();
    let etcd = Etcd::open(&at, None, &environment, Arc::clone(objects), Arc::clone(&counts));
    let etcd = etcd.unwrap();
    assert!(!format!("{etcd:?}").contains("tiny-password"));
    (etcd, counts)
}

fn tenant() -> Tenant {
    Tenant::new("local").unwrap()
}

fn beat(run: u8) -> Beat {
    let run = Nonce::parse(&format!("{run:032x}")).unwrap();
    Beat { node: NodeId::new("one").unwrap(), run, count: 1, url: String::new(), lease_s: 5 }
}

fn bodies(objects: &Arc<dyn Objects>) -> usize {
    let listed = objects.list("t/", None, 100).unwrap();
    listed.iter().filter(|about| matches!(about.key, Key::Body(..))).count()
}

#[test]
fn an_etcd_passes_the_suite() {
    let etcd = Etcds::start();
    let objects = Fake::open(Flaw::None);
    let (one, two) = (open(&etcd.host, None, &objects), open(&etcd.host, None, &objects));
    suite::chain(&one.0, &two.0);
    let small: Arc<dyn Objects> = Arc::new(one.0.as_objects());
    suite::objects(&small);
    assert_eq!(probe(&small, true), Verdict::Honest);
}

#[test]
fn one_creation_is_one_transaction_however_it_ends() {
    let etcd = Etcds::start();
    let client = client(&etcd.host, None);
    client.etcd.beat(&beat(1)).unwrap();
    let create = |number| client.etcd.create(&tenant(), number, b"{");
    assert_eq!(create(1), Tried::Made);
    etcd.seen();
    let refused = [(400, "3"), (403, "7"), (404, "5"), (501, "12"), (401, "16")];
    for (status, code) in refused {
        etcd.will("POST", &[Fate::Says(status, code)]);
        let tried = create(2);
        assert!(matches!(tried, Tried::Refused(_)), "{status}: {tried:?}");
    }
    for (status, code) in [(503, "14"), (500, "13"), (429, "8"), (504, "4")] {
        etcd.will("POST", &[Fate::Says(status, code)]);
        let tried = create(2);
        assert!(matches!(tried, Tried::Unsure(_)), "{status}: {tried:?}");
    }
    for fate in [Fate::Resets, Fate::Cut] {
        etcd.will("POST", &[fate]);
        assert!(matches!(create(3), Tried::Unsure(_)));
    }
    assert_eq!(etcd.paths(), ["kv/txn"; 11]);
    etcd.will("POST", &[Fate::DoneAndResets]);
    assert!(matches!(create(4), Tried::Unsure(_)));
    assert_eq!(client.etcd.read(&tenant(), 4).unwrap().unwrap(), b"{");
    assert_eq!(client.counts.of(Op::Create), 14);
    // If the first member may have executed the request, no other member is asked.
    let (two, counts) = open(&format!("{0},{0}", etcd.host), None, &client.objects);
    two.beat(&beat(2)).unwrap();
    etcd.will("POST", &[Fate::Resets]);
    assert!(matches!(two.create(&tenant(), 5, b"{"), Tried::Unsure(_)));
    assert_eq!(counts.of(Op::Create), 1);
}

#[test]
fn nothing_is_committed_without_a_lease() {
    let etcd = Etcds::start();
    let client = client(&etcd.host, None);
    let create = |number| client.etcd.create(&tenant(), number, b"{");
    assert!(matches!(create(1), Tried::Refused(_)));
    client.etcd.beat(&beat(1)).unwrap();
    assert_eq!(create(1), Tried::Made);
    etcd.end_leases();
    let Tried::Refused(why) = create(2) else { panic!("its lease was over") };
    assert!(why.contains("lease"), "{why}");
    // The next heartbeat acquires a new lease.
    client.etcd.beat(&beat(1)).unwrap();
    assert_eq!(create(2), Tried::Made);
    let (other, _) = open(&etcd.host, None, &client.objects);
    other.beat(&beat(2)).unwrap();
    assert!(matches!(create(3), Tried::Refused(_)));
    assert!(client.etcd.beat(&beat(1)).unwrap_err().why.contains("another process beats as one"));
    assert_eq!(other.create(&tenant(), 3, b"{"), Tried::Made);
    let elsewhere = Beat { node: NodeId::new("two").unwrap(), ..beat(1) };
    assert!(!other.beat(&elsewhere).unwrap_err().may_pass);
}

#[test]
fn nothing_is_committed_at_or_below_the_edge() {
    let etcd = Etcds::start();
    let client = client(&etcd.host, None);
    client.etcd.beat(&beat(1)).unwrap();
    let long = vec![b'{'; 100_000];
    for number in 1..=3 {
        assert_eq!(client.etcd.create(&tenant(), number, &long), Tried::Made);
    }
    let edge = Edge { boundary: 2, epoch: 1, ..Edge::default() };
    assert_eq!(client.etcd.raise_edge(&tenant(), &edge), Tried::Made);
    client.etcd.remove(&tenant(), &[1, 2]).unwrap();
    for number in [1, 2] {
        assert!(matches!(client.etcd.create(&tenant(), number, &long), Tried::Unsure(_)));
        assert_eq!(client.etcd.read(&tenant(), number).unwrap(), None);
    }
    let less = Edge { turn: 7, ..edge };
    assert_eq!(client.etcd.raise_edge(&tenant(), &less), Tried::Made);
    assert!(matches!(client.etcd.create(&tenant(), 2, &long), Tried::Unsure(_)));
    assert!(client.etcd.read(&tenant(), 3).unwrap().unwrap() == long);
    assert_eq!(client.etcd.create(&tenant(), 4, &long), Tried::Made);
}

/// Clock that only a test advances.
#[derive(Debug, Default)]
struct Told(AtomicU64);

impl TickSource for Told {
    fn now(&self) -> Ticks {
        Ticks(self.0.load(Ordering::SeqCst))
    }
}

#[test]
fn what_long_records_were_goes_with_them_and_what_never_became_one_too() {
    let etcd = Etcds::start();
    let client = client(&etcd.host, None);
    client.etcd.beat(&beat(1)).unwrap();
    let objects = Arc::clone(&client.objects);
    let ticks = Arc::new(Told::default());
    let (chain, halt) = (Arc::new(client.etcd), Arc::default());
    let driver =
        Driver { chain, objects: Arc::clone(&objects), ticks: Arc::clone(&ticks) as _, halt };
    let (node, run, url) = (beat(1).node, beat(1).run, String::new());
    let claim = Claim::new(Writer { node, run, url }, Duration::from_secs(5));
    let stamp = |byte| Stamp { at: 5, nonce: Hex([byte; 16]) };
    let took =
        driver.run(&tenant(), async |port| claim.take(&port, None, Hex([9; 16]), stamp(1)).await);
    let Some(Took::Held(mut holder)) = took else { panic!("{took:?}") };
    let never = Retention { full: Duration::ZERO, fine: Duration::ZERO };
    let mut collector = Collector::new(holder.epoch(), never);
    for byte in 2..5 {
        let (files, logs) = (Vec::new(), Vec::new());
        let full = Full { manifest: vec![byte; 30_000], files, logs, erased: 0 };
        let committed = driver.run(&tenant(), async |port| {
            holder.commit(&port, Kind::Full(full), byte.into(), stamp(byte)).await
        });
        let Some(Committed::Done(noted)) = committed else { panic!("{committed:?}") };
        collector.note(noted, ticks.now());
    }
    // Stray objects of numbers 3 and 4, which have records, and of number 9, whose record may still be in progress.
    let lost = |number| Key::Body(tenant(), number, Hex([7; 16]));
    for number in [3, 4, 9] {
        objects.put(&lost(number), b"{}").unwrap();
    }
    assert_eq!(bodies(&objects), 6);
    let mut collect = || {
        let live = |_: &recalld_replication::DataKey| false;
        driver
            .run(&tenant(), async |port| collector.collect(&port, 6, &live).await)
            .unwrap()
            .unwrap()
    };
    let first = collect();
    assert_eq!((first.waiting, first.objects), (3, 2), "records are not known for long enough");
    ticks.0.fetch_add(301_000_000_000, Ordering::SeqCst);
    let second = collect();
    assert_eq!((second.records, second.objects), (3, 2));
    assert_eq!(bodies(&objects), 2);
    assert!(objects.head(&lost(9)).unwrap().is_some());
    let newest = driver.chain.read(&tenant(), 4).unwrap().unwrap();
    assert!(newest.len() > 30_000);
}

#[test]
fn a_long_record_must_be_what_etcd_says() {
    let etcd = Etcds::start();
    let client = client(&etcd.host, None);
    client.etcd.beat(&beat(1)).unwrap();
    let long = vec![b'{'; 100_000];
    assert_eq!(client.etcd.create(&tenant(), 1, &long), Tried::Made);
    let key = client.objects.list("t/", None, 9).unwrap().remove(0).key;
    client.objects.put(&key, b"{other").unwrap();
    assert!(!client.etcd.read(&tenant(), 1).unwrap_err().may_pass);
    client.objects.remove(&[key]).unwrap();
    let away = client.etcd.read(&tenant(), 1).unwrap_err();
    assert!(away.may_pass && away.why.contains("is not there"), "{away:?}");
}

#[test]
fn another_member_is_asked_where_one_is_not_there() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = free.local_addr().unwrap().to_string();
    drop(free);
    let etcd = Etcds::start();
    let both = client(&format!("{gone},{}", etcd.host), None);
    both.etcd.beat(&beat(1)).unwrap();
    assert_eq!(both.etcd.create(&tenant(), 1, b"{"), Tried::Made);
    let nobody = client(&gone, None);
    let away = nobody.etcd.read(&tenant(), 1).unwrap_err();
    assert!(away.may_pass && away.why.contains(&gone), "{away:?}");
    assert_eq!(nobody.counts.of(Op::Get), 4);
}

#[test]
fn a_user_signs_in_and_does_so_again() {
    let etcd = Etcds::start();
    etcd.wants("first");
    let right = client(&etcd.host, Some("box:tiny-password"));
    right.etcd.beat(&beat(1)).unwrap();
    assert_eq!(right.etcd.create(&tenant(), 1, b"{"), Tried::Made);
    etcd.wants("second");
    etcd.seen();
    assert_eq!(right.etcd.create(&tenant(), 2, b"{"), Tried::Made);
    assert_eq!(etcd.paths(), ["kv/txn", "auth/authenticate", "kv/txn"]);
    let wrong = client(&etcd.host, Some("box:other-password"));
    let away = wrong.etcd.read(&tenant(), 1).unwrap_err();
    assert!(!away.may_pass && away.why.contains("was not let in"), "{away:?}");
    assert!(!away.why.contains("other-password"), "{away:?}");
    let none = client(&etcd.host, None);
    let away = none.etcd.read(&tenant(), 1).unwrap_err();
    assert!(!away.may_pass && away.why.contains("set ETCDCTL_USER"), "{away:?}");
}
