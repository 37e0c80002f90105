//! Purge safety: a workspace that was deleted on one node and may be alive on another is not purged. Objects that
//! arrive late are.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use super::carry::{self, Dated};
use super::emptying::{
    MARKER, MINUTES, begin, found, give, machine, step, sweeper, tenant, written,
};
use super::memory::Memory;
use crate::machine::{LEASE_S, Machine, batch};
use crate::machine::{PATIENCE, until};
use engine::os::clock::SystemRandom;
use engine::os::disk::{Disk, FsDisk};
use recalld_replication::core::{Claim, Committed, Retention, Stamp, Took, Writer};
use recalld_replication::limits::DELETED_SLACK;
use recalld_replication::{
    Bytes, Chain, Deleted, Driver, Emptied, GivenUp, Halt, Hex, Key, Kind, LogPiece, Moment, Node,
    NodeId, NotNow, NotRestored, ObjectChain, Role, Seated, Sweeper, Swept, restore,
};

const HOUR: i64 = 3_600_000_000;
const DAY: Duration = Duration::from_secs(24 * 3600);
const GIVE: Kind = Kind::Give { to: None };
/// Time of the deletion of the workspaces in these tests.
const DELETED: i64 = 100 * HOUR;

fn gone() -> Deleted {
    Deleted { tenant: tenant(), at: DELETED, looks_again: false, kept: Duration::ZERO }
}

/// Latest time at which a record is no sign of life.
fn last() -> i64 {
    DELETED + i64::try_from(DELETED_SLACK.as_micros()).unwrap()
}

/// A small piece of a log.
fn piece() -> LogPiece {
    let bytes = Bytes::Here(b"more".to_vec());
    LogPiece { number: 99, first_seq: 1, from: 0, to: 4, bytes }
}

/// The node under test, and a storage with a workspace that `box-1` wrote and released before the deletion.
struct Scene {
    root: tempfile::TempDir,
    memory: Arc<Memory>,
    two: Machine,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let memory = Arc::new(Memory::default());
        let mut one = machine("box-1", &memory, root.path());
        one.seat.clock = Arc::new(Dated((DELETED - 9 * HOUR).into()));
        give(written(&mut one, &memory));
        let two = machine("box-2", &memory, root.path());
        Self { root, memory, two }
    }

    fn sweeper(&self) -> Sweeper {
        sweeper(&self.two)
    }

    /// A node acquires the workspace at `took_at`, writes at `at` if `writes`, and releases the workspace.
    fn epoch(&self, name: &str, took_at: i64, (at, writes): (i64, bool)) {
        let wrote = writes.then(|| (at, Kind::Step(vec![piece()])));
        self.epoch_of(name, took_at, wrote.into_iter().chain([(at, GIVE)]));
    }

    /// A node acquires the workspace and commits records at these times. Returns the number of its acquisition record.
    fn epoch_of(
        &self,
        name: &str,
        took_at: i64,
        records: impl IntoIterator<Item = (i64, Kind)>,
    ) -> u64 {
        let driver = Driver {
            chain: Arc::new(ObjectChain::new(Arc::clone(&self.memory) as _)),
            objects: Arc::clone(&self.memory) as _,
            ..self.two.seat.driver.clone()
        };
        let writer =
            Writer { node: NodeId::new(name).unwrap(), run: Hex([3; 16]), url: String::new() };
        let claim = Claim::new(writer, Duration::from_secs(9));
        let newest = found(&self.two);
        let stamp = |at| Stamp {
            at,
            nonce: carry::nonce(u8::try_from(self.memory.names("").len()).unwrap()),
        };
        let took = driver.run(&tenant(), async |port| {
            claim.take(&port, Some(&newest), newest.newest.head.store, stamp(took_at)).await
        });
        let Some(Took::Held(mut holder)) = took else { panic!("{took:?}") };
        let mut seq = newest.newest.head.seq;
        let take = holder.newest().head.number;
        for (at, kind) in records {
            seq += u64::from(matches!(kind, Kind::Step(_)));
            let committed = driver
                .run(&tenant(), async |port| holder.commit(&port, kind, seq, stamp(at)).await);
            assert!(matches!(committed, Some(Committed::Done(_))), "{committed:?}");
        }
        take
    }

    /// Runs one purge step. If the workspace is spared, no object may have changed.
    fn step(&self) -> Emptied {
        let before = self.memory.names("t/");
        let sweeper = self.sweeper();
        let came = sweeper.empty(&gone(), &mut begin(&sweeper), &|_| Ok(())).unwrap();
        if matches!(came, Emptied::Spared(_)) {
            assert_eq!(self.memory.names("t/"), before);
        }
        came
    }

    fn restored(&self) -> Result<(), NotRestored> {
        let node = self.two.seat.node.as_ref().unwrap().writer().node.clone();
        let disk: Arc<dyn Disk> =
            Arc::new(FsDisk::open(&self.root.path().join("restored")).unwrap());
        let into = (&disk, &SystemRandom as _);
        restore(&self.two.seat.driver, &tenant(), &node, None, into).map(drop)
    }
}

fn why(came: Emptied) -> String {
    match came {
        Emptied::Spared(why) => why,
        other => panic!("{other:?}"),
    }
}

fn is_emptied(came: &Emptied) -> bool {
    matches!(came, Emptied::Waiting(done) if done.objects > 0)
}

#[test]
fn a_record_that_came_after_the_deletion_spares_it() {
    let early = DELETED - HOUR;
    // A live node acquired the workspace, or was its leader already and wrote.
    for (took_at, written) in [(last() + 1, (last() + 1, false)), (early, (last() + 1, true))] {
        let scene = Scene::new();
        let did = if written.1 { "wrote it" } else { "took it" };
        scene.epoch("box-9", took_at, written);
        let why = why(scene.step());
        assert!(why.contains("node box-9") && why.contains(did), "{why}");
        assert!(scene.memory.holds(MARKER));
        // Later epochs of garbage collectors hide no sign of life.
        scene.epoch("gc-0123456789abcdef", last() + HOUR, (last() + HOUR, false));
        assert!(matches!(scene.step(), Emptied::Spared(_)));
        // After a second, later deletion the workspace is purged.
        let sweeper = scene.sweeper();
        let again = Deleted { at: last() + 2 * HOUR, ..gone() };
        let came = sweeper.empty(&again, &mut begin(&sweeper), &|_| Ok(())).unwrap();
        assert!(is_emptied(&came), "{came:?}");
    }
}

#[test]
fn what_is_no_sign_of_life_spares_nothing() {
    let nothing = (last() + HOUR, false);
    let under_way = (last(), true);
    // A leader that learned of the deletion a minute later, and uploaded its writes until then.
    let heard_late = (DELETED + 61_000_000, true);
    for (name, took_at, written) in [
        ("box-9", last(), under_way),
        ("box-9", DELETED - HOUR, heard_late),
        ("box-9", DELETED - HOUR, nothing),
        ("gc-0123456789abcdef", last() + HOUR, nothing),
        ("box-2", last() + HOUR, nothing),
    ] {
        let scene = Scene::new();
        scene.epoch(name, took_at, written);
        let came = scene.step();
        assert!(is_emptied(&came), "{name}: {came:?}");
    }
    // A node name that only resembles a garbage collector's.
    let scene = Scene::new();
    scene.epoch("gc-0123", last() + 1, (last() + 1, false));
    assert!(matches!(scene.step(), Emptied::Spared(_)));
}

#[test]
fn a_chain_of_which_nothing_from_before_the_deletion_is_there_is_spared() {
    let root = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let mut one = machine("box-1", &memory, root.path());
    let led = written(&mut one, &memory);
    let Role::Leads(carrier) = &led.role else { panic!("it was first") };
    led.store.seal().unwrap();
    assert!(carrier.settle(PATIENCE));
    carrier.collect().unwrap().unwrap();
    one.pass(MINUTES);
    assert!(carrier.collect().unwrap().unwrap().records > 0);
    until("it is heard again", || one.seat.node.as_ref().unwrap().is_held());
    give(led);
    let two = machine("box-2", &memory, root.path());
    let sweeping = sweeper(&two);
    let came = sweeping.empty(&gone(), &mut begin(&sweeping), &|_| Ok(())).unwrap();
    let why = why(came);
    assert!(why.contains("node box-1 had it"), "{why}");
    assert!(memory.holds(MARKER));
}

#[test]
fn one_that_was_emptied_and_taken_again_is_not_emptied_again() {
    let scene = Scene::new();
    let sweeper = scene.sweeper();
    let mut known = begin(&sweeper);
    let empty = |known: &mut _, looks_again| {
        let gone = Deleted { looks_again, ..gone() };
        sweeper.empty(&gone, known, &|_| Ok(())).unwrap()
    };
    assert!(matches!(empty(&mut known, false), Emptied::Waiting(_)));
    scene.two.pass(MINUTES);
    assert!(matches!(empty(&mut known, false), Emptied::Done(_)));
    assert!(!scene.memory.holds(MARKER));

    // A part whose writer was stopped during the upload.
    let part = format!("t/local/data/{:020}-{}.00000", 1, "3".repeat(32));
    scene.memory.insert(&part, MARKER.into());
    assert!(matches!(empty(&mut begin(&sweeper), false), Emptied::Done(_)));
    assert!(scene.memory.holds(MARKER), "nobody looked");
    assert!(matches!(empty(&mut begin(&sweeper), true), Emptied::Done(done) if done.objects == 1));
    assert!(!scene.memory.holds(MARKER));

    until("it is heard again", || sweeper.node.is_held());
    let now = step(&sweeper, &mut begin(&sweeper));
    assert!(matches!(now, Emptied::Done(_)), "{now:?}");
    // Another node revives the workspace.
    let mut three = machine("box-3", &scene.memory, scene.root.path());
    let led = three.open().unwrap();
    led.store.write(batch(MARKER)).unwrap();
    give(led);
    for looks_again in [false, true] {
        assert!(why(empty(&mut begin(&sweeper), looks_again)).contains("node box-3"));
    }
    assert!(scene.memory.holds(MARKER));
}

#[test]
fn what_others_say_between_the_take_and_the_end_is_heard() {
    let scene = Scene::new();
    let (sweeper, asked) = (scene.sweeper(), Cell::new(0));
    let may = |moment| {
        asked.set(asked.get() + 1);
        if moment == Moment::Taken {
            Err(NotNow::Stays("node box-9 has it".to_owned()))
        } else {
            Ok(())
        }
    };
    let epoch = found(&scene.two).newest.head.epoch;
    let came = sweeper.empty(&gone(), &mut begin(&sweeper), &may).unwrap();
    assert_eq!((why(came).as_str(), asked.get()), ("node box-9 has it", 2));
    let newest = found(&scene.two).newest;
    assert!(newest.given.is_some() && newest.head.epoch == epoch + 1, "it was given back");
    scene.restored().unwrap();
    assert!(is_emptied(&scene.step()), "by whoever may");
}

/// A purge acquires a workspace and is cut short. The storage responds to its last request only if `is_given`.
fn a_take_is_cut_short(is_given: bool) {
    let scene = Scene::new();
    let one = machine("box-1", &scene.memory, scene.root.path());
    let first = sweeper(&one);
    let may = |moment| {
        if moment == Moment::First {
            return Ok(());
        }
        scene.memory.answers(is_given);
        Err(NotNow::Stays("a node has it, or this one ends".to_owned()))
    };
    let epoch = found(&scene.two).newest.head.epoch;
    let came = first.empty(&gone(), &mut begin(&first), &may);
    scene.memory.answers(true);
    assert_eq!(matches!(came, Ok(Emptied::Spared(_))), is_given, "{came:?}");
    let newest = found(&scene.two).newest;
    assert!(newest.head.epoch == epoch + 1 && newest.head.node.only_collects());
    assert_eq!(newest.given.is_some(), is_given);
    // A purge by another node succeeds.
    until("it is heard again", || scene.sweeper().node.is_held());
    let came = scene.step();
    assert!(is_emptied(&came), "{is_given}: {came:?}");
    assert!(!first.node.writer().node.only_collects());
}

#[test]
fn a_take_that_was_cut_short_is_no_sign_of_life_to_whoever_goes_on() {
    a_take_is_cut_short(true);
}

#[test]
fn nor_is_one_whose_last_record_never_came() {
    a_take_is_cut_short(false);
}

#[test]
fn a_take_that_was_collected_since_is_told_by_what_is_left_of_its_epoch() {
    let late = last() + 30 * HOUR;
    for (name, took_at, is_spared) in [
        ("box-9", last() + 1, true),
        // A full record from before the deletion is left.
        ("box-9", DELETED - HOUR, false),
        ("box-2", last() + 1, false),
        ("gc-0123456789abcdef", last() + 1, false),
    ] {
        let scene = Scene::new();
        let Kind::Full(full) = &found(&scene.two).records[0].kind else { panic!("it was sealed") };
        let full = Kind::Full(full.clone());
        // The former leader closed the workspace with all its writes.
        let closed = DELETED - 8 * HOUR;
        scene.epoch_of("box-1", closed, [(closed, full.clone()), (closed, GIVE)]);
        let take = scene.epoch_of(name, took_at, [(took_at, full), (last() + 1, GIVE)]);
        // The retention leaves only full records of that time.
        let sweeper = Sweeper {
            retention: Retention { full: 7 * DAY, fine: DAY },
            clock: Arc::new(Dated(late.into())),
            ..scene.sweeper()
        };
        let swept = sweeper.sweep(&tenant(), false).unwrap();
        assert!(matches!(swept, Swept::Done(_)), "{swept:?}");
        let edge = sweeper.driver.chain.edge(&tenant()).unwrap();
        assert!(edge.is_below(take) && !edge.is_below(take + 1), "{edge:?}");
        let came = scene.step();
        match is_spared {
            true => assert!(why(came).contains("node box-9 took it")),
            false => assert!(is_emptied(&came), "{name}: {came:?}"),
        }
    }
}

#[test]
fn nothing_is_emptied_that_is_young_by_the_storages_clock() {
    let scene = Scene::new();
    let sweeper = scene.sweeper();
    let kept = Deleted { kept: 7 * DAY, ..gone() };
    let empty = || sweeper.empty(&kept, &mut begin(&sweeper), &|_| Ok(()));
    let newest = found(&scene.two).newest.head.number;
    let is = |number: u64, age: Duration| {
        let name = Key::Chain(tenant(), number).to_string();
        scene.memory.ages.lock().unwrap().insert(name, age.as_secs());
    };
    let old = 7 * DAY - DELETED_SLACK;
    (1..newest).for_each(|number| is(number, old));
    let spared = why(empty().unwrap());
    assert!(spared.contains(&format!("record, {newest}, is 0 seconds old")), "{spared}");
    is(newest, old - Duration::from_secs(1));
    assert!(why(empty().unwrap()).contains("storage's clock"));
    // A recent garbage collection does not count.
    scene.epoch("gc-0123456789abcdef", DELETED - HOUR, (DELETED - HOUR, false));
    assert!(why(empty().unwrap()).contains("storage's clock"));
    scene.memory.answers(false);
    let away = empty().unwrap_err();
    assert!(matches!(away, NotRestored::Away(_)), "{away}");
    scene.memory.answers(true);
    until("it is heard again", || sweeper.node.is_held());
    is(newest, old);
    assert!(is_emptied(&empty().unwrap()));
    // The workspace was purged just now, and the purge continues.
    assert!(matches!(empty().unwrap(), Emptied::Waiting(_)));
    scene.epoch("gc-0123456789abcdef", last(), (last(), false));
    assert!(matches!(empty().unwrap(), Emptied::Waiting(_)));
}

#[test]
fn what_could_not_be_asked_after_the_take_is_an_error() {
    for at in [Moment::First, Moment::Taken] {
        let scene = Scene::new();
        let epoch = found(&scene.two).newest.head.epoch;
        let may = |moment| match moment == at {
            true => Err(NotNow::Unasked("nobody answers".to_owned())),
            false => Ok(()),
        };
        let sweeper = scene.sweeper();
        let came = sweeper.empty(&gone(), &mut begin(&sweeper), &may).unwrap_err();
        assert!(matches!(&came, NotRestored::Away(why) if why == "nobody answers"), "{came}");
        let newest = found(&scene.two).newest;
        let took = u64::from(at == Moment::Taken);
        assert!(newest.given.is_some() && newest.head.epoch == epoch + took, "it was given back");
        assert!(scene.memory.holds(MARKER));
    }
}

#[test]
fn a_node_that_nobody_heard_takes_nothing() {
    let scene = Scene::new();
    let silent = Arc::new(Memory::default());
    silent.answers(false);
    let chain: Arc<dyn Chain> = Arc::new(ObjectChain::new(silent));
    let driver = Driver { chain, halt: Arc::new(Halt::default()), ..scene.two.seat.driver.clone() };
    let writer =
        Writer { node: NodeId::new("box-7").unwrap(), ..scene.sweeper().node.writer().clone() };
    let node = Arc::new(Node::start(driver, writer, LEASE_S).unwrap());
    let sweeper = Sweeper { node, ..scene.sweeper() };
    let before = scene.memory.names("t/");
    let came = sweeper.empty(&gone(), &mut begin(&sweeper), &|_| Ok(())).unwrap_err();
    assert!(matches!(&came, NotRestored::Away(why) if why.contains("taken for gone")), "{came}");
    assert_eq!(scene.memory.names("t/"), before);
}

#[test]
fn what_could_not_be_sent_of_a_deleted_one_is_given_up() {
    let root = tempfile::tempdir().unwrap();
    let memory = Arc::new(Memory::default());
    let mut one = machine("box-1", &memory, root.path());
    let Seated { store, role } = written(&mut one, &memory);
    let two = machine("box-2", &memory, root.path());
    drop((store, role));
    let before = found(&two).newest;
    assert!(before.given.is_none(), "its time was over");
    let held = step(&sweeper(&two), &mut begin(&sweeper(&two)));
    assert!(matches!(held, Emptied::Held(_)), "{held:?}");
    // Another process's record log is left alone.
    let others = sweeper(&two).give_up(&tenant()).unwrap();
    assert_eq!(others, GivenUp::NotOurs(Some(Box::new(before.head.clone()))));
    assert_eq!(found(&two).newest.head.number, before.head.number);
    assert_eq!(sweeper(&one).give_up(&tenant()).unwrap(), GivenUp::Given);
    let newest = found(&two).newest;
    assert!(newest.given.is_some() && newest.head.seq == before.head.seq);
    assert_eq!(sweeper(&one).give_up(&tenant()).unwrap(), GivenUp::NotOurs(None), "it is nobody's");
    assert_eq!(found(&two).newest.head.number, newest.head.number);
    assert!(is_emptied(&step(&sweeper(&two), &mut begin(&sweeper(&two)))));
}
