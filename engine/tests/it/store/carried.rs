//! Replication of a store: the order of calls to the sink, and when a commit is acknowledged and published.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use engine::far::{LogMark, NotAdmitted, NotCarried};
use engine::{Durability, Ground, OpenError, Options, Remedy, Seq, Store, WriteError};
use support_engine::ground::{self, Dice};
use support_engine::memory_disk::MemoryDisk;
use support_engine::patience::wait_until;
use support_engine::sample::{self, MODEL, halves, items, note};
use support_engine::scripted_far::{Carries, ScriptedFar, Told};
use support_engine::sim::disk::SimDisk;
use support_engine::sim::state::{Cut, DiskState, FileSystem};

fn on(disk: &MemoryDisk, far: &ScriptedFar) -> Ground {
    Ground { far: Some(Arc::new(far.clone())), ..ground::still(Arc::new(disk.clone()), 5) }
}

fn open(disk: &MemoryDisk, far: &ScriptedFar) -> Arc<Store> {
    Arc::new(Store::open(on(disk, far), Options::default()).expect("it opens"))
}

fn write(store: &Store, text: &str) -> Result<Seq, WriteError> {
    store.write(items([note(text)])).map(|written| written.seq)
}

fn away() -> NotCarried {
    NotCarried::Unknown("the other place does not answer".to_owned())
}

/// Counts the calls that replicate a commit.
fn carries(told: &[Told]) -> usize {
    told.iter().filter(|it| matches!(it, Told::Carry(_))).count()
}

/// Returns a sink, and a store that asserts at each replicated commit that the commit is not published yet.
fn looked_at() -> (MemoryDisk, ScriptedFar, Arc<Store>) {
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
fn a_write_is_admitted_logged_synced_carried_and_then_shown() {
    let (_disk, far, store) = looked_at();
    assert_eq!(far.told(), [Told::Published(1, vec![], 0, [false; 2])], "as it was found");
    assert_eq!(write(&store, "one").unwrap(), 1);
    let begun = LogMark { log: 1, first_seq: 1, end: 64, seq: 0 };
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
fn what_is_to_be_carried_survives_a_power_cut_here() {
    let (disk, far) = (SimDisk::on(DiskState::default()), ScriptedFar::new(true));
    let ground = ground::still(Arc::new(disk.clone()), 1);
    let ground = Ground { far: Some(Arc::new(far.clone())), ..ground };
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
    assert_eq!(carries(&far.told()), 6);
}

#[test]
fn while_it_is_busy_nothing_is_written() {
    let (disk, far, store) = looked_at();
    write(&store, "before").unwrap();
    let files = disk.files();
    far.refuse(Some(NotAdmitted::Busy("too much waits".to_owned())));
    let error = write(&store, "refused").unwrap_err();
    assert_eq!(error.remedy(), Remedy::RetryLater);
    assert!(error.to_string().contains("too much waits"), "{error}");
    assert_eq!((disk.files() == files, store.stopped()), (true, None));
    far.refuse(None);
    assert_eq!(write(&store, "after").unwrap(), 2);
}

#[test]
fn a_store_that_another_one_writes_takes_no_more() {
    let (disk, far, store) = looked_at();
    write(&store, "before").unwrap();
    let files = disk.files();
    far.refuse(Some(NotAdmitted::Fenced("node b has it".to_owned())));
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
fn what_another_one_does_not_have_is_neither_acknowledged_nor_shown() {
    let (_disk, far, store) = looked_at();
    write(&store, "before").unwrap();
    far.carries(Carries::Never(NotCarried::Fenced("node b has it".to_owned())));
    let error = write(&store, "lost").unwrap_err();
    assert!(matches!(error, WriteError::Stopped(_)), "{error}");
    assert_eq!(store.stopped(), Some("node b has it"));
    far.has_carried(2);
    store.show_carried();
    assert_eq!(store.snapshot().seq(), 1);
}

#[test]
fn what_may_be_carried_is_shown_once_it_is() {
    let (_disk, far, store) = looked_at();
    write(&store, "before").unwrap();
    far.carries(Carries::Never(away()));
    let error = write(&store, "unsure").unwrap_err();
    assert_eq!(error.remedy(), Remedy::LookFirst, "{error}");
    assert_eq!((store.snapshot().seq(), store.stopped()), (1, None));
    store.show_carried();
    assert_eq!(store.snapshot().seq(), 1, "it is not carried yet");
    // The next write replicates all pending commits.
    far.carries(Carries::AtOnce);
    assert_eq!(write(&store, "next").unwrap(), 3);
    assert_eq!(store.snapshot().seq(), 3);
    // A sink may also replicate the commit later without a call.
    far.carries(Carries::Never(away()));
    write(&store, "unsure again").unwrap_err();
    assert!(matches!(store.sync(), Err(WriteError::Unsure(_))));
    far.has_carried(4);
    store.show_carried();
    assert_eq!(store.snapshot().seq(), 4);
    far.told();
    store.sync().unwrap();
    assert_eq!(far.told(), [], "all is settled");
}

#[test]
fn a_manifest_shows_and_acknowledges_nothing_that_is_not_carried() {
    let (_disk, far, store) = looked_at();
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
        wait_until("it is being carried", || carries(&far.told()) == 1);
        store.seal().unwrap();
        store.compact_fully(&engine::FullSpeed).unwrap();
        assert_eq!(store.snapshot().seq(), 1);
        assert_eq!(store.snapshot().counts().unwrap().parts, 1, "as it was");
        assert!(!waiting.is_finished(), "a manifest acknowledges nothing");
        far.carries(Carries::AtOnce);
        assert_eq!(waiting.join().unwrap().unwrap(), 2);
    });
    let counts = store.snapshot().counts().unwrap();
    assert_eq!((counts.items, counts.parts), (2, 1), "the sealed state is shown after it");
}

#[test]
fn what_was_sealed_before_it_was_carried_is_shown_when_it_is() {
    let (_disk, far, store) = looked_at();
    far.carries(Carries::Never(away()));
    write(&store, "unsure").unwrap_err();
    store.seal().unwrap();
    assert_eq!(store.snapshot().seq(), 0);
    far.has_carried(1);
    store.show_carried();
    let counts = store.snapshot().counts().unwrap();
    assert_eq!((store.snapshot().seq(), counts.parts), (1, 1));
}

#[test]
fn all_that_wait_for_a_carry_that_fails_are_told_so() {
    const WRITERS: usize = 6;
    let (_disk, far, store) = looked_at();
    let header = 64;
    write(&store, "waits").unwrap();
    let logged = header + (store.figures().log_bytes - header) * (WRITERS as u64 + 1);
    far.carries(Carries::Later);
    far.told();
    thread::scope(|scope| {
        let writers: Vec<_> =
            (0..WRITERS).map(|_| scope.spawn(|| write(&store, "waits"))).collect();
        let mut told = Vec::new();
        wait_until("all are in the log", || {
            told.extend(far.told());
            let admitted = told.iter().filter(|it| matches!(it, Told::Admits(_))).count();
            admitted == WRITERS && carries(&told) == 1 && store.figures().log_bytes == logged
        });
        far.carries(Carries::Never(away()));
        for writer in writers {
            let error = writer.join().unwrap().unwrap_err();
            assert!(matches!(error, WriteError::Unsure(_)), "{error}");
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
fn one_that_does_not_acknowledge_is_told_and_never_waited_for() {
    let (disk, far) = (MemoryDisk::default(), ScriptedFar::new(false));
    far.carries(Carries::Later);
    let store = open(&disk, &far);
    far.told();
    write(&store, "one").unwrap();
    store.seal().unwrap();
    store.sync().unwrap();
    write(&store, "two").unwrap();
    store.show_carried();
    assert_eq!((store.snapshot().seq(), carries(&far.told())), (2, 0));
    far.refuse(Some(NotAdmitted::Fenced("node b has it".to_owned())));
    assert!(matches!(write(&store, "three"), Err(WriteError::Stopped(_))));
    drop(store);
    far.refuse(None);
    let options =
        Options { durability: Durability::Interval(Duration::from_secs(9)), ..Options::default() };
    let store = Store::open(on(&disk, &far), options).unwrap();
    far.told();
    write(&store, "three").unwrap();
    assert_eq!(store.snapshot().seq(), 3);
    let told = far.told();
    assert!(!told.iter().any(|it| matches!(it, Told::Synced(_))), "nothing is synced: {told:?}");
    store.show_carried();
    store.sync().unwrap();
    assert!(matches!(far.told()[..], [Told::Synced(_)]), "not noted as synced before it is");
}

#[test]
fn with_one_that_acknowledges_each_write_is_synced_whatever_the_options_say() {
    let (disk, far) = (MemoryDisk::default(), ScriptedFar::new(true));
    let options =
        Options { durability: Durability::Interval(Duration::from_secs(9)), ..Options::default() };
    let store = Store::open(on(&disk, &far), options).unwrap();
    write(&store, "one").unwrap();
    let told = far.told();
    assert!(matches!(told[..], [.., Told::Synced(_), Told::Carry(1)]), "{told:?}");
}

#[test]
fn an_opening_tells_what_it_found_and_has_it_carried() {
    let (disk, far, store) = looked_at();
    write(&store, "one").unwrap();
    far.carries(Carries::Never(away()));
    write(&store, "two").unwrap_err();
    drop(store);
    let kept = disk.files();
    // The sink does not answer.
    let far = ScriptedFar::new(true);
    far.carries(Carries::Never(away()));
    let error = Store::open(on(&disk, &far), Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::Renewal(_, Remedy::RetryLater)), "{error}");
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
    let name = engine::far::log_name(mark.log);
    let log = far.log(mark.log);
    assert!(kept[&name].starts_with(&log) && kept[&name].len() > log.len(), "but the mark");
    drop(store);
    // The sink has all commits.
    let far = ScriptedFar::new(true);
    far.has_carried(2);
    let store = open(&disk, &far);
    assert_eq!(carries(&far.told()), 0);
    assert_eq!(store.snapshot().seq(), 2);
}

#[test]
fn what_a_killed_writer_left_is_told_of_once_it_is_sealed() {
    let (disk, far, store) = looked_at();
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
fn a_log_stays_readable_when_its_name_is_gone_and_erasures_are_told() {
    let (disk, far, store) = looked_at();
    let gone = store.write(items([note("to be erased")])).unwrap().items[0];
    write(&store, "stays").unwrap();
    let before = disk.files()[&engine::far::log_name(1)].clone();
    far.told();
    store.seal().unwrap();
    assert!(!disk.files().contains_key(&engine::far::log_name(1)));
    assert!(before.starts_with(&far.log(1)) && far.log(1).len() > 64);
    far.told();
    store.erase(&[gone.0], "tester", "test", &engine::FullSpeed).unwrap();
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
fn a_backup_can_be_made_while_nothing_can_be_carried() {
    let (_disk, far, store) = looked_at();
    write(&store, "one").unwrap();
    far.carries(Carries::Never(away()));
    write(&store, "two").unwrap_err();
    let copy = MemoryDisk::default();
    let copied = store.backup(&copy).unwrap();
    assert_eq!((copied.seq, store.snapshot().seq()), (2, 1), "as a restart would find it");
    let restored = ground::still(Arc::new(copy), 3);
    assert_eq!(Store::open(restored, Options::default()).unwrap().snapshot().seq(), 2);
}

#[test]
fn a_listing_says_what_a_store_needs() {
    let (disk, _far, store) = looked_at();
    sample::furnish(&store, sample::Seals(&[1, 2]), |_, _| {}).unwrap();
    let files = disk.files();
    let names: Vec<String> = files.keys().cloned().collect();
    let manifest = names.iter().rfind(|name| name.starts_with("manifest-")).unwrap();
    let listing = engine::far::Listing::read(&files[manifest]).unwrap();
    assert_eq!(*manifest, engine::far::manifest_name(listing.number()));
    assert_eq!(listing.leaves_behind(&names), Vec::<&str>::new(), "a writer leaves nothing");
    for file in listing.files() {
        assert_eq!(files[&file.name].len() as u64, file.bytes);
    }
    let foreign = ["segment-00000000000000009999", "LOCK", "log-00000000000000000000"];
    let foreign = foreign.map(str::to_owned);
    assert_eq!(listing.leaves_behind(&foreign), [&*foreign[0], &*foreign[2]]);
    let mut spoilt = files[manifest].clone();
    spoilt[9] ^= 1;
    assert!(engine::far::Listing::read(&spoilt).is_err());
}
