//! Purge of a deleted workspace from a storage, whichever node had the workspace, and wherever a purge is cut short.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::carry;
use super::memory::Memory;
use crate::machine::{Machine, batch, texts};
use crate::machine::{PATIENCE, until};
use engine::os::clock::{Clock, SystemClock, SystemRandom};
use engine::os::disk::{Disk, FsDisk};
use engine::replication_sink::ManifestView;
use recalld_replication::core::{Committed, Found, Retention, Stamp, find};
use recalld_replication::{
    Bytes, Deleted, Edge, Emptied, Emptying, Full, Head, Kind, LogPiece, Look, NotNow, NotRestored,
    Role, Seated, Sweeper, Tenant, restore, verify,
};

pub(crate) const MARKER: &str = "the combination of the safe on the third floor";
pub(crate) const MINUTES: Duration = Duration::from_secs(301);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
/// Maximum requests of a step that finds nothing to do: the watermark twice, numbers, two records, and the watermark
/// once more.
const LOOK_REQUESTS_MAX: u64 = 40;

pub(crate) fn tenant() -> Tenant {
    Tenant::new("local").unwrap()
}

pub(crate) fn sweeper(machine: &Machine) -> Sweeper {
    Sweeper {
        driver: machine.seat.driver.clone(),
        node: Arc::clone(machine.seat.node.as_ref().unwrap()),
        retention: Retention { full: WEEK, fine: WEEK },
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
    }
}

pub(crate) fn begin(sweeper: &Sweeper) -> Emptying {
    Emptying::new(&sweeper.node)
}

/// Deletion of the workspace, `ago` before now.
fn deleted(ago: Duration) -> Deleted {
    let at = SystemClock.now().0 - i64::try_from(ago.as_micros()).unwrap();
    Deleted { tenant: tenant(), at, looks_again: false, kept: Duration::ZERO }
}

pub(crate) fn step(sweeper: &Sweeper, known: &mut Emptying) -> Emptied {
    sweeper.empty(&deleted(Duration::ZERO), known, &|_| Ok(())).unwrap()
}

pub(crate) fn found(machine: &Machine) -> Found {
    let found = machine.seat.driver.run(&tenant(), async |port| find(&port, None).await);
    found.unwrap().unwrap().unwrap()
}

/// Closes a store and releases its workspace.
pub(crate) fn give(Seated { store, role }: Seated) {
    let Role::Leads(carrier) = role else { panic!("it was first") };
    drop(store);
    assert!(carrier.give(None, PATIENCE));
}

/// An open workspace with the marker in an object and in a record.
pub(crate) fn written(machine: &mut Machine, memory: &Memory) -> Seated {
    let led = machine.open().unwrap();
    led.store.write(batch(MARKER)).unwrap();
    led.store.seal().unwrap();
    let Role::Leads(carrier) = &led.role else { panic!("nobody else is there") };
    assert!(carrier.settle(PATIENCE));
    led.store.write(batch(&format!("once more {MARKER}"))).unwrap();
    assert!(!memory.names("t/local/data/").is_empty() && memory.holds(MARKER));
    led
}

/// A node that may write, with its own directory.
pub(crate) fn machine(name: &str, memory: &Arc<Memory>, root: &Path) -> Machine {
    Machine::new(name, memory, &root.join(name), false)
}

#[test]
fn nothing_that_was_written_is_left_and_who_follows_shows_nothing() {
    let root = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let mut one = machine("box-1", &memory, root.path());
    let led = written(&mut one, &memory);
    let ledger = format!("t/local/ledger/box-1/{}-{:020}-{:020}-{:020}", "1".repeat(32), 1, 0, 5);
    memory.insert(&ledger, b"entry".to_vec());
    let mut replica = Machine::new("box-3", &memory, &root.path().join("three"), true);
    let Seated { store: followed, role } = replica.open().unwrap();
    let Role::Follows(following) = role else { panic!("it only reads") };
    until("it follows", || texts(&followed).len() == 2);

    let two = machine("box-2", &memory, root.path());
    let (sweeper, before) = (sweeper(&two), found(&two).newest.head.number);
    let mut known = begin(&sweeper);
    let held = step(&sweeper, &mut known);
    assert!(matches!(&held, Emptied::Held(head) if head.node.as_str() == "box-1"), "{held:?}");
    assert_eq!(found(&two).newest.head.number, before, "it lives");
    give(led);

    let first = step(&sweeper, &mut known);
    assert!(matches!(&first, Emptied::Waiting(done) if done.objects > 0), "{first:?}");
    assert!(memory.names("t/local/data/").is_empty(), "objects go at once");
    assert!(memory.holds(MARKER), "records are not known for long enough");
    let last = found(&two);
    assert!(last.newest.given.is_some() && last.emptied_by().is_some());
    let asked = memory.requests.load(Ordering::SeqCst);
    assert!(matches!(step(&sweeper, &mut known), Emptied::Waiting(_)));
    // The step collects garbage, which adds a list each of records, objects, pins and watermarks.
    assert!(memory.requests.load(Ordering::SeqCst) - asked <= 2 * LOOK_REQUESTS_MAX);
    // Advance all clocks: no clock may run ten times as fast as another (REM-31).
    for machine in [&one, &two, &replica] {
        machine.pass(MINUTES);
    }
    let second = step(&sweeper, &mut known);
    assert!(matches!(&second, Emptied::Done(done) if done.records > 0), "{second:?}");
    assert!(!memory.holds(MARKER), "{:?}", memory.names(""));
    assert_eq!(memory.names("t/local/chain/").len(), 2);
    assert_eq!(memory.names("t/local/ledger/"), [ledger], "as it stays on the node");

    // A further purge changes nothing and sends few requests.
    let (there, asked) = (memory.names(""), memory.requests.load(Ordering::SeqCst));
    assert!(matches!(step(&sweeper, &mut begin(&sweeper)), Emptied::Done(_)));
    let asked = memory.requests.load(Ordering::SeqCst) - asked;
    assert!(asked <= LOOK_REQUESTS_MAX, "{asked}");
    assert_eq!(
        memory.names("t/"),
        there.into_iter().filter(|name| name.starts_with("t/")).collect::<Vec<_>>()
    );
    let checked = verify(&two.seat.driver, &tenant(), Look::Bytes).unwrap();
    assert!(checked.findings.is_empty() && checked.objects == 0, "{checked:?}");

    let node = two.seat.node.as_ref().unwrap().writer().node.clone();
    let disk: Arc<dyn Disk> = Arc::new(FsDisk::open(&root.path().join("restored")).unwrap());
    let into = (&disk, &SystemRandom as _);
    let restored = restore(&two.seat.driver, &tenant(), &node, None, into);
    assert!(matches!(restored, Err(NotRestored::Emptied)), "{restored:?}");
    following.touch();
    until("what is followed is gone", || texts(&followed).is_empty());
    until("it follows on", || following.age().at.number == last.newest.head.number);
    until("it is fresh", || following.age().stale.is_some_and(|stale| stale < PATIENCE));
    // A purged store is a valid empty one: it can be written and followed.
    until("it is heard again", || one.seat.node.as_ref().unwrap().is_held());
    let led = one.open().unwrap();
    assert!(matches!(led.role, Role::Leads(_)) && texts(&led.store).is_empty());
    led.store.write(batch("after")).unwrap();
    following.touch();
    until("what came after", || texts(&followed) == ["after"]);
    assert!(found(&two).emptied_by().is_none());
    drop((followed, following));
    assert_eq!(texts(&replica.open().unwrap().store), ["after"]);
}

/// Resets `gone` in the newest low watermark.
fn forget_gone(memory: &Memory) {
    let edge = memory.names("t/local/edge/").pop().unwrap();
    memory.tamper(&edge, |bytes| {
        let edge = Edge::decode(bytes).unwrap();
        *bytes = Edge { gone: 0, ..edge }.encode();
    });
}

#[test]
fn whoever_ends_in_the_middle_is_followed_by_another() {
    let root = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let mut one = machine("box-1", &memory, root.path());
    give(written(&mut one, &memory));
    // A process acquired the workspace and crashed before any further record.
    carry::Node::new("box-9", &memory).take();
    let two = machine("box-2", &memory, root.path());
    let sweeping = sweeper(&two);
    assert!(matches!(step(&sweeping, &mut begin(&sweeping)), Emptied::Waiting(_)));
    let given = found(&two).newest.head.number;
    drop((sweeping, two));

    // Progress is read from the record log: the next node acquires nothing, and relies on its own clock only.
    let three = machine("box-3", &memory, root.path());
    let (sweeping, passes) = (sweeper(&three), || three.pass(MINUTES));
    let mut known = begin(&sweeping);
    assert!(matches!(step(&sweeping, &mut known), Emptied::Waiting(_)));
    passes();
    // A step with an unreachable storage fails, and the next step continues.
    memory.answers(false);
    let away = sweeping.empty(&deleted(Duration::ZERO), &mut known, &|_| Ok(())).unwrap_err();
    assert!(matches!(away, NotRestored::Away(_)), "{away}");
    memory.answers(true);
    assert!(matches!(step(&sweeping, &mut known), Emptied::Done(_)));
    assert_eq!(found(&three).newest.head.number, given);
    assert!(!memory.holds(MARKER));

    // A later epoch was started, of three kinds: released, with possible uploads that no record names; with a purge
    // record and not released; with a step record. Each time the workspace is acquired and purged anew.
    let Kind::Full(full) = &found(&three).records[0].kind else { panic!("it is emptied") };
    let piece = |bytes: &[u8]| LogPiece {
        number: 99,
        first_seq: 1,
        from: 0,
        to: bytes.len() as u64,
        bytes: Bytes::Here(bytes.to_vec()),
    };
    let kinds: [&dyn Fn(u64) -> Kind; 3] = [
        &|_| Kind::Give { to: None },
        &|erased| Kind::Full(Full { erased, ..full.clone() }),
        &|_| Kind::Step(vec![piece(MARKER.as_bytes())]),
    ];
    for kind in kinds {
        forget_gone(&memory);
        let node = carry::Node::new("box-9", &memory);
        let (mut holder, _) = node.take();
        let Head { number, seq, epoch, .. } = holder.newest().head.clone();
        let stamp = Stamp { at: 6, nonce: carry::nonce(3) };
        let kind = kind(number);
        let committed =
            node.driver.run(&tenant(), async |port| holder.commit(&port, kind, seq, stamp).await);
        assert!(matches!(committed, Some(Committed::Done(_))), "{committed:?}");
        let mut known = begin(&sweeping);
        until("it is heard again", || sweeping.node.is_held());
        assert!(matches!(step(&sweeping, &mut known), Emptied::Waiting(_)));
        assert!(found(&three).newest.head.epoch > epoch, "it was taken");
        passes();
        assert!(matches!(step(&sweeping, &mut known), Emptied::Done(_)));
        assert!(!memory.holds(MARKER));
    }
    let Kind::Full(full) = &found(&three).records[0].kind else { panic!("it is emptied") };
    let listing = ManifestView::parse(&full.manifest).unwrap();
    assert_eq!(listing.log_floor(), 100, "above a log that no manifest named");
}

#[test]
fn a_store_in_which_nothing_was_ever_written_is_emptied_as_any() {
    let root = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let mut one = machine("box-1", &memory, root.path());
    give(one.open().unwrap());
    let two = machine("box-2", &memory, root.path());
    assert!(found(&two).newest.head.base > 0 && found(&two).emptied_by().is_none());
    let sweeping = sweeper(&two);
    let mut known = begin(&sweeping);
    assert!(matches!(step(&sweeping, &mut known), Emptied::Waiting(_)));
    two.pass(MINUTES);
    assert!(matches!(step(&sweeping, &mut known), Emptied::Done(_)));
}

#[test]
fn what_somebody_may_need_is_not_touched() {
    let root = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let two = machine("box-2", &memory, root.path());
    let sweeping = sweeper(&two);
    let nothing = step(&sweeping, &mut begin(&sweeping));
    assert!(matches!(nothing, Emptied::Done(_)), "there never was anything");
    assert!(memory.names("t/").is_empty());
    let mut one = machine("box-1", &memory, root.path());
    give(written(&mut one, &memory));
    let before = memory.names("t/");
    let spare = |_| Err(NotNow::Stays("node box-1 has it".to_owned()));
    let now = deleted(Duration::ZERO);
    let spared = sweeping.empty(&now, &mut begin(&sweeping), &spare).unwrap();
    assert!(matches!(&spared, Emptied::Spared(why) if why.contains("box-1")), "{spared:?}");
    assert_eq!(memory.names("t/"), before);
}

#[test]
fn what_was_sent_before_the_first_full_record_goes_too() {
    let root = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    carry::Node::new("box-9", &memory).take();
    let part = format!("t/local/data/{:020}-{}.00000", 1, "3".repeat(32));
    memory.insert(&part, MARKER.into());
    let two = machine("box-2", &memory, root.path());
    let sweeping = sweeper(&two);
    let mut known = begin(&sweeping);
    assert!(matches!(step(&sweeping, &mut known), Emptied::Waiting(_)));
    assert!(!memory.holds(MARKER), "{:?}", memory.names("t/"));
    two.pass(MINUTES);
    assert!(matches!(step(&sweeping, &mut known), Emptied::Done(_)));
    let mut one = machine("box-1", &memory, root.path());
    let led = one.open().unwrap();
    led.store.write(batch("it is a store")).unwrap();
    assert_eq!(texts(&led.store), ["it is a store"]);
}
