//! A replica equals the store that is written, after each part that it receives.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use engine::{
    BackgroundWorkers, Batch, CommitInfo, EdgeId, Env, ItemDraft, ItemId, NoThrottle, OpenError,
    Options, Remedy, SourceId, Store, StoreReader, WriteError,
};
use serde_json::Value;
use support_engine::courier::{Courier, Delivery, Place};
use support_engine::ground::{self, Dice};
use support_engine::listing::{Asked, listing};
use support_engine::memory_disk::MemoryDisk;
use support_engine::sample::{
    self, MODEL, Seals, file, halves, hide, hide_edge, items, link, note, tombstones,
};

const SEEDS: u64 = 12;
const STEPS: usize = 40;
const WORDS: [&str; 3] = ["amber", "birch", "cedar"];
const READ_ONLY_REASON: &str = "node b writes it";

/// A store with random writes, and a [`Courier`] that collects the deliveries for its replica.
struct LeaderFixture {
    disk: MemoryDisk,
    courier: Arc<Courier>,
    store: Option<Store>,
    opened: u64,
    options: Options,
    standing: Vec<ItemId>,
    asked: Asked,
}

impl LeaderFixture {
    fn new(options: Options) -> Self {
        let (disk, courier) = (MemoryDisk::default(), Arc::new(Courier::default()));
        let query = vec![0.25, -0.5, 1.0, 2.0];
        let words = WORDS.map(str::to_owned).to_vec();
        let asked = Asked { query, words, ..Asked::default() };
        let mut writer =
            Self { disk, courier, store: None, opened: 0, options, standing: vec![], asked };
        writer.open();
        writer
    }

    fn open(&mut self) {
        self.store = None;
        self.opened += 1;
        let ground = ground::still(Arc::new(self.disk.clone()), self.opened);
        let ground = Env { replication_sink: Some(Arc::clone(&self.courier) as _), ..ground };
        self.store = Some(Store::open(ground, self.options).expect("it opens"));
    }

    /// Simulates a killed process: no mark ends the log.
    fn kill(&mut self) {
        let files = self.disk.files();
        self.store = None;
        self.disk = MemoryDisk::holding(files);
        self.open();
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is closed only within open")
    }

    fn shown(&self) -> Value {
        listing(&self.store().snapshot(), &self.asked).unwrap()
    }

    fn write(&mut self, batch: Batch) {
        let CommitInfo { items, edges, sources, .. } = self.store().write(batch).unwrap();
        self.standing.extend(items);
        self.asked.edges.extend(edges);
        self.asked.sources.extend(sources);
    }

    fn item(&mut self, dice: &mut Dice) -> ItemDraft {
        let mut item = note(WORDS[dice.index(WORDS.len())]);
        if dice.below(3) > 0 && self.store().snapshot().model().is_some() {
            let one = f32::from(dice.roll().to_le_bytes()[0]);
            item.embedding = halves([1.0, 0.5, 0.25, one]);
        }
        if dice.below(3) == 0 && !self.standing.is_empty() {
            item.supersedes = vec![self.standing.swap_remove(dice.index(self.standing.len()))];
        }
        item
    }

    fn step(&mut self, dice: &mut Dice) {
        let one = |dice: &mut Dice, of: &[ItemId]| of[dice.index(of.len())];
        match dice.below(20) {
            0..=7 => {
                let drafts: Vec<_> = (0..=dice.below(2)).map(|_| self.item(dice)).collect();
                self.write(items(drafts));
            }
            8 => self.write(Batch { sources: vec![file("file:///a.md")], ..Batch::default() }),
            9 | 10 if self.standing.len() > 1 => {
                let (a, b) = (one(dice, &self.standing), one(dice, &self.standing));
                self.write(Batch { edges: vec![link(a, b, 0.5)], ..Batch::default() });
            }
            11 if !self.standing.is_empty() => {
                let gone = self.standing.swap_remove(dice.index(self.standing.len()));
                self.write(tombstones([hide(gone)]));
            }
            12 if !self.asked.edges.is_empty() => {
                let edge: EdgeId = self.asked.edges[dice.index(self.asked.edges.len())];
                if self.store().snapshot().edge(edge).unwrap().is_some() {
                    self.write(tombstones([hide_edge(edge)]));
                }
            }
            13 | 14 => self.store().seal().unwrap(),
            15 => {
                self.store().compact_fully(&NoThrottle).unwrap();
            }
            16 if !self.standing.is_empty() => {
                let gone = self.standing.swap_remove(dice.index(self.standing.len()));
                self.store().erase(&[gone.0], "tester", "asked for", &NoThrottle).unwrap();
            }
            17 => self.open(),
            18 => self.kill(),
            _ => self.store().bind_model(MODEL).unwrap(),
        }
    }
}

/// Delays manifests, and the files that appear and disappear with them.
struct DelayedDelivery {
    /// Delays one delivery in this many; 0 for none.
    one_in: u64,
    held: Vec<Delivery>,
}

impl DelayedDelivery {
    /// Returns the deliveries of this step: bytes of logs at once, the others in order when the dice decide.
    fn reorder(&mut self, deliveries: Vec<Delivery>, dice: &mut Dice) -> Vec<Delivery> {
        let mut now = Vec::new();
        for delivery in deliveries {
            let is_log = matches!(delivery, Delivery::Bytes(..));
            if is_log || self.one_in == 0 || self.held.is_empty() && dice.below(self.one_in) > 0 {
                now.push(delivery);
            } else {
                self.held.push(delivery);
            }
        }
        if self.one_in > 0 && dice.below(self.one_in) == 0 {
            now.append(&mut self.held);
        }
        now
    }
}

/// Cuts deliveries into random pieces.
fn split_deliveries(deliveries: Vec<Delivery>, dice: &mut Dice) -> Vec<Delivery> {
    let cut = |delivery: Delivery, dice: &mut Dice| {
        let bytes = match &delivery {
            Delivery::Bytes(_, _, bytes) => bytes.len(),
            _ => 1,
        };
        delivery.split(dice.index(bytes))
    };
    let once: Vec<_> = deliveries.into_iter().flat_map(|delivery| cut(delivery, dice)).collect();
    once.into_iter().flat_map(|delivery| cut(delivery, dice)).collect()
}

/// Replicates random writes to a directory that `ground` opens.
fn check_random_replica(seed: u64, to: &(impl Place + ?Sized), ground: impl Fn() -> Env) {
    let mut dice = Dice::new(seed);
    let options =
        if dice.below(2) == 0 { Options::default() } else { support_engine::ground::unmerged() };
    let mut writer = LeaderFixture::new(options);
    let (one_in, looks_in_four) = (dice.below(4), 1 + dice.below(4));
    let mut late = DelayedDelivery { one_in, held: Vec::new() };
    if late.one_in > 0 {
        // The delivery that binds the model must not be delayed.
        writer.store().bind_model(MODEL).unwrap();
        writer.courier.deliveries().iter().for_each(|delivery| delivery.bring(to));
    }
    let mut follower: Option<Store> = None;
    for step in 0..STEPS {
        writer.step(&mut dice);
        let told = format!("seed {seed}, step {step}");
        let brought = late.reorder(writer.courier.deliveries(), &mut dice);
        for piece in split_deliveries(brought, &mut dice) {
            piece.bring(to);
            if dice.below(4) >= looks_in_four {
                continue;
            }
            let Some(store) = &follower else {
                follower = match Store::open_replica(ground(), options, READ_ONLY_REASON) {
                    Ok(store) => Some(store),
                    Err(OpenError::NoStore) => None,
                    Err(error) => panic!("{told}: {error}"),
                };
                continue;
            };
            store.refresh().unwrap_or_else(|error| panic!("{told}, {piece:?}: {error}"));
            // The reference is a reader that opens the directory anew.
            let found = StoreReader::open(ground().disk).unwrap().snapshot();
            let followed = store.snapshot();
            assert_eq!(followed.seq(), found.seq(), "{told}");
            let seen = listing(&followed, &writer.asked).unwrap();
            assert_eq!(seen, listing(&found, &writer.asked).unwrap(), "{told}");
        }
        let Some(store) = &follower else { continue };
        if step + 1 < STEPS && dice.below(4) >= looks_in_four {
            continue;
        }
        store.refresh().unwrap();
        assert_eq!(store.snapshot().seq(), writer.store().snapshot().seq(), "{told}");
        if late.held.is_empty() {
            let seen = listing(&store.snapshot(), &writer.asked).unwrap();
            assert_eq!(seen, writer.shown(), "{told}");
        }
        if dice.below(12) == 0 {
            follower = None;
        }
    }
    assert!(writer.store().snapshot().seq() > STEPS as u64 / 4, "seed {seed} wrote little");
}

#[test]
fn replica_equals_the_leader_at_every_delivery_prefix() {
    let seed = ground::fresh_seed();
    println!("RECALLD_TEST_SEED={seed}");
    for seed in (0..SEEDS).map(|n| seed.wrapping_add(n)) {
        let disk = MemoryDisk::default();
        check_random_replica(seed, &disk, || ground::still(Arc::new(disk.clone()), 1));
    }
}

#[test]
fn replica_on_a_real_directory_equals_the_leader() {
    let seed = ground::fresh_seed();
    println!("RECALLD_TEST_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let path: &Path = folder.path();
    check_random_replica(seed, path, || ground::folder(path, 1));
}

/// Returns a writer with its courier, and the directory of a replica.
fn pair() -> (LeaderFixture, MemoryDisk) {
    (LeaderFixture::new(Options::default()), MemoryDisk::default())
}

fn deliver_all(writer: &LeaderFixture, to: &MemoryDisk) {
    writer.courier.deliveries().iter().for_each(|delivery| delivery.bring(to));
}

fn open_replica(disk: &MemoryDisk) -> Store {
    let ground = ground::still(Arc::new(disk.clone()), 7);
    Store::open_replica(ground, Options::default(), READ_ONLY_REASON).unwrap()
}

#[test]
fn replica_refresh_reads_only_new_bytes() {
    const COMMITS: u64 = 200;
    let (mut writer, disk) = pair();
    // A segment that stays, and as many bytes in the log.
    let text = |_| note(&"long ".repeat(2000));
    writer.write(items((0..50).map(text)));
    writer.store().seal().unwrap();
    writer.write(items((0..50).map(text)));
    deliver_all(&writer, &disk);
    let store = open_replica(&disk);
    let (read, log) = (disk.bytes_read(), writer.store().metrics().log_bytes);
    assert!(log > 500_000);
    for _ in 0..COMMITS {
        writer.write(items([note("short")]));
        deliver_all(&writer, &disk);
        store.refresh().unwrap();
    }
    let header = 64;
    let grown = writer.store().metrics().log_bytes - log;
    assert_eq!(disk.bytes_read() - read, grown + COMMITS * header, "each byte once");
    // If nothing is new, a refresh costs a header; a new manifest costs neither the segment nor the log.
    let read = disk.bytes_read();
    store.refresh().unwrap();
    assert_eq!(disk.bytes_read() - read, header);
    writer.store().bind_model(MODEL).unwrap();
    deliver_all(&writer, &disk);
    store.refresh().unwrap();
    assert_eq!(store.snapshot().model(), Some(MODEL));
    let manifest = disk.files().into_iter().rfind(|(name, _)| name.starts_with("manifest-"));
    let manifest = manifest.unwrap().1.len() as u64;
    assert_eq!(disk.bytes_read() - read, manifest + 2 * header);
    assert_eq!(store.metrics().log_bytes, writer.store().metrics().log_bytes);
    let edition = store.snapshot().version();
    store.refresh().unwrap();
    assert_eq!(store.snapshot().version(), edition, "there was no news");
}

#[test]
fn replica_rejects_writes_and_changes_no_file() {
    let (mut writer, disk) = pair();
    let written = sample::furnish(writer.store(), Seals(&[1, 2]), |_, _| {}).unwrap();
    writer.asked = Asked::of(&writer.store().snapshot(), &written).unwrap();
    deliver_all(&writer, &disk);
    let before = disk.files();
    let store = Arc::new(open_replica(&disk));
    assert!(store.is_replica() && !writer.store().is_replica());
    let gone = written[0].items[0];
    let refused = [
        store.write(items([note("no")])).map(drop),
        store.seal(),
        store.sync(),
        store.bind_model(MODEL),
        store.compact(&NoThrottle).map(drop),
        store.erase(&[gone.0], "tester", "test", &NoThrottle),
        store.erase_pending(&NoThrottle).map(drop),
        store.build_next_index(&NoThrottle).map(drop),
    ];
    for told in refused {
        let error = told.unwrap_err();
        assert!(matches!(&error, WriteError::NotLeader(why) if why == READ_ONLY_REASON), "{error}");
        assert_eq!(
            (error.remedy(), error.to_string().as_str()),
            (Remedy::AskLeader, READ_ONLY_REASON)
        );
    }
    assert!(store.backup(&MemoryDisk::default()).is_err());
    assert_eq!((store.stop_reason(), store.erasures_pending().unwrap()), (None, 0));
    drop(BackgroundWorkers::start(Arc::clone(&store)).unwrap());
    let ground = ground::still(Arc::new(disk.clone()), 8);
    assert!(matches!(Store::open(ground, Options::default()), Err(OpenError::Locked)));
    assert_eq!(listing(&store.snapshot(), &writer.asked).unwrap(), writer.shown());
    assert_eq!(store.metrics().segments, writer.store().metrics().segments);
    assert!(store.bytes_on_disk() > 0);
    drop(store);
    assert_eq!(disk.files(), before);
    assert_eq!(writer.store().refresh().unwrap(), writer.store().snapshot().seq());
}

#[test]
fn replica_of_an_empty_directory_fails_and_creates_nothing() {
    let disk = MemoryDisk::default();
    let ground = ground::still(Arc::new(disk.clone()), 7);
    let error = Store::open_replica(ground, Options::default(), READ_ONLY_REASON).unwrap_err();
    assert!(matches!(error, OpenError::NoStore), "{error}");
    assert!(disk.files().is_empty());
}

#[test]
fn replica_reports_pending_erasures_of_the_leader() {
    let (mut writer, disk) = pair();
    writer.write(items([note("one"), note("two")]));
    let gone = writer.standing[0];
    let stone = engine::TombstoneDraft { erase: true, ..hide(gone) };
    writer.write(tombstones([stone]));
    deliver_all(&writer, &disk);
    let store = open_replica(&disk);
    assert_eq!(store.erasures_pending().unwrap(), 1);
    assert_eq!(store.item_erasures_pending().unwrap(), 1);
    writer.store().erase_pending(&NoThrottle).unwrap();
    deliver_all(&writer, &disk);
    store.refresh().unwrap();
    assert_eq!(store.erasures_pending().unwrap(), 0);
    assert_eq!(store.snapshot().find(gone).unwrap(), None);
}

/// A refresh reports damage of the directory, and the old snapshot stays until the damage is repaired.
#[test]
fn replica_keeps_its_view_after_a_refresh_error() {
    let (mut writer, disk) = pair();
    writer.write(items([note("one")]));
    deliver_all(&writer, &disk);
    let store = open_replica(&disk);
    let rule = |store: &Store| match store.refresh().unwrap_err() {
        OpenError::Damaged(damage) => damage.rule,
        other => panic!("{other}"),
    };
    let good = disk.files();
    // A manifest arrives before its logs.
    writer.write(items([note("two")]));
    writer.store().seal().unwrap();
    let deliveries = writer.courier.deliveries();
    let is_manifest =
        |it: &&Delivery| matches!(it, Delivery::File(name, _) if name.starts_with("manifest-"));
    deliveries.iter().find(is_manifest).unwrap().bring(&disk);
    assert_eq!((rule(&store), store.snapshot().seq()), ("MAN-03", 1), "a log is missing");
    for delivery in &deliveries {
        match delivery {
            Delivery::Bytes(name, ..) if !good.contains_key(name) => delivery.bring(&disk),
            _ => {}
        }
    }
    assert_eq!((rule(&store), store.snapshot().seq()), ("LOG-03", 1), "one is not whole");
    deliveries.iter().for_each(|delivery| delivery.bring(&disk));
    assert_eq!(store.refresh().unwrap(), 2);
    // The previous manifest is the newest again.
    let newest = disk.files().into_keys().rfind(|name| name.starts_with("manifest-")).unwrap();
    let manifest = disk.files()[&newest].clone();
    Place::take(&disk, &newest);
    assert_eq!((rule(&store), store.snapshot().seq()), ("MAN-03", 2));
    disk.put(&newest, &manifest);
    assert_eq!(store.refresh().unwrap(), 2);
    // A log loses bytes that were already read.
    writer.write(items([note("three")]));
    deliver_all(&writer, &disk);
    assert_eq!(store.refresh().unwrap(), 3);
    let log = disk.files().into_keys().rfind(|name| name.starts_with("log-")).unwrap();
    let bytes = disk.files()[&log].clone();
    disk.put(&log, &bytes[..bytes.len() - 1]);
    assert_eq!((rule(&store), store.snapshot().seq()), ("LOG-04", 3));
    disk.put(&log, &bytes);
    assert_eq!(store.refresh().unwrap(), 3);
    // Files of another store arrive.
    let (mut other, elsewhere) = pair();
    other.opened = 99;
    other.disk = MemoryDisk::default();
    other.open();
    (0..9).for_each(|_| other.write(items([note("other")])));
    other.store().seal().unwrap();
    (0..3).for_each(|_| other.open());
    deliver_all(&other, &elsewhere);
    for (name, bytes) in elsewhere.files() {
        disk.put(&name, &bytes);
    }
    assert_eq!(store.snapshot().seq(), 3);
    assert!(store.refresh().is_err());
    assert_eq!(store.snapshot().seq(), 3);
}

/// Roles change by closing and opening.
#[test]
fn replica_and_leader_swap_roles() {
    let (mut writer, disk) = pair();
    writer.write(items([note("amber")]));
    deliver_all(&writer, &disk);
    let store = open_replica(&disk);
    let held = store.snapshot();
    drop(store);
    let mut second = LeaderFixture::new(Options::default());
    second.disk = disk;
    second.courier = Arc::default();
    second.opened = 20;
    second.open();
    assert_eq!(second.store().snapshot().seq(), 1);
    second.write(items([note("birch")]));
    assert_eq!(held.seq(), 1, "a snapshot stays good");
    // The first store is the replica now; its log has a mark that the other's never had.
    writer.store = None;
    let first = open_replica(&writer.disk);
    deliver_all(&second, &writer.disk);
    first.refresh().unwrap();
    second.asked.sources = vec![SourceId(9)];
    assert_eq!(listing(&first.snapshot(), &second.asked).unwrap(), second.shown());
}

/// Commits that the replica never read in a log are in a segment by then, and their effects on other rows in state
/// files.
#[test]
fn late_refresh_applies_retirements_of_sealed_commits() {
    let (mut writer, disk) = (LeaderFixture::new(ground::unmerged()), MemoryDisk::default());
    writer.write(items([note("amber"), note("birch"), note("cedar")]));
    writer.store().seal().unwrap();
    deliver_all(&writer, &disk);
    let store = open_replica(&disk);
    let (old, gone) = (writer.standing[0], writer.standing[1]);
    writer.write(items([ItemDraft { supersedes: vec![old], ..note("amber") }]));
    writer.write(tombstones([hide(gone)]));
    writer.store().seal().unwrap();
    deliver_all(&writer, &disk);
    store.refresh().unwrap();
    assert_eq!(listing(&store.snapshot(), &writer.asked).unwrap(), writer.shown());
    assert_eq!(store.snapshot().row_counts().unwrap().superseded, 1);
}

#[test]
fn replica_merges_large_tail_segments_as_they_arrive() {
    let (mut writer, disk) = pair();
    writer.write(items([note("first")]));
    deliver_all(&writer, &disk);
    let store = open_replica(&disk);
    for n in 0..40 {
        let texts = (0..3).map(|at| note(&format!("word{n}x{at} ").repeat(25_000)));
        writer.write(items(texts));
        deliver_all(&writer, &disk);
        store.refresh().unwrap();
    }
    let parts = store.snapshot().row_counts().unwrap().segments;
    assert!(parts < 16, "{parts} parts");
    assert_eq!(store.snapshot().seq(), 41);
}
