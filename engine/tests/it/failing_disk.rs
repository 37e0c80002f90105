//! A disk that fails one operation, for every operation of a workload: the write returns an error, the writer stops,
//! reads continue, and a reopened store has all acknowledged commits.

use std::sync::Arc;

use engine::os::disk::Disk;
use engine::{OpenError, Options, Remedy, Snapshot, Store, WriteError};
use serde_json::Value;
use support_engine::failing_disk::{FailingDisk, Refuses};
use support_engine::ground;
use support_engine::listing::{Asked, listing};
use support_engine::memory_disk::MemoryDisk;
use support_engine::sample::{self, Seals, items, note};
use support_engine::sim::disk::{Fault, SimDisk};
use support_engine::sim::state::DiskState;

const SEED: u64 = 21;
const SEALS: Seals = Seals(&[0, 2, 4]);

/// The listings after each commit of the workload on a working disk, starting with the empty store.
struct Expected {
    asked: Asked,
    shown: Vec<Value>,
}

fn listing_of(snapshot: &Snapshot, asked: &Asked) -> Value {
    let mut value = listing(snapshot, asked).expect("no damage");
    // Binding a model is no commit, so the listings leave it out.
    value.as_object_mut().expect("a listing is an object").remove("model");
    value
}

fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Store, OpenError> {
    Store::open(ground::still(disk, SEED), options)
}

fn expected(options: Options) -> Expected {
    let run = |asked: &Asked| {
        let store = open(Arc::new(MemoryDisk::default()), options).expect("a new store opens");
        let mut after = vec![listing_of(&store.snapshot(), asked)];
        let written = sample::furnish(&store, SEALS, |store, _| {
            after.push(listing_of(&store.snapshot(), asked));
        });
        let written = written.expect("the disk works");
        (Asked::of(&store.snapshot(), &written).expect("no damage"), after)
    };
    let (asked, _) = run(&Asked::default());
    let (_, shown) = run(&asked);
    Expected { asked, shown }
}

/// Runs the workload on a disk that fails operation `at`. Returns true if the workload reached that operation.
fn check_survivors(expected: &Expected, options: Options, at: u64, refuses: Refuses) -> bool {
    let beneath = MemoryDisk::default();
    let disk = FailingDisk::new(Arc::new(beneath.clone()), at, refuses);
    let mut acknowledged = 0;
    match open(Arc::new(disk.clone()), options) {
        Err(error) => {
            assert_eq!(error.remedy(), Remedy::FreeSpace, "{error}");
        }
        Ok(store) => {
            let error = sample::furnish(&store, SEALS, |store, written| {
                acknowledged += 1;
                assert_eq!(written.seq, acknowledged as u64);
                let now = listing_of(&store.snapshot(), &expected.asked);
                assert_eq!(now, expected.shown[acknowledged]);
            });
            if let Err(error) = error {
                check_stopped(&store, &error);
                let now = listing_of(&store.snapshot(), &expected.asked);
                assert_eq!(now, expected.shown[acknowledged], "reads go on");
            }
        }
    }
    let store = open(Arc::new(beneath), options).expect("it opens on a disk that works");
    let found = listing_of(&store.snapshot(), &expected.asked);
    // The failed commit may be complete on disk: its frame was written, but the result of the sync is unknown.
    let next = expected.shown.get(acknowledged + 1);
    let is_right = found == expected.shown[acknowledged] || Some(&found) == next;
    assert!(is_right, "operation {at}: {acknowledged} commits were acknowledged, found {found}");
    let seq = store.snapshot().seq();
    let written = store.write(items([note("it takes writes again")])).expect("the disk works");
    assert_eq!(written.seq, seq + 1);
    store.seal().expect("the disk works");
    disk.has_refused()
}

/// The first error reports the disk, or the stopped writer if the disk failed after a successful write; all later
/// errors report the stopped writer.
fn check_stopped(store: &Store, error: &WriteError) {
    match error {
        WriteError::Disk(disk) => assert_eq!(disk.remedy(), Remedy::FreeSpace, "{error}"),
        WriteError::Stopped(why) => assert!(why.contains("could not"), "{why}"),
        other => panic!("another error: {other}"),
    }
    for error in [
        store.write(items([note("too late")])).expect_err("the writer has stopped"),
        store.seal().expect_err("the writer has stopped"),
        store.bind_model(sample::MODEL).expect_err("the writer has stopped"),
    ] {
        assert!(matches!(error, WriteError::Stopped(_)), "{error}");
        assert_eq!(error.remedy(), Remedy::Reopen);
    }
}

fn every_operation(options: Options, refuses: Refuses) {
    let expected = expected(options);
    let operations =
        (0..).take_while(|&at| check_survivors(&expected, options, at, refuses)).count();
    assert!(operations > 60, "the workload has only {operations} operations");
}

#[test]
fn single_refused_disk_operation_loses_no_acknowledged_commit() {
    every_operation(Options::default(), Refuses::Once);
}

#[test]
fn full_disk_loses_no_acknowledged_commit() {
    every_operation(Options::default(), Refuses::FromThenOn);
}

/// Writes seal the tail themselves; if the seal fails, the write is still committed.
#[test]
fn failed_seal_within_a_write_loses_no_acknowledged_commit() {
    let options = Options { tail_bytes_seal: 1, ..Options::default() };
    every_operation(options, Refuses::Once);
    every_operation(options, Refuses::FromThenOn);
}

/// A killed writer leaves a log that must be sealed before the next write. If the disk has no room for the seal, reads
/// still succeed.
#[test]
fn store_on_a_full_disk_opens_readable() {
    let disk = SimDisk::on(DiskState::default());
    let store = open(Arc::new(disk.clone()), Options::default()).expect("a new store opens");
    let written = store.write(items([note("kept")])).expect("the disk works");
    let asked = Asked::of(&store.snapshot(), [&written]).expect("no damage");
    let wanted = listing_of(&store.snapshot(), &asked);
    let mut left = disk.kill();
    drop(store);
    for seed in 0..4 {
        let full = SimDisk::failing(left, Some((0, Fault::Full)), seed);
        let store = open(Arc::new(full.clone()), Options::default()).expect("it opens for reading");
        assert!(full.has_failed());
        assert_eq!(listing_of(&store.snapshot(), &asked), wanted);
        let why = store.stop_reason().expect("it takes no writes").to_owned();
        assert!(why.contains("could not") && why.contains("No space left"), "{why}");
        check_stopped(&store, &WriteError::Stopped(why));
        drop(store);
        left = full.state();
    }
    let store = open(Arc::new(SimDisk::on(left)), Options::default()).expect("there is room again");
    assert_eq!(store.stop_reason(), None);
    assert_eq!(listing_of(&store.snapshot(), &asked), wanted);
    assert_eq!(store.write(items([note("and on")])).expect("the disk works").seq, 2);
}
