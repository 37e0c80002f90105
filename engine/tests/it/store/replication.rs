//! Replication of a store: the order of calls to the sink, and when a commit is acknowledged and published.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use engine::replication_sink::{ReplicationError, SinkRejectedError, WalPosition};
use engine::{Durability, Env, OpenError, Options, Remedy, Seq, Store, WriteError};
use support_engine::ground::{self, Dice};
use support_engine::memory_disk::MemoryDisk;
use support_engine::patience::wait_until;
use support_engine::sample::{self, MODEL, halves, items, note};
use support_engine::scripted_far::{Carries, ScriptedFar, Told};
use support_engine::sim::disk::SimDisk;
use support_engine::sim::state::{Cut, DiskState, FileSystem};

fn env_with_sink(disk: &MemoryDisk, far: &ScriptedFar) -> Env {
    Env {
        replication_sink: Some(Arc::new(far.clone())),
        ..ground::still(Arc::new(disk.clone()), 5)
    }
}

fn open(disk: &MemoryDisk, far: &ScriptedFar) -> Arc<Store> {
    Arc::new(Store::open(env_with_sink(disk, far), Options::default()).expect("it opens"))
}

fn write(store: &Store, text: &str) -> Result<Seq, WriteError> {
    store.write(items([note(text)])).map(|written| written.seq)
}

fn replication_unavailable() -> ReplicationError {
    ReplicationError::Indeterminate("the other place does not answer".to_owned())
}

/// Counts the calls that replicate a commit.
fn replication_calls(told: &[Told]) -> usize {
    told.iter().filter(|it| matches!(it, Told::Carry(_))).count()
}

/// Returns a sink, and a store that asserts at each replicated commit that the commit is not published yet.
fn store_with_scripted_sink() -> (MemoryDisk, ScriptedFar, Arc<Store>) {
    let (disk, far) = (MemoryDisk::default(), ScriptedFar::new(true));
    let store = open(&disk, &far);
    let weak: Weak<Store> = Arc::downgrade(&store);
    far.at_carry(move |seq| {
        let shown = weak.upgrade().map_or(0, |store| store.snapshot().seq());
        assert!(shown < seq, "{seq} is shown before it is carried");
    });
    (disk, far, store)
}

#[test]
fn write_is_admitted_logged_synced_replicated_then_visible() {
    let (_disk, far, store) = store_with_scripted_sink();
    assert_eq!(far.told(), [Told::Published(1, vec![], 0, [false; 2])], "as it was found");
    assert_eq!(write(&store, "one").unwrap(), 1);
    let begun = WalPosition { log: 1, first_seq: 1, end: 64, seq: 0 };
    let told = far.told();
    let [.., Told::Synced(mark), Told::Carry(1)] = told[..] else { panic!("{told:?}") };
    assert!(mark.end > begun.end && mark.seq == 1, "{mark:?}");
    let first =
        [Told::Admits(0), Told::BeganLog(begun), Told::Published(2, vec![begun], 0, [false; 2])];
    assert_eq!(told[..3], first);
    assert_eq!(store.snapshot().seq(), 1);
    write(&store, "two").unwrap();
    let told = far.told();
    assert!(matches!(told[..], [Told::Admits(0), Told::Synced(_), Told::Carry(2)]), "{told:?}");
}

#[test]
fn unreplicated_write_survives_a_local_power_cut() {
    let (disk, far) = (SimDisk::on(DiskState::default()), ScriptedFar::new(true));
    let ground = ground::still(Arc::new(disk.clone()), 1);
    let ground = Env { replication_sink: Some(Arc::new(far.clone())), ..ground };
    let store = Store::open(ground, Options::default()).unwrap();
    far.at_carry(move |seq| {
        for seed in 0..4 {
            let cut = Cut { file_system: FileSystem::Posix, garbage: true };
            let left = disk.state().after_cut(cut, &mut Dice::new(seed));
            let ground = ground::still(Arc::new(SimDisk::on(left)), 2);
            let found = Store::open(ground, Options::default()).unwrap();
            assert!(found.snapshot().seq() >= seq, "seed {seed}");
        }
    });
    for n in 0..6 {
        write(&store, "kept").unwrap();
        if n == 3 {
            store.seal().unwrap();
        }
    }
    assert_eq!(replication_calls(&far.told()), 6);
}

#[test]
fn busy_sink_rejects_writes_before_logging() {
    let (disk, far, store) = store_with_scripted_sink();
    write(&store, "before").unwrap();
    let files = disk.files();
    far.refuse(Some(SinkRejectedError::Busy("too much waits".to_owned())));
    let error = write(&store, "refused").unwrap_err();
    assert_eq!(error.remedy(), Remedy::RetryLater);
    assert!(error.to_string().contains("too much waits"), "{error}");
    assert_eq!((disk.files() == files, store.stop_reason()), (true, None));
    far.refuse(None);
    assert_eq!(write(&store, "after").unwrap(), 2);
}

#[test]
fn fenced_store_rejects_further_writes() {
    let (disk, far, store) = store_with_scripted_sink();
    write(&store, "before").unwrap();
    let files = disk.files();
    far.refuse(Some(SinkRejectedError::Fenced("node b has it".to_owned())));
    for _ in 0..2 {
        let error = write(&store, "refused").unwrap_err();
        assert!(matches!(&error, WriteError::Stopped(why) if why == "node b has it"), "{error}");
        far.refuse(None);
    }
    assert_eq!(disk.files(), files);
    assert!(matches!(store.seal(), Err(WriteError::Stopped(_))));
    assert_eq!(store.snapshot().seq(), 1, "it is read on");
}

#[test]
fn fenced_commit_is_neither_acknowledged_nor_visible() {
    let (_disk, far, store) = store_with_scripted_sink();
    write(&store, "before").unwrap();
    far.carries(Carries::Never(ReplicationError::Fenced("node b has it".to_owned())));
    let error = write(&store, "lost").unwrap_err();
    assert!(matches!(error, WriteError::Stopped(_)), "{error}");
    assert_eq!(store.stop_reason(), Some("node b has it"));
    far.has_carried(2);
    store.release_replicated();
    assert_eq!(store.snapshot().seq(), 1);
}

#[test]
fn indeterminate_write_becomes_visible_once_replicated() {
    let (_disk, far, store) = store_with_scripted_sink();
    write(&store, "before").unwrap();
    far.carries(Carries::Never(replication_unavailable()));
    let error = write(&store, "unsure").unwrap_err();
    assert_eq!(error.remedy(), Remedy::CheckOutcome, "{error}");
    assert_eq!((store.snapshot().seq(), store.stop_reason()), (1, None));
    store.release_replicated();
    assert_eq!(store.snapshot().seq(), 1, "it is not carried yet");
    // The next write replicates all pending commits.
    far.carries(Carries::AtOnce);
    assert_eq!(write(&store, "next").unwrap(), 3);
    assert_eq!(store.snapshot().seq(), 3);
    // A sink may also replicate the commit later without a call.
    far.carries(Carries::Never(replication_unavailable()));
    write(&store, "unsure again").unwrap_err();
    assert!(matches!(store.sync(), Err(WriteError::Indeterminate(_))));
    far.has_carried(4);
    store.release_replicated();
    assert_eq!(store.snapshot().seq(), 4);
    far.told();
    store.sync().unwrap();
    assert_eq!(far.told(), [], "all is settled");
}

#[test]
fn manifest_publishes_no_unreplicated_commit() {
    let (_disk, far, store) = store_with_scripted_sink();
    store.bind_model(MODEL).unwrap();
    let mut item = note("before");
    item.embedding = halves([1.0, 0.0, 0.0, 0.0]);
    store.write(items([item])).unwrap();
    far.carries(Carries::Later);
    let told = far.told();
    let led = told.iter().any(|it| matches!(it, Told::Published(.., [true, false])));
    assert!(led, "a model is bound: {told:?}");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| write(&store, "waits"));
        wait_until("it is being carried", || replication_calls(&far.told()) == 1);
        store.seal().unwrap();
        store.compact_fully(&engine::NoThrottle).unwrap();
        assert_eq!(store.snapshot().seq(), 1);
        assert_eq!(store.snapshot().row_counts().unwrap().segments, 1, "as it was");
        assert!(!waiting.is_finished(), "a manifest acknowledges nothing");
        far.carries(Carries::AtOnce);
        assert_eq!(waiting.join().unwrap().unwrap(), 2);
    });
    let counts = store.snapshot().row_counts().unwrap();
    assert_eq!((counts.items, counts.segments), (2, 1), "the sealed state is shown after it");
}

#[test]
fn commit_sealed_before_replication_is_visible_after_it() {
    let (_disk, far, store) = store_with_scripted_sink();
    far.carries(Carries::Never(replication_unavailable()));
    write(&store, "unsure").unwrap_err();
    store.seal().unwrap();
    assert_eq!(store.snapshot().seq(), 0);
    far.has_carried(1);
    store.release_replicated();
    let counts = store.snapshot().row_counts().unwrap();
    assert_eq!((store.snapshot().seq(), counts.segments), (1, 1));
}

#[test]
fn failed_replication_fails_every_waiting_writer() {
    const WRITERS: usize = 6;
    let (_disk, far, store) = store_with_scripted_sink();
    let header = 64;
    write(&store, "waits").unwrap();
    let logged = header + (store.metrics().log_bytes - header) * (WRITERS as u64 + 1);
    far.carries(Carries::Later);
    far.told();
    thread::scope(|scope| {
        let writers: Vec<_> =
            (0..WRITERS).map(|_| scope.spawn(|| write(&store, "waits"))).collect();
        let mut told = Vec::new();
        wait_until("all are in the log", || {
            told.extend(far.told());
            let admitted = told.iter().filter(|it| matches!(it, Told::Admits(_))).count();
            admitted == WRITERS
                && replication_calls(&told) == 1
                && store.metrics().log_bytes == logged
        });
        far.carries(Carries::Never(replication_unavailable()));
        for writer in writers {
            let error = writer.join().unwrap().unwrap_err();
            assert!(matches!(error, WriteError::Indeterminate(_)), "{error}");
        }
        told.extend(far.told());
        let most = told.iter().filter_map(|it| match it {
            Told::Admits(waiting) => Some(*waiting),
            _ => None,
        });
        assert_eq!(most.max(), Some(WRITERS - 1), "each is counted");
    });
    far.carries(Carries::AtOnce);
    write(&store, "next").unwrap();
    assert_eq!(store.snapshot().seq(), WRITERS as u64 + 2);
    assert!(matches!(far.told()[..], [Told::Admits(0), Told::Synced(_), Told::Carry(_)]));
}

#[test]
fn asynchronous_sink_is_notified_and_never_awaited() {
    let (disk, far) = (MemoryDisk::default(), ScriptedFar::new(false));
    far.carries(Carries::Later);
    let store = open(&disk, &far);
    far.told();
    write(&store, "one").unwrap();
    store.seal().unwrap();
    store.sync().unwrap();
    write(&store, "two").unwrap();
    store.release_replicated();
    assert_eq!((store.snapshot().seq(), replication_calls(&far.told())), (2, 0));
    far.refuse(Some(SinkRejectedError::Fenced("node b has it".to_owned())));
    assert!(matches!(write(&store, "three"), Err(WriteError::Stopped(_))));
    drop(store);
    far.refuse(None);
    let options =
        Options { durability: Durability::Interval(Duration::from_secs(9)), ..Options::default() };
    let store = Store::open(env_with_sink(&disk, &far), options).unwrap();
    far.told();
    write(&store, "three").unwrap();
    assert_eq!(store.snapshot().seq(), 3);
    let told = far.told();
    assert!(!told.iter().any(|it| matches!(it, Told::Synced(_))), "nothing is synced: {told:?}");
    store.release_replicated();
    store.sync().unwrap();
    assert!(matches!(far.told()[..], [Told::Synced(_)]), "not noted as synced before it is");
}

#[test]
fn synchronous_sink_forces_a_sync_of_every_write() {
    let (disk, far) = (MemoryDisk::default(), ScriptedFar::new(true));
    let options =
        Options { durability: Durability::Interval(Duration::from_secs(9)), ..Options::default() };
    let store = Store::open(env_with_sink(&disk, &far), options).unwrap();
    write(&store, "one").unwrap();
    let told = far.told();
    assert!(matches!(told[..], [.., Told::Synced(_), Told::Carry(1)]), "{told:?}");
}

#[test]
fn opening_reports_recovered_commits_and_replicates_them() {
    let (disk, far, store) = store_with_scripted_sink();
    write(&store, "one").unwrap();
    far.carries(Carries::Never(replication_unavailable()));
    write(&store, "two").unwrap_err();
    drop(store);
    let kept = disk.files();
    // The sink does not answer.
    let far = ScriptedFar::new(true);
    far.carries(Carries::Never(replication_unavailable()));
    let error = Store::open(env_with_sink(&disk, &far), Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::Recovery(_, Remedy::RetryLater)), "{error}");
    // The sink answers, and has commit 1 only.
    let far = ScriptedFar::new(true);
    far.has_carried(1);
    let store = open(&disk, &far);
    assert_eq!(store.snapshot().seq(), 2);
    let told = far.told();
    let [Told::BeganLog(mark), Told::Published(2, logs, 2, _), Told::Carry(2)] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((&logs[..], mark.first_seq, mark.seq), (&[*mark][..], 1, 2));
    let name = engine::replication_sink::log_name(mark.log);
    let log = far.log(mark.log);
    assert!(kept[&name].starts_with(&log) && kept[&name].len() > log.len(), "but the mark");
    drop(store);
    // The sink has all commits.
    let far = ScriptedFar::new(true);
    far.has_carried(2);
    let store = open(&disk, &far);
    assert_eq!(replication_calls(&far.told()), 0);
    assert_eq!(store.snapshot().seq(), 2);
}

#[test]
fn commits_of_a_killed_writer_are_reported_once_sealed() {
    let (disk, far, store) = store_with_scripted_sink();
    write(&store, "one").unwrap();
    let killed = MemoryDisk::holding(disk.files());
    drop(store);
    far.told();
    let store = open(&killed, &far);
    let told = far.told();
    assert!(matches!(&told[..], [Told::Published(3, logs, 1, _)] if logs.is_empty()), "{told:?}");
    assert_eq!(store.snapshot().seq(), 1);
}

#[test]
fn sink_can_read_removed_logs_and_is_notified_of_erasures() {
    let (disk, far, store) = store_with_scripted_sink();
    let gone = store.write(items([note("to be erased")])).unwrap().items[0];
    write(&store, "stays").unwrap();
    let before = disk.files()[&engine::replication_sink::log_name(1)].clone();
    far.told();
    store.seal().unwrap();
    assert!(!disk.files().contains_key(&engine::replication_sink::log_name(1)));
    assert!(before.starts_with(&far.log(1)) && far.log(1).len() > 64);
    far.told();
    store.erase(&[gone.0], "tester", "test", &engine::NoThrottle).unwrap();
    let told = far.told();
    let flags: Vec<_> = told
        .iter()
        .filter_map(|it| match it {
            Told::Published(.., flags) => Some(*flags),
            _ => None,
        })
        .collect();
    assert_eq!(flags.last(), Some(&[false, true]), "{told:?}");
    assert_eq!(flags.iter().filter(|it| it[1]).count(), 1, "{told:?}");
}

#[test]
fn backup_succeeds_while_replication_is_unavailable() {
    let (_disk, far, store) = store_with_scripted_sink();
    write(&store, "one").unwrap();
    far.carries(Carries::Never(replication_unavailable()));
    write(&store, "two").unwrap_err();
    let copy = MemoryDisk::default();
    let copied = store.backup(&copy).unwrap();
    assert_eq!((copied.seq, store.snapshot().seq()), (2, 1), "as a restart would find it");
    let restored = ground::still(Arc::new(copy), 3);
    assert_eq!(Store::open(restored, Options::default()).unwrap().snapshot().seq(), 2);
}

#[test]
fn manifest_view_lists_every_needed_file() {
    let (disk, _far, store) = store_with_scripted_sink();
    sample::furnish(&store, sample::Seals(&[1, 2]), |_, _| {}).unwrap();
    let files = disk.files();
    let names: Vec<String> = files.keys().cloned().collect();
    let manifest = names.iter().rfind(|name| name.starts_with("manifest-")).unwrap();
    let listing = engine::replication_sink::ManifestView::parse(&files[manifest]).unwrap();
    assert_eq!(*manifest, engine::replication_sink::manifest_name(listing.number()));
    assert_eq!(listing.obsolete_files(&names), Vec::<&str>::new(), "a writer leaves nothing");
    for file in listing.files() {
        assert_eq!(files[&file.name].len() as u64, file.bytes);
    }
    let foreign = ["segment-00000000000000009999", "LOCK", "log-00000000000000000000"];
    let foreign = foreign.map(str::to_owned);
    assert_eq!(listing.obsolete_files(&foreign), [&*foreign[0], &*foreign[2]]);
    let mut spoilt = files[manifest].clone();
    spoilt[9] ^= 1;
    assert!(engine::replication_sink::ManifestView::parse(&spoilt).is_err());
}
