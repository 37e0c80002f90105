//! Vector search through indexes: results, use of the index, and its files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use engine::limits::{COMPACT_FREE_BYTES_MIN, INDEX_LIMIT_MAX};
use engine::os::disk::{Disk, FsDisk};
use engine::{
    AnnPolicy, BackgroundWorkers, Batch, BatchQuery, Filter, IndexOutcome, ItemDraft, ItemId,
    Model, NoThrottle, Options, SearchMode, Snapshot, Store, StoreReader, Throttle, WriteError,
    restore, verify,
};
use half::f16;
use kernels::{Kernels, Team};
use support_engine::ground::{self, Dice};
use support_engine::memory_disk::{Files, MemoryDisk};
use support_engine::reseal;
use support_engine::sample::{hide, items, note, tombstones};

use super::scratch_store::ScratchStore;

const WIDTH: usize = 48;
const MODEL: Model = Model { fingerprint: [8; 32], dimensions: 48 };
const ROWS: usize = 4000;
/// Number of centres that the rows cluster around, as texts do around topics.
const CENTRES: usize = 60;
const BEST: usize = 10;
const QUESTIONS: usize = 100;

fn options(mode: SearchMode) -> Options {
    let searching = AnnPolicy { mode, approximate_rows_min: 3000, index_rows_min: 1000 };
    Options { ann_policy: searching, merge_bytes_max: 0, ..Options::default() }
}

/// Points around centres.
struct ClusteredPoints {
    dice: Dice,
    centres: Vec<Vec<f32>>,
}

impl ClusteredPoints {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let centres = (0..CENTRES).map(|_| (0..WIDTH).map(|_| unit(&mut dice)).collect()).collect();
        Self { dice, centres }
    }

    fn point(&mut self, spread: f32) -> Vec<f32> {
        let near = self.dice.index(CENTRES);
        let dice = &mut self.dice;
        self.centres[near].iter().map(|x| x + unit(dice) * spread).collect()
    }

    fn batch(&mut self, rows: usize, text: &str) -> Batch {
        let draft = |at: usize| ItemDraft {
            kind: format!("kind {}", at % 3),
            embedding: self.point(0.7).into_iter().map(f16::from_f32).collect(),
            ..note(text)
        };
        items((0..rows).map(draft))
    }
}

/// Returns a number uniform in -1..1.
fn unit(dice: &mut Dice) -> f32 {
    dice.below(1 << 20) as f32 / (1 << 19) as f32 - 1.0
}

/// Makes a store of one sealed segment, and returns it with its rows' ids and points.
fn indexed_store(mode: SearchMode) -> (ScratchStore, Vec<ItemId>, ClusteredPoints) {
    let scratch = ScratchStore::with(options(mode));
    let mut cloud = ClusteredPoints::new(0x1D_0101);
    scratch.store().bind_model(MODEL).unwrap();
    let written = scratch.write(cloud.batch(ROWS, "one of many")).items;
    scratch.seal();
    (scratch, written, cloud)
}

fn nearest(snapshot: &Snapshot, query: &[f32], filter: &Filter) -> Vec<ItemId> {
    let hits = snapshot.nearest(&Kernels::detect(), query, BEST, filter).unwrap();
    hits.into_iter().map(|hit| snapshot.id(hit.address).unwrap()).collect()
}

fn nearest_exact(snapshot: &Snapshot) -> Snapshot {
    snapshot.clone().with_search_mode(SearchMode::Exact)
}

/// Returns the fraction of the exact nearest neighbours that are found.
fn recall(snapshot: &Snapshot, cloud: &mut ClusteredPoints, filter: &Filter) -> f64 {
    let (mut found, mut wanted) = (0, 0);
    for _ in 0..QUESTIONS {
        let query = cloud.point(0.9);
        let best = nearest(&nearest_exact(snapshot), &query, filter);
        let through = nearest(snapshot, &query, filter);
        found += best.iter().filter(|id| through.contains(id)).count();
        wanted += best.len();
    }
    found as f64 / wanted as f64
}

fn index(scratch: &ScratchStore) -> IndexOutcome {
    scratch.store().build_next_index(&NoThrottle).unwrap()
}

/// Returns the index files of the store.
fn indexes(scratch: &ScratchStore) -> Vec<PathBuf> {
    let files = fs::read_dir(scratch.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.to_string_lossy().contains("index-")).collect()
}

fn disk(scratch: &ScratchStore) -> FsDisk {
    FsDisk::open(scratch.folder.path()).unwrap()
}

#[test]
fn index_has_high_recall_and_survives_reopening() {
    let (mut scratch, _, mut cloud) = indexed_store(SearchMode::Approximate);
    assert!(!scratch.snapshot().ann_status().is_approximate, "there is none yet");
    let before = scratch.snapshot();
    assert_eq!(index(&scratch), IndexOutcome::Built { rows: 4000 });
    assert_eq!(index(&scratch), IndexOutcome::NothingToDo);
    assert!(before.ann_status().is_approximate, "an index speaks of rows that never change");
    for _ in 0..2 {
        let snapshot = scratch.snapshot();
        let state = snapshot.ann_status();
        assert!(state.is_approximate && state.recall_at_10 >= 0.98, "{state:?}");
        assert_eq!((state.rows, state.indexed_rows), (4000, 4000));
        assert_eq!(state.neighbours_measured, 512 * 10);
        let found = recall(&snapshot, &mut cloud, &Filter::default());
        assert!(found >= 0.98, "{found}");
        let files = fs::read_dir(scratch.folder.path()).unwrap();
        let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert_eq!(scratch.store().bytes_on_disk(), bytes);
        let reader = StoreReader::open(std::sync::Arc::new(disk(&scratch))).unwrap();
        assert_eq!(reader.snapshot().ann_status().indexed_rows, 4000);
        scratch.reopen();
    }
    let verified = verify(&disk(&scratch), &mut |_| ()).unwrap();
    assert!(verified.is_clean() && verified.notes.is_empty(), "{verified:?}");
    assert_eq!(verified.totals.indexes, 1);
}

#[test]
fn indexed_search_respects_filters_and_masks() {
    let (scratch, ids, mut cloud) = indexed_store(SearchMode::Approximate);
    index(&scratch);
    let filter = Filter { kinds: vec!["kind 1".to_owned()], ..Filter::default() };
    let hidden: Vec<ItemId> = ids.iter().copied().step_by(5).collect();
    scratch.write(tombstones(hidden.iter().map(|&id| hide(id))));
    let snapshot = scratch.snapshot();
    assert!(snapshot.ann_status().is_approximate);
    let found = recall(&snapshot, &mut cloud, &filter);
    assert!(found >= 0.97, "{found}");
    for _ in 0..QUESTIONS {
        for id in nearest(&snapshot, &cloud.point(0.9), &filter) {
            let item = snapshot.item(snapshot.find(id).unwrap().unwrap()).unwrap();
            assert!(item.kind == "kind 1" && !hidden.contains(&id));
        }
    }
}

/// Exact search is used if a filter admits few rows, all far from the query; for chosen rows; and for many results.
#[test]
fn uncalibrated_searches_are_exact() {
    let scratch = ScratchStore::with(options(SearchMode::Approximate));
    let mut cloud = ClusteredPoints::new(0x1D_0104);
    scratch.store().bind_model(MODEL).unwrap();
    let mut batch = cloud.batch(ROWS, "one of many");
    for item in batch.items.iter_mut().skip(700).step_by(500).take(5) {
        let far = cloud.centres[0].iter().map(|x| x + unit(&mut cloud.dice) * 0.1);
        (item.embedding, item.kind) = (far.map(f16::from_f32).collect(), "rare".to_owned());
    }
    let written = scratch.write(batch).items;
    scratch.seal();
    index(&scratch);
    let snapshot = scratch.snapshot();
    assert!(snapshot.ann_status().is_approximate);
    let rare = Filter { kinds: vec!["rare".to_owned()], ..Filter::default() };
    let chosen = written.iter().skip(3).step_by(300);
    let places: Vec<_> = chosen.map(|&id| snapshot.find(id).unwrap().unwrap()).collect();
    let among = Some(std::sync::Arc::new(snapshot.item_set(&places)));
    let among = Filter { allowlist: among, ..Filter::default() };
    let everything = Filter::default();
    for _ in 0..QUESTIONS {
        let query = cloud.point(0.9);
        assert_eq!(nearest(&snapshot, &query, &rare).len(), 5);
        for (filter, limit) in [(&rare, BEST), (&among, BEST), (&everything, INDEX_LIMIT_MAX + 1)] {
            let hits = |snapshot: &Snapshot| {
                snapshot.nearest(&Kernels::detect(), &query, limit, filter).unwrap()
            };
            assert_eq!(hits(&snapshot), hits(&nearest_exact(&snapshot)), "{filter:?}");
        }
    }
    // Another query of the same batch does use the index.
    let (one, other) = (cloud.point(0.9), cloud.point(0.9));
    let asked = [(&one, &rare), (&other, &everything), (&one, &among)];
    let asked = asked.map(|(query, filter)| BatchQuery { query, limit: BEST, filter });
    let kernels = Kernels::detect();
    let found = snapshot.nearest_batch(&kernels, &mut Team::of(2), &asked).unwrap();
    let alone = asked.map(|one| snapshot.nearest(&kernels, one.query, BEST, one.filter).unwrap());
    assert_eq!(found, alone);
}

/// Most rows are admitted, but none of the query's near rows are.
#[test]
fn indexed_search_continues_until_the_limit_is_filled() {
    let scratch = ScratchStore::with(options(SearchMode::Approximate));
    let mut cloud = ClusteredPoints::new(0x1D_0105);
    scratch.store().bind_model(MODEL).unwrap();
    let mut batch = cloud.batch(ROWS, "one of many");
    let is_near = |at: usize| at.is_multiple_of(10);
    for (_, item) in batch.items.iter_mut().enumerate().filter(|(at, _)| is_near(*at)) {
        let near = cloud.centres[0].iter().map(|x| x * 3.0 + unit(&mut cloud.dice) * 0.2);
        (item.embedding, item.kind) = (near.map(f16::from_f32).collect(), "near".to_owned());
    }
    scratch.write(batch);
    scratch.seal();
    index(&scratch);
    let snapshot = scratch.snapshot();
    assert!(snapshot.ann_status().is_approximate);
    let far =
        Filter { kinds: (0..3).map(|of| format!("kind {of}")).collect(), ..Filter::default() };
    assert_eq!(nearest(&snapshot, &cloud.centres[0], &far).len(), BEST);
}

#[test]
fn unindexed_new_rows_are_found() {
    let (scratch, _, mut cloud) = indexed_store(SearchMode::Approximate);
    index(&scratch);
    for _ in 0..20 {
        let batch = cloud.batch(1, "new");
        let query: Vec<f32> = batch.items[0].embedding.iter().map(|half| half.to_f32()).collect();
        let written = scratch.write(batch).items;
        assert_eq!(nearest(&scratch.snapshot(), &query, &Filter::default())[0], written[0]);
    }
}

#[test]
fn auto_mode_uses_indexes_in_large_fully_indexed_stores() {
    let scratch = ScratchStore::with(options(SearchMode::Auto));
    let mut cloud = ClusteredPoints::new(0x1D_0102);
    scratch.store().bind_model(MODEL).unwrap();
    scratch.write(cloud.batch(2900, "few"));
    scratch.seal();
    assert_eq!(index(&scratch), IndexOutcome::NothingToDo, "the store is small");
    scratch.write(cloud.batch(100, "enough"));
    let state = || scratch.snapshot().ann_status();
    assert!(!state().is_approximate, "nothing is in an index");
    assert_eq!(index(&scratch), IndexOutcome::Built { rows: 2900 });
    assert!(state().is_approximate);
    scratch.write(cloud.batch(2000, "more"));
    let behind = state();
    assert!(!behind.is_approximate, "too much is in no index: {behind:?}");
    assert_eq!((behind.recall_at_10, behind.neighbours_measured), (1.0, 0));
    let snapshot = scratch.snapshot();
    let query = cloud.point(0.9);
    let everything = Filter::default();
    assert_eq!(
        nearest(&snapshot, &query, &everything),
        nearest(&nearest_exact(&snapshot), &query, &everything)
    );
    scratch.seal();
    assert_eq!(index(&scratch), IndexOutcome::Built { rows: 2100 });
    assert!(state().is_approximate);
}

#[test]
fn exact_mode_builds_and_uses_no_index() {
    let (scratch, ..) = indexed_store(SearchMode::Exact);
    assert_eq!(index(&scratch), IndexOutcome::NothingToDo);
    assert!(indexes(&scratch).is_empty());
}

/// Half of the rows are copies: a query near one copy is near all of them.
#[test]
fn search_scans_all_rows_when_the_index_is_not_useful() {
    let scratch = ScratchStore::with(options(SearchMode::Approximate));
    scratch.store().bind_model(MODEL).unwrap();
    let mut dice = Dice::new(0x1D_0103);
    let mut point = || (0..WIDTH).map(|_| f16::from_f32(unit(&mut dice))).collect::<Vec<f16>>();
    let copied = point();
    let row = |at: usize| if at.is_multiple_of(2) { copied.clone() } else { point() };
    let rows: Vec<Vec<f16>> = (0..2500).map(row).collect();
    let draft = |embedding| ItemDraft { embedding, ..note("half of them are the same") };
    scratch.write(items(rows.into_iter().map(draft)));
    scratch.seal();
    assert_eq!(index(&scratch), IndexOutcome::Built { rows: 2500 });
    assert_eq!(index(&scratch), IndexOutcome::NothingToDo, "it is not made again and again");
    let snapshot = scratch.snapshot();
    assert!(!snapshot.ann_status().is_approximate);
}

#[test]
fn corrupt_index_is_unused_reported_and_rebuilt() {
    let (mut scratch, _, mut cloud) = indexed_store(SearchMode::Approximate);
    index(&scratch);
    scratch.close();
    let [path] = &*indexes(&scratch) else { panic!("one segment") };
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, &bytes).unwrap();
    let verified = verify(&disk(&scratch), &mut |_| ()).unwrap();
    let [finding] = &*verified.findings else { panic!("{:?}", verified.findings) };
    assert_eq!(finding.rule, "IDX-07");
    scratch.reopen();
    let snapshot = scratch.snapshot();
    assert!(!snapshot.ann_status().is_approximate);
    assert_eq!(nearest(&snapshot, &cloud.point(0.9), &Filter::default()).len(), BEST);
    assert_eq!(index(&scratch), IndexOutcome::Built { rows: 4000 });
    assert!(verify(&disk(&scratch), &mut |_| ()).unwrap().is_clean());
}

/// Cancels every job.
struct CancelAfter;

impl Throttle for CancelAfter {
    fn after_write(&self, _bytes: usize) -> bool {
        false
    }
    fn after_work(&self) -> bool {
        false
    }
}

#[test]
fn existing_valid_index_is_used_without_a_rebuild() {
    let (mut scratch, ..) = indexed_store(SearchMode::Approximate);
    index(&scratch);
    let [path] = &*indexes(&scratch) else { panic!("one segment") };
    let bytes = fs::read(path).unwrap();
    scratch.close();
    fs::remove_file(path).unwrap();
    scratch.reopen();
    assert_eq!(scratch.store().build_next_index(&CancelAfter).unwrap(), IndexOutcome::Cancelled);
    fs::write(path, bytes).unwrap();
    assert_eq!(
        scratch.store().build_next_index(&CancelAfter).unwrap(),
        IndexOutcome::Built { rows: 4000 }
    );
    assert!(scratch.snapshot().ann_status().is_approximate);
}

/// Makes a store in memory with one segment of each of the given row counts.
fn in_memory(sizes: &[usize]) -> (MemoryDisk, Store) {
    let memory = MemoryDisk::default();
    let store = reopened(&memory);
    let mut cloud = ClusteredPoints::new(0x1D_0104);
    store.bind_model(MODEL).unwrap();
    for &rows in sizes {
        store.write(cloud.batch(rows, "one of many")).unwrap();
        store.seal().unwrap();
    }
    (memory, store)
}

fn reopened(memory: &MemoryDisk) -> Store {
    let ground = ground::still(Arc::new(memory.clone()), 6);
    Store::open(ground, options(SearchMode::Approximate)).unwrap()
}

#[test]
fn index_build_requires_free_disk_space() {
    let (memory, store) = in_memory(&[2000]);
    memory.leave_free(COMPACT_FREE_BYTES_MIN);
    let IndexOutcome::NoRoom { wanted, free } = store.build_next_index(&NoThrottle).unwrap() else {
        panic!("there was room")
    };
    assert_eq!(free, COMPACT_FREE_BYTES_MIN);
    memory.leave_free(wanted);
    assert_eq!(store.build_next_index(&NoThrottle).unwrap(), IndexOutcome::Built { rows: 2000 });
    let (_, made) = memory.files().pop_first().unwrap();
    assert_eq!(made.len() as u64, wanted - COMPACT_FREE_BYTES_MIN, "it is as long as was said");
}

#[test]
fn corrupt_segment_is_not_reindexed_repeatedly() {
    let (memory, store) = in_memory(&[2000, 1500]);
    drop(store);
    let mut files = memory.files();
    let (_, segment) = files.iter_mut().find(|(name, _)| name.starts_with("segment-")).unwrap();
    let halves = reseal::column(segment, 120).unwrap();
    segment[halves.start + 9] ^= 1;
    let store = reopened(&MemoryDisk::holding(files));
    assert!(matches!(store.build_next_index(&NoThrottle), Err(WriteError::Damaged(_))));
    assert_eq!(store.build_next_index(&NoThrottle).unwrap(), IndexOutcome::Built { rows: 1500 });
    assert_eq!(store.build_next_index(&NoThrottle).unwrap(), IndexOutcome::NothingToDo);
}

#[test]
fn invalid_index_file_is_read_once() {
    let (memory, store) = in_memory(&[2000]);
    store.build_next_index(&NoThrottle).unwrap();
    drop(store);
    let good: Files = memory.files();
    let (name, whole) = good.first_key_value().unwrap();
    let mut wrong = good.clone();
    wrong.get_mut(name).unwrap()[200] ^= 1;
    let folder = tempfile::tempdir().unwrap();
    wrong.iter().for_each(|(name, bytes)| fs::write(folder.path().join(name), bytes).unwrap());
    let real = FsDisk::open(folder.path()).unwrap();
    // A disk that knows only a file's length cannot identify the right file.
    let disks: [(Arc<dyn Disk>, u64); 2] =
        [(Arc::new(MemoryDisk::holding(wrong)), 0), (Arc::new(real), 2000)];
    for (disk, wanted) in disks {
        let reader = StoreReader::open(Arc::clone(&disk)).unwrap();
        assert_eq!(reader.snapshot().ann_status().indexed_rows, 0);
        let fresh = disk.create("fresh").unwrap();
        fresh.append(whole).unwrap();
        disk.rename("fresh", name).unwrap();
        reader.refresh().unwrap();
        assert_eq!(reader.snapshot().ann_status().indexed_rows, wanted);
    }
}

#[test]
fn exact_mode_reads_no_index_file() {
    let (memory, store) = in_memory(&[2000]);
    store.build_next_index(&NoThrottle).unwrap();
    drop(store);
    let ground = ground::still(Arc::new(memory), 7);
    let store = Store::open(ground, options(SearchMode::Exact)).unwrap();
    assert_eq!(store.snapshot().ann_status().indexed_rows, 0);
}

#[test]
fn index_is_removed_with_its_segment() {
    let (mut scratch, ids, mut cloud) = indexed_store(SearchMode::Approximate);
    index(&scratch);
    let [first] = &*indexes(&scratch) else { panic!("one segment") };
    let store = scratch.store();
    store.erase(&[ids[7].0], "tester", "asked for", &NoThrottle).unwrap();
    assert!(indexes(&scratch).is_empty(), "its centroids had a part of the row");
    assert_eq!(index(&scratch), IndexOutcome::Built { rows: 3999 });
    let [second] = &*indexes(&scratch) else { panic!("one segment") };
    assert_ne!(first, second);
    scratch.write(cloud.batch(1500, "more"));
    scratch.seal();
    assert_eq!(index(&scratch), IndexOutcome::Built { rows: 1500 });
    assert_eq!(indexes(&scratch).len(), 2);
    scratch.store().compact_fully(&NoThrottle).unwrap();
    assert!(indexes(&scratch).is_empty());
    assert!(!scratch.snapshot().ann_status().is_approximate);
    assert_eq!(index(&scratch), IndexOutcome::Built { rows: 5499 });
    // Crash leftovers: a partly written index, and the index of a removed segment.
    let folder = scratch.folder.path().to_owned();
    scratch.close();
    for name in ["index-00000000000000000090", "index-00000000000000000002.new"] {
        fs::write(folder.join(name), "left over").unwrap();
    }
    scratch.reopen();
    assert_eq!(indexes(&scratch).len(), 1);
    assert!(scratch.snapshot().ann_status().is_approximate);
}

/// The segment is removed while its index is built.
#[test]
fn index_build_is_discarded_when_its_rows_are_erased() {
    struct EraseDuringBuild<'a>(&'a ScratchStore, ItemId, std::sync::Once);
    impl engine::Throttle for EraseDuringBuild<'_> {
        fn after_write(&self, _bytes: usize) -> bool {
            true
        }
        fn after_work(&self) -> bool {
            let erase = || {
                let erased = self.0.store().erase(&[self.1.0], "tester", "asked for", &NoThrottle);
                erased.unwrap();
            };
            self.2.call_once(erase);
            true
        }
    }
    let (scratch, ids, _) = indexed_store(SearchMode::Approximate);
    let pace = EraseDuringBuild(&scratch, ids[3], std::sync::Once::new());
    assert_eq!(scratch.store().build_next_index(&pace).unwrap(), IndexOutcome::Cancelled);
    assert!(indexes(&scratch).is_empty());
    assert_eq!(index(&scratch), IndexOutcome::Built { rows: 3999 });
}

#[test]
fn backup_omits_indexes_and_restore_rebuilds_them() {
    let (scratch, ..) = indexed_store(SearchMode::Approximate);
    index(&scratch);
    let (backup, restored) = (tempfile::tempdir().unwrap(), ScratchStore::new());
    let to = FsDisk::open(backup.path()).unwrap();
    scratch.store().backup(&to).unwrap();
    let names = |folder: &std::path::Path| -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert!(!names(backup.path()).iter().any(|name| name.contains("index")));
    drop(restored);
    let place = tempfile::tempdir().unwrap();
    restore(&to, &FsDisk::open(place.path()).unwrap()).unwrap();
    let ground = ground::folder(place.path(), 5);
    let store = engine::Store::open(ground, options(SearchMode::Approximate)).unwrap();
    assert_eq!(store.build_next_index(&NoThrottle).unwrap(), IndexOutcome::Built { rows: 4000 });
}

#[test]
fn background_workers_build_indexes_and_stop_with_the_store() {
    let (scratch, ..) = indexed_store(SearchMode::Auto);
    let upkeep = BackgroundWorkers::start(scratch.share()).unwrap();
    while !scratch.snapshot().ann_status().is_approximate {
        std::thread::yield_now();
    }
    drop(upkeep);
    let (scratch, ..) = indexed_store(SearchMode::Auto);
    drop(BackgroundWorkers::start(scratch.share()).unwrap());
    assert!(indexes(&scratch).iter().all(|path| !path.to_string_lossy().ends_with(".new")));
}
