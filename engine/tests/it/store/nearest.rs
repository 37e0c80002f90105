//! Vector search through indexes: results, use of the index, and its files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use engine::limits::{COMPACT_FREE_BYTES_MIN, INDEX_LIMIT_MAX};
use engine::os::disk::{Disk, RealDisk};
use engine::{
    Asked, Batch, Filter, FullSpeed, Indexed, ItemDraft, ItemId, Model, Options, Pace, Reader,
    SearchMode, Searching, Snapshot, Store, Upkeep, WriteError, restore, verify,
};
use half::f16;
use kernels::{Kernels, Team};
use support_engine::ground::{self, Dice};
use support_engine::memory_disk::{Files, MemoryDisk};
use support_engine::reseal;
use support_engine::sample::{hide, items, note, tombstones};

use super::scratch::Scratch;

const WIDTH: usize = 48;
const MODEL: Model = Model { fingerprint: [8; 32], dimensions: 48 };
const ROWS: usize = 4000;
/// Number of centres that the rows cluster around, as texts do around topics.
const CENTRES: usize = 60;
const BEST: usize = 10;
const QUESTIONS: usize = 100;

fn options(mode: SearchMode) -> Options {
    let searching = Searching { mode, approximate_rows_min: 3000, index_rows_min: 1000 };
    Options { searching, merge_bytes_max: 0, ..Options::default() }
}

/// Points around centres.
struct Cloud {
    dice: Dice,
    centres: Vec<Vec<f32>>,
}

impl Cloud {
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
fn furnished(mode: SearchMode) -> (Scratch, Vec<ItemId>, Cloud) {
    let scratch = Scratch::with(options(mode));
    let mut cloud = Cloud::new(0x1D_0101);
    scratch.store().bind_model(MODEL).unwrap();
    let written = scratch.write(cloud.batch(ROWS, "one of many")).items;
    scratch.seal();
    (scratch, written, cloud)
}

fn nearest(snapshot: &Snapshot, query: &[f32], filter: &Filter) -> Vec<ItemId> {
    let hits = snapshot.nearest(&Kernels::detect(), query, BEST, filter).unwrap();
    hits.into_iter().map(|hit| snapshot.id(hit.place).unwrap()).collect()
}

fn exactly(snapshot: &Snapshot) -> Snapshot {
    snapshot.clone().searched(SearchMode::Exact)
}

/// Returns the fraction of the exact nearest neighbours that are found.
fn recall(snapshot: &Snapshot, cloud: &mut Cloud, filter: &Filter) -> f64 {
    let (mut found, mut wanted) = (0, 0);
    for _ in 0..QUESTIONS {
        let query = cloud.point(0.9);
        let best = nearest(&exactly(snapshot), &query, filter);
        let through = nearest(snapshot, &query, filter);
        found += best.iter().filter(|id| through.contains(id)).count();
        wanted += best.len();
    }
    found as f64 / wanted as f64
}

fn index(scratch: &Scratch) -> Indexed {
    scratch.store().index(&FullSpeed).unwrap()
}

/// Returns the index files of the store.
fn indexes(scratch: &Scratch) -> Vec<PathBuf> {
    let files = fs::read_dir(scratch.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.to_string_lossy().contains("index-")).collect()
}

fn disk(scratch: &Scratch) -> RealDisk {
    RealDisk::open(scratch.folder.path()).unwrap()
}

#[test]
fn an_index_finds_nearly_all_and_outlives_the_process() {
    let (mut scratch, _, mut cloud) = furnished(SearchMode::Approximate);
    assert!(!scratch.snapshot().search_state().is_approximate, "there is none yet");
    let before = scratch.snapshot();
    assert_eq!(index(&scratch), Indexed::Made { rows: 4000 });
    assert_eq!(index(&scratch), Indexed::Nothing);
    assert!(before.search_state().is_approximate, "an index speaks of rows that never change");
    for _ in 0..2 {
        let snapshot = scratch.snapshot();
        let state = snapshot.search_state();
        assert!(state.is_approximate && state.recall_at_10 >= 0.98, "{state:?}");
        assert_eq!((state.rows, state.indexed_rows), (4000, 4000));
        assert_eq!(state.measured_over, 512 * 10);
        let found = recall(&snapshot, &mut cloud, &Filter::default());
        assert!(found >= 0.98, "{found}");
        let files = fs::read_dir(scratch.folder.path()).unwrap();
        let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert_eq!(scratch.store().bytes_on_disk(), bytes);
        let reader = Reader::open(std::sync::Arc::new(disk(&scratch))).unwrap();
        assert_eq!(reader.snapshot().search_state().indexed_rows, 4000);
        scratch.reopen();
    }
    let verified = verify(&disk(&scratch), &mut |_| ()).unwrap();
    assert!(verified.is_clean() && verified.notes.is_empty(), "{verified:?}");
    assert_eq!(verified.walked.indexes, 1);
}

#[test]
fn filters_hold_and_hidden_rows_stay_hidden() {
    let (scratch, ids, mut cloud) = furnished(SearchMode::Approximate);
    index(&scratch);
    let filter = Filter { kinds: vec!["kind 1".to_owned()], ..Filter::default() };
    let hidden: Vec<ItemId> = ids.iter().copied().step_by(5).collect();
    scratch.write(tombstones(hidden.iter().map(|&id| hide(id))));
    let snapshot = scratch.snapshot();
    assert!(snapshot.search_state().is_approximate);
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
fn what_an_index_was_not_measured_for_is_exact() {
    let scratch = Scratch::with(options(SearchMode::Approximate));
    let mut cloud = Cloud::new(0x1D_0104);
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
    assert!(snapshot.search_state().is_approximate);
    let rare = Filter { kinds: vec!["rare".to_owned()], ..Filter::default() };
    let chosen = written.iter().skip(3).step_by(300);
    let places: Vec<_> = chosen.map(|&id| snapshot.find(id).unwrap().unwrap()).collect();
    let among = Some(std::sync::Arc::new(snapshot.chosen(&places)));
    let among = Filter { among, ..Filter::default() };
    let everything = Filter::default();
    for _ in 0..QUESTIONS {
        let query = cloud.point(0.9);
        assert_eq!(nearest(&snapshot, &query, &rare).len(), 5);
        for (filter, limit) in [(&rare, BEST), (&among, BEST), (&everything, INDEX_LIMIT_MAX + 1)] {
            let hits = |snapshot: &Snapshot| {
                snapshot.nearest(&Kernels::detect(), &query, limit, filter).unwrap()
            };
            assert_eq!(hits(&snapshot), hits(&exactly(&snapshot)), "{filter:?}");
        }
    }
    // Another query of the same batch does use the index.
    let (one, other) = (cloud.point(0.9), cloud.point(0.9));
    let asked = [(&one, &rare), (&other, &everything), (&one, &among)];
    let asked = asked.map(|(query, filter)| Asked { query, limit: BEST, filter });
    let kernels = Kernels::detect();
    let found = snapshot.nearest_together(&kernels, &mut Team::of(2), &asked).unwrap();
    let alone = asked.map(|one| snapshot.nearest(&kernels, one.query, BEST, one.filter).unwrap());
    assert_eq!(found, alone);
}

/// Most rows are admitted, but none of the query's near rows are.
#[test]
fn a_question_goes_on_until_it_has_found_enough() {
    let scratch = Scratch::with(options(SearchMode::Approximate));
    let mut cloud = Cloud::new(0x1D_0105);
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
    assert!(snapshot.search_state().is_approximate);
    let far =
        Filter { kinds: (0..3).map(|of| format!("kind {of}")).collect(), ..Filter::default() };
    assert_eq!(nearest(&snapshot, &cloud.centres[0], &far).len(), BEST);
}

#[test]
fn what_was_just_written_is_found() {
    let (scratch, _, mut cloud) = furnished(SearchMode::Approximate);
    index(&scratch);
    for _ in 0..20 {
        let batch = cloud.batch(1, "new");
        let query: Vec<f32> = batch.items[0].embedding.iter().map(|half| half.to_f32()).collect();
        let written = scratch.write(batch).items;
        assert_eq!(nearest(&scratch.snapshot(), &query, &Filter::default())[0], written[0]);
    }
}

#[test]
fn auto_goes_through_indexes_where_the_store_is_large_and_they_have_caught_up() {
    let scratch = Scratch::with(options(SearchMode::Auto));
    let mut cloud = Cloud::new(0x1D_0102);
    scratch.store().bind_model(MODEL).unwrap();
    scratch.write(cloud.batch(2900, "few"));
    scratch.seal();
    assert_eq!(index(&scratch), Indexed::Nothing, "the store is small");
    scratch.write(cloud.batch(100, "enough"));
    let state = || scratch.snapshot().search_state();
    assert!(!state().is_approximate, "nothing is in an index");
    assert_eq!(index(&scratch), Indexed::Made { rows: 2900 });
    assert!(state().is_approximate);
    scratch.write(cloud.batch(2000, "more"));
    let behind = state();
    assert!(!behind.is_approximate, "too much is in no index: {behind:?}");
    assert_eq!((behind.recall_at_10, behind.measured_over), (1.0, 0));
    let snapshot = scratch.snapshot();
    let query = cloud.point(0.9);
    let everything = Filter::default();
    assert_eq!(
        nearest(&snapshot, &query, &everything),
        nearest(&exactly(&snapshot), &query, &everything)
    );
    scratch.seal();
    assert_eq!(index(&scratch), Indexed::Made { rows: 2100 });
    assert!(state().is_approximate);
}

#[test]
fn an_exact_store_makes_no_index_and_uses_none() {
    let (scratch, ..) = furnished(SearchMode::Exact);
    assert_eq!(index(&scratch), Indexed::Nothing);
    assert!(indexes(&scratch).is_empty());
}

/// Half of the rows are copies: a query near one copy is near all of them.
#[test]
fn where_an_index_gains_nothing_all_rows_are_looked_through() {
    let scratch = Scratch::with(options(SearchMode::Approximate));
    scratch.store().bind_model(MODEL).unwrap();
    let mut dice = Dice::new(0x1D_0103);
    let mut point = || (0..WIDTH).map(|_| f16::from_f32(unit(&mut dice))).collect::<Vec<f16>>();
    let copied = point();
    let row = |at: usize| if at.is_multiple_of(2) { copied.clone() } else { point() };
    let rows: Vec<Vec<f16>> = (0..2500).map(row).collect();
    let draft = |embedding| ItemDraft { embedding, ..note("half of them are the same") };
    scratch.write(items(rows.into_iter().map(draft)));
    scratch.seal();
    assert_eq!(index(&scratch), Indexed::Made { rows: 2500 });
    assert_eq!(index(&scratch), Indexed::Nothing, "it is not made again and again");
    let snapshot = scratch.snapshot();
    assert!(!snapshot.search_state().is_approximate);
}

#[test]
fn a_damaged_index_is_not_used_told_and_made_anew() {
    let (mut scratch, _, mut cloud) = furnished(SearchMode::Approximate);
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
    assert!(!snapshot.search_state().is_approximate);
    assert_eq!(nearest(&snapshot, &cloud.point(0.9), &Filter::default()).len(), BEST);
    assert_eq!(index(&scratch), Indexed::Made { rows: 4000 });
    assert!(verify(&disk(&scratch), &mut |_| ()).unwrap().is_clean());
}

/// Cancels every job.
struct Ends;

impl Pace for Ends {
    fn wrote(&self, _bytes: usize) -> bool {
        false
    }
    fn worked(&self) -> bool {
        false
    }
}

#[test]
fn a_whole_index_that_lies_there_is_taken_and_not_made_again() {
    let (mut scratch, ..) = furnished(SearchMode::Approximate);
    index(&scratch);
    let [path] = &*indexes(&scratch) else { panic!("one segment") };
    let bytes = fs::read(path).unwrap();
    scratch.close();
    fs::remove_file(path).unwrap();
    scratch.reopen();
    assert_eq!(scratch.store().index(&Ends).unwrap(), Indexed::Cancelled);
    fs::write(path, bytes).unwrap();
    assert_eq!(scratch.store().index(&Ends).unwrap(), Indexed::Made { rows: 4000 });
    assert!(scratch.snapshot().search_state().is_approximate);
}

/// Makes a store in memory with one segment of each of the given row counts.
fn in_memory(sizes: &[usize]) -> (MemoryDisk, Store) {
    let memory = MemoryDisk::default();
    let store = reopened(&memory);
    let mut cloud = Cloud::new(0x1D_0104);
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
fn an_index_is_not_begun_without_room_for_it() {
    let (memory, store) = in_memory(&[2000]);
    memory.leave_free(COMPACT_FREE_BYTES_MIN);
    let Indexed::NoRoom { wanted, free } = store.index(&FullSpeed).unwrap() else {
        panic!("there was room")
    };
    assert_eq!(free, COMPACT_FREE_BYTES_MIN);
    memory.leave_free(wanted);
    assert_eq!(store.index(&FullSpeed).unwrap(), Indexed::Made { rows: 2000 });
    let (_, made) = memory.files().pop_first().unwrap();
    assert_eq!(made.len() as u64, wanted - COMPACT_FREE_BYTES_MIN, "it is as long as was said");
}

#[test]
fn a_damaged_segment_is_not_indexed_again_and_again() {
    let (memory, store) = in_memory(&[2000, 1500]);
    drop(store);
    let mut files = memory.files();
    let (_, segment) = files.iter_mut().find(|(name, _)| name.starts_with("segment-")).unwrap();
    let halves = reseal::column(segment, 120).unwrap();
    segment[halves.start + 9] ^= 1;
    let store = reopened(&MemoryDisk::holding(files));
    assert!(matches!(store.index(&FullSpeed), Err(WriteError::Damaged(_))));
    assert_eq!(store.index(&FullSpeed).unwrap(), Indexed::Made { rows: 1500 });
    assert_eq!(store.index(&FullSpeed).unwrap(), Indexed::Nothing);
}

#[test]
fn a_reader_reads_a_wrong_index_once() {
    let (memory, store) = in_memory(&[2000]);
    store.index(&FullSpeed).unwrap();
    drop(store);
    let good: Files = memory.files();
    let (name, whole) = good.first_key_value().unwrap();
    let mut wrong = good.clone();
    wrong.get_mut(name).unwrap()[200] ^= 1;
    let folder = tempfile::tempdir().unwrap();
    wrong.iter().for_each(|(name, bytes)| fs::write(folder.path().join(name), bytes).unwrap());
    let real = RealDisk::open(folder.path()).unwrap();
    // A disk that knows only a file's length cannot identify the right file.
    let disks: [(Arc<dyn Disk>, u64); 2] =
        [(Arc::new(MemoryDisk::holding(wrong)), 0), (Arc::new(real), 2000)];
    for (disk, wanted) in disks {
        let reader = Reader::open(Arc::clone(&disk)).unwrap();
        assert_eq!(reader.snapshot().search_state().indexed_rows, 0);
        let fresh = disk.create("fresh").unwrap();
        fresh.append(whole).unwrap();
        disk.rename("fresh", name).unwrap();
        reader.refresh().unwrap();
        assert_eq!(reader.snapshot().search_state().indexed_rows, wanted);
    }
}

#[test]
fn an_exact_store_reads_no_index() {
    let (memory, store) = in_memory(&[2000]);
    store.index(&FullSpeed).unwrap();
    drop(store);
    let ground = ground::still(Arc::new(memory), 7);
    let store = Store::open(ground, options(SearchMode::Exact)).unwrap();
    assert_eq!(store.snapshot().search_state().indexed_rows, 0);
}

#[test]
fn an_index_goes_with_its_segment() {
    let (mut scratch, ids, mut cloud) = furnished(SearchMode::Approximate);
    index(&scratch);
    let [first] = &*indexes(&scratch) else { panic!("one segment") };
    let store = scratch.store();
    store.erase(&[ids[7].0], "tester", "asked for", &FullSpeed).unwrap();
    assert!(indexes(&scratch).is_empty(), "its centroids had a part of the row");
    assert_eq!(index(&scratch), Indexed::Made { rows: 3999 });
    let [second] = &*indexes(&scratch) else { panic!("one segment") };
    assert_ne!(first, second);
    scratch.write(cloud.batch(1500, "more"));
    scratch.seal();
    assert_eq!(index(&scratch), Indexed::Made { rows: 1500 });
    assert_eq!(indexes(&scratch).len(), 2);
    scratch.store().compact_fully(&FullSpeed).unwrap();
    assert!(indexes(&scratch).is_empty());
    assert!(!scratch.snapshot().search_state().is_approximate);
    assert_eq!(index(&scratch), Indexed::Made { rows: 5499 });
    // Crash leftovers: a partly written index, and the index of a removed segment.
    let folder = scratch.folder.path().to_owned();
    scratch.close();
    for name in ["index-00000000000000000090", "index-00000000000000000002.new"] {
        fs::write(folder.join(name), "left over").unwrap();
    }
    scratch.reopen();
    assert_eq!(indexes(&scratch).len(), 1);
    assert!(scratch.snapshot().search_state().is_approximate);
}

/// The segment is removed while its index is built.
#[test]
fn an_index_of_what_is_erased_meanwhile_comes_to_nothing() {
    struct Erases<'a>(&'a Scratch, ItemId, std::sync::Once);
    impl engine::Pace for Erases<'_> {
        fn wrote(&self, _bytes: usize) -> bool {
            true
        }
        fn worked(&self) -> bool {
            let erase = || {
                let erased = self.0.store().erase(&[self.1.0], "tester", "asked for", &FullSpeed);
                erased.unwrap();
            };
            self.2.call_once(erase);
            true
        }
    }
    let (scratch, ids, _) = furnished(SearchMode::Approximate);
    let pace = Erases(&scratch, ids[3], std::sync::Once::new());
    assert_eq!(scratch.store().index(&pace).unwrap(), Indexed::Cancelled);
    assert!(indexes(&scratch).is_empty());
    assert_eq!(index(&scratch), Indexed::Made { rows: 3999 });
}

#[test]
fn a_backup_leaves_indexes_out_and_what_is_restored_makes_its_own() {
    let (scratch, ..) = furnished(SearchMode::Approximate);
    index(&scratch);
    let (backup, restored) = (tempfile::tempdir().unwrap(), Scratch::new());
    let to = RealDisk::open(backup.path()).unwrap();
    scratch.store().backup(&to).unwrap();
    let names = |folder: &std::path::Path| -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert!(!names(backup.path()).iter().any(|name| name.contains("index")));
    drop(restored);
    let place = tempfile::tempdir().unwrap();
    restore(&to, &RealDisk::open(place.path()).unwrap()).unwrap();
    let ground = ground::folder(place.path(), 5);
    let store = engine::Store::open(ground, options(SearchMode::Approximate)).unwrap();
    assert_eq!(store.index(&FullSpeed).unwrap(), Indexed::Made { rows: 4000 });
}

#[test]
fn upkeep_makes_indexes_by_itself_and_stops_with_the_store() {
    let (scratch, ..) = furnished(SearchMode::Auto);
    let upkeep = Upkeep::start(scratch.share()).unwrap();
    while !scratch.snapshot().search_state().is_approximate {
        std::thread::yield_now();
    }
    drop(upkeep);
    let (scratch, ..) = furnished(SearchMode::Auto);
    drop(Upkeep::start(scratch.share()).unwrap());
    assert!(indexes(&scratch).iter().all(|path| !path.to_string_lossy().ends_with(".new")));
}
