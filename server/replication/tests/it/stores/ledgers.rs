//! Upload of ledger files to a storage, and their download.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::memory::Memory;
use crate::machine::{PATIENCE, until};
use engine::ledger::volume_name;
use engine::os::clock::SystemRandom;
use recalld_replication::limits::{LEDGER_PIECE_BYTES_MAX, SMALL_PIECES_MAX};
use recalld_replication::{
    BootClock, Driver, Halt, LedgerBringer, LedgerSource, LedgerThere, LedgerVolume, NodeId,
    NotFetched, ObjectChain, Tenant, ledgers,
};

/// Volumes in a folder, all of them durable. Counts the listings.
struct Volumes(PathBuf, AtomicUsize);

impl Volumes {
    fn path(&self, volume: u64) -> PathBuf {
        self.0.join(volume_name(volume))
    }

    /// Appends bytes that differ from place to place.
    fn grow(&self, volume: u64, bytes: u64) {
        let path = self.path(volume);
        let from = fs::metadata(&path).map_or(0, |about| about.len());
        let grown: Vec<u8> = (from..from + bytes)
            .map(|at| (at * 31 + volume * 7 + at / 251).to_le_bytes()[0])
            .collect();
        File::options().append(true).create(true).open(path).unwrap().write_all(&grown).unwrap();
    }
}

impl LedgerSource for Volumes {
    fn volumes(&self) -> Result<Vec<LedgerVolume>, String> {
        self.1.fetch_add(1, Ordering::SeqCst);
        let volumes = [1, 50].into_iter().filter(|&volume| self.path(volume).exists());
        let of = |first_seq| {
            let path = self.path(first_seq);
            let bytes = fs::metadata(&path).unwrap().len();
            LedgerVolume { first_seq, path, bytes }
        };
        Ok(volumes.map(of).collect())
    }
}

/// A node with a ledger, and a storage.
struct Bench {
    memory: Arc<Memory>,
    here: Arc<Volumes>,
    folder: tempfile::TempDir,
}

fn tenant() -> Tenant {
    Tenant::new("local").unwrap()
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ledger = folder.path().join("ledger");
        fs::create_dir(&ledger).unwrap();
        Self {
            memory: Arc::default(),
            here: Arc::new(Volumes(ledger, AtomicUsize::new(0))),
            folder,
        }
    }

    fn bringer(&self) -> LedgerBringer {
        let objects: Arc<dyn recalld_replication::Objects> = Arc::clone(&self.memory) as _;
        let driver = Driver {
            chain: Arc::new(ObjectChain::new(Arc::clone(&objects))),
            objects,
            ticks: Arc::new(BootClock),
            halt: Arc::new(Halt::default()),
        };
        let whose = (tenant(), NodeId::new("box-1").unwrap());
        let bringer = LedgerBringer::new(driver, whose, self.folder.path(), Arc::new(SystemRandom));
        let here: Arc<dyn LedgerSource> = Arc::clone(&self.here) as _;
        bringer.of(Arc::downgrade(&here));
        bringer
    }

    fn there(&self) -> Vec<LedgerThere> {
        ledgers(&*self.memory, &tenant()).unwrap()
    }

    fn pieces(&self) -> Vec<String> {
        self.memory.names("t/local/ledger/")
    }

    /// Asserts that the downloaded ledger equals the local one, byte for byte.
    fn check(&self, ledger: &LedgerThere) {
        let folder = tempfile::tempdir().unwrap();
        ledger.fetch(&*self.memory, &tenant(), folder.path()).unwrap();
        for volume in self.here.volumes().unwrap() {
            let fetched = fs::read(folder.path().join(volume_name(volume.first_seq))).unwrap();
            assert!(fetched == fs::read(&volume.path).unwrap(), "volume {}", volume.first_seq);
        }
    }
}

#[test]
fn what_is_brought_comes_back_and_many_pieces_become_few() {
    let bench = Bench::new();
    let bringer = bench.bringer();
    bringer.bring_all(Duration::ZERO).unwrap();
    assert!(bench.there().is_empty(), "nothing was written yet");
    for _ in 0..2 * SMALL_PIECES_MAX + 10 {
        bench.here.grow(1, 300);
        bringer.bring_all(Duration::ZERO).unwrap();
    }
    assert!(bench.pieces().len() < SMALL_PIECES_MAX, "{} pieces", bench.pieces().len());
    // More bytes than fit into one piece, then another volume.
    bench.here.grow(1, 2 * LEDGER_PIECE_BYTES_MAX + 5);
    bench.here.grow(50, 700);
    bringer.bring_all(Duration::ZERO).unwrap();
    let there = bench.there();
    assert_eq!(there.len(), 1);
    bench.check(&there[0]);
    let wanted: u64 = bench.here.volumes().unwrap().iter().map(|volume| volume.bytes).sum();
    assert_eq!(there[0].bytes(), wanted);
}

#[test]
fn a_restart_goes_on_behind_what_is_there() {
    let bench = Bench::new();
    bench.here.grow(1, 1_000);
    bench.bringer().bring_all(Duration::ZERO).unwrap();
    bench.here.grow(1, 500);
    let bringer = bench.bringer();
    bringer.bring_all(Duration::ZERO).unwrap();
    assert_eq!(bringer.take_begun_anew(), None);
    assert_eq!(bench.pieces().len(), 2, "what was there was not sent again");
    // State after a crash between the upload of a compacted piece and the removal of its sources.
    let whole = bench.pieces()[1].replace("00000000000000001000-", "00000000000000000000-");
    let bytes = fs::read(bench.here.path(1)).unwrap();
    bench.memory.insert(&whole, bytes);
    bench.bringer().bring_all(Duration::ZERO).unwrap();
    assert_eq!(bench.pieces(), [whole]);
    bench.check(&bench.there()[0]);
}

#[test]
fn a_ledger_that_is_another_than_what_is_there_begins_anew_and_says_so() {
    let bench = Bench::new();
    bench.here.grow(1, 1_000);
    bench.bringer().bring_all(Duration::ZERO).unwrap();
    let kept = bench.pieces();
    for what in ["shorter", "another"] {
        match what {
            "shorter" => File::options().write(true).open(bench.here.path(1)).unwrap().set_len(900),
            _ => fs::write(bench.here.path(1), vec![9; 2_000]),
        }
        .unwrap();
        let bringer = bench.bringer();
        bringer.bring_all(Duration::ZERO).unwrap();
        let why = bringer.take_begun_anew().unwrap();
        assert!(why.contains("volume 1"), "{what}: {why}");
        assert_eq!(bringer.take_begun_anew(), None, "told once");
    }
    assert_eq!(bench.there().len(), 3);
    assert!(kept.iter().all(|name| bench.pieces().contains(name)), "what was there stays");
    let is_whole = |ledger: &&LedgerThere| ledger.bytes() == 2_000;
    bench.check(bench.there().iter().find(is_whole).unwrap());
}

/// State after a node's disk was reset to an earlier one, or after a copy of the disk was used elsewhere.
#[test]
fn of_a_ledger_that_went_another_way_somewhere_nothing_is_removed() {
    for what in ["the longest piece", "a superfluous one", "behind a hole", "a later volume"] {
        let bench = Bench::new();
        for _ in 0..4 {
            bench.here.grow(1, 100);
            bench.bringer().bring_all(Duration::ZERO).unwrap();
        }
        bench.here.grow(50, 40);
        bench.bringer().bring_all(Duration::ZERO).unwrap();
        let [first, second, third, ..] = &bench.pieces()[..] else { panic!("five pieces") };
        let whole = first.replace("-00000000000000000100", "-00000000000000000200");
        let bytes = |length| fs::read(bench.here.path(1)).unwrap()[..length].to_vec();
        match what {
            "the longest piece" => {
                bench.memory.insert(&whole, vec![9; 200]);
                bench.memory.forget(third);
            }
            "a superfluous one" => {
                bench.memory.insert(&whole, bytes(200));
                bench.memory.tamper(second, |bytes| bytes[7] ^= 1);
            }
            "behind a hole" => {
                bench.memory.forget(second);
                bench.memory.tamper(third, |bytes| bytes[7] ^= 1);
            }
            _ => {
                bench.memory.forget(second);
                bench.memory.tamper(&bench.pieces()[3], |bytes| bytes[7] ^= 1);
            }
        }
        let kept = bench.pieces();
        let bringer = bench.bringer();
        bringer.bring_all(Duration::ZERO).unwrap();
        let why = bringer.take_begun_anew().unwrap_or_else(|| panic!("{what}: not noticed"));
        assert!(why.contains("has other bytes here"), "{what}: {why}");
        let names = bench.pieces();
        assert!(kept.iter().all(|name| names.contains(name)), "{what}: {kept:?} {names:?}");
        assert_eq!(bench.there().len(), 2, "{what}");
        let brought = |ledger: &&LedgerThere| ledger.bytes() == 440 && ledger.hole().is_none();
        let folder = tempfile::tempdir().unwrap();
        let is_here = bench.there().iter().filter(brought).any(|ledger| {
            let into = folder.path().join(ledger.lineage.to_string());
            ledger.fetch(&*bench.memory, &tenant(), &into).unwrap();
            fs::read(into.join(volume_name(1))).unwrap() == bytes(400)
        });
        assert!(is_here, "{what}");
    }
}

#[test]
fn while_the_storage_is_away_nothing_counts_as_brought_and_later_all_is() {
    let bench = Bench::new();
    bench.here.grow(1, 100);
    let bringer = bench.bringer();
    bench.memory.answers(false);
    let why = bringer.bring_all(Duration::from_millis(1)).unwrap_err();
    assert!(why.may_pass && why.to_string().contains("away"), "{why}");
    assert!(bringer.trouble().is_some());
    // Several callers wait, and one request uploads for all of them.
    thread::scope(|scope| {
        let waiting: Vec<_> =
            (0..4).map(|_| scope.spawn(|| bringer.bring((1, 100), PATIENCE))).collect();
        let asked = bench.memory.requests.load(Ordering::SeqCst);
        until("it is tried again", || bench.memory.requests.load(Ordering::SeqCst) > asked);
        bench.memory.answers(true);
        waiting.into_iter().for_each(|one| one.join().unwrap().unwrap());
    });
    assert_eq!(bringer.trouble(), None);
    assert_eq!(bench.pieces().len(), 1);
    bench.check(&bench.there()[0]);
}

#[test]
fn what_is_missing_there_is_damage() {
    let bench = Bench::new();
    let bringer = bench.bringer();
    for _ in 0..3 {
        bench.here.grow(1, 100);
        bringer.bring_all(Duration::ZERO).unwrap();
    }
    let fetch = |bench: &Bench| {
        let folder = tempfile::tempdir().unwrap();
        let into: &Path = folder.path();
        bench.there()[0].fetch(&*bench.memory, &tenant(), into)
    };
    fetch(&bench).unwrap();
    bench.memory.tamper(&bench.pieces()[2], |bytes| bytes.truncate(50));
    assert!(matches!(fetch(&bench), Err(NotFetched::Damaged(why)) if why.contains("50 bytes")));
    bench.memory.forget(&bench.pieces()[1]);
    assert!(
        matches!(fetch(&bench), Err(NotFetched::Damaged(why)) if why.contains("missing from 100"))
    );
}

#[test]
fn what_went_missing_in_the_middle_is_brought_again() {
    let bench = Bench::new();
    for _ in 0..3 {
        bench.here.grow(1, 100);
        bench.bringer().bring_all(Duration::ZERO).unwrap();
    }
    bench.here.grow(50, 40);
    bench.bringer().bring_all(Duration::ZERO).unwrap();
    bench.memory.forget(&bench.pieces()[1]);
    assert!(bench.there()[0].hole().is_some());
    bench.here.grow(50, 40);
    let bringer = bench.bringer();
    bringer.bring_all(Duration::ZERO).unwrap();
    assert_eq!((bringer.take_begun_anew(), bench.there().len()), (None, 1));
    bench.check(&bench.there()[0]);
}

#[test]
fn the_folder_is_looked_at_again_when_another_volume_began_and_not_for_each_entry() {
    let bench = Bench::new();
    let bringer = bench.bringer();
    let looks = || bench.here.1.load(Ordering::SeqCst);
    bench.here.grow(1, 100);
    bringer.bring((1, 100), PATIENCE).unwrap();
    let begun = looks();
    for bytes in [200, 300, 400] {
        bench.here.grow(1, 100);
        bringer.bring((1, bytes), PATIENCE).unwrap();
    }
    assert_eq!(looks(), begun);
    // The rest of the previous volume is uploaded with the next one.
    bench.here.grow(1, 50);
    bench.here.grow(50, 10);
    bringer.bring((50, 10), PATIENCE).unwrap();
    assert_eq!(looks(), begun + 1);
    bench.here.grow(50, 10);
    bringer.bring((50, 20), PATIENCE).unwrap();
    assert_eq!(looks(), begun + 1);
    let there = bench.there();
    assert_eq!(there.len(), 1);
    bench.check(&there[0]);
    // An end behind the end of the volume is not reported as uploaded.
    let refused = bringer.bring((50, 30), Duration::ZERO).unwrap_err();
    assert!(!refused.may_pass, "{refused}");
    bench.here.grow(50, 5);
    bringer.bring((50, 25), Duration::ZERO).unwrap();
}
