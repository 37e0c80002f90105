//! Salvage: every row whose pages and frames are intact is recovered, no wrong row is, no hidden row reappears, and no
//! input panics.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use engine::{
    Batch, ItemDraft, NoThrottle, Options, Record, Salvage, SalvageReport, Status, Store,
};
use support_engine::failing_disk::FailingDisk;
use support_engine::golden::Golden;
use support_engine::ground::{self, Dice};
use support_engine::memory_disk::{Files, MemoryDisk};
use support_engine::random_store;
use support_engine::reseal;
use support_engine::sample::{file, hide, hide_edge, items, link, note, tombstones};
use support_engine::small_store::SmallStore;

/// Reads the `u64` at an offset.
fn number_at(bytes: &[u8], at: usize) -> usize {
    reseal::number(bytes, at).expect("it was written here")
}

const PAGE_BYTES: usize = 64 << 10;
const TRAILER_BYTES: usize = 64;
const ENTRY_BYTES: usize = 32;

/// The contents of rows, except links to lost rows.
type RowsById = BTreeMap<(u8, u128, u64), String>;

fn collect_record(record: &Record<'_>, into: &mut RowsById) {
    let (mut key, value) = match record {
        Record::Source(it) => ((0, it.id.0, 0), format!("{it:?}")),
        Record::Item(it, status) => {
            let hidden = *status == Status::Tombstoned;
            let texts = (it.kind, it.modality, it.title, it.text, it.attributes, it.reference);
            let lists = (&it.tags, &it.gates, it.span, it.sensitivity, it.searchable);
            let times = (it.seq, it.recorded_at, it.valid_from, it.valid_to);
            let by = (it.recorded_by, it.via, it.content_sha256);
            ((1, it.id.0, 0), format!("{hidden} {texts:?} {lists:?} {times:?} {by:?}"))
        }
        Record::Edge(it, hidden) => {
            let edge = engine::EdgeView { source: None, ..it.clone() };
            ((2, it.id.0, 0), format!("{hidden} {edge:?}"))
        }
        Record::Tombstone(it) => ((3, it.target, it.seq), format!("{it:?}")),
    };
    // A commit may hide one target twice; the second tombstone has a key of its own.
    while key.0 == 3 && into.contains_key(&key) {
        key.2 += 1 << 32;
    }
    assert!(into.insert(key, value).is_none(), "{key:?} is given twice");
}

/// The contents of an undamaged store.
fn listing_of(files: &Files) -> RowsById {
    let disk = Arc::new(MemoryDisk::holding(files.clone()));
    let snapshot =
        engine::StoreReader::open(disk).expect("the sample is as it was made").snapshot();
    let mut told = RowsById::new();
    for record in snapshot.records() {
        collect_record(&record.expect("the sample is as it was made"), &mut told);
    }
    told
}

fn salvaged(files: &Files) -> (RowsById, SalvageReport) {
    let disk = MemoryDisk::holding(files.clone());
    let salvage = Salvage::read(&disk, &mut |_| {}).expect("the sample is as it was made");
    let mut told = RowsById::new();
    let report = salvage.records(&mut |_, record| {
        collect_record(&record, &mut told);
        Ok::<_, ()>(())
    });
    assert_eq!(disk.files(), *files, "nothing is changed");
    (told, report.expect("the sample is as it was made"))
}

/// Asserts that everything recovered was in the store; returns the recovered rows.
fn assert_nothing_wrong(files: &Files, all: &RowsById, what: &str) -> RowsById {
    let (told, _) = salvaged(files);
    for (key, value) in &told {
        assert_eq!(all.get(key), Some(value), "{what}: {key:?}");
    }
    told
}

#[test]
fn intact_store_is_salvaged_completely() {
    let mut stores: Vec<(String, Files)> =
        Golden::kept().unwrap().into_iter().map(|it| (it.name, it.files)).collect();
    let small = SmallStore::new();
    stores.push(("small".to_owned(), small.files));
    stores.push(("closed".to_owned(), small.closed));
    for seed in 0..6 {
        let disk = MemoryDisk::default();
        let still = ground::still(Arc::new(disk.clone()), seed);
        let store = Store::open(still, ground::unmerged()).unwrap();
        random_store::fill(&store, seed, 25, seed % 2 == 0);
        store.erase_pending(&NoThrottle).unwrap();
        stores.push((format!("random {seed}"), disk.files()));
    }
    for (name, files) in stores {
        let (told, report) = salvaged(&files);
        assert_eq!(told, listing_of(&files), "{name}");
        // The frames that a torn log omits were never acknowledged.
        assert!(report.is_lossless() || name.ends_with("torn"), "{name}: {report:#?}");
    }
}

#[test]
fn missing_file_loses_only_its_own_rows() {
    let store = SmallStore::new();
    let all = listing_of(&store.closed);
    for name in store.closed.keys() {
        let mut files = store.closed.clone();
        files.remove(name);
        let told = assert_nothing_wrong_but_hidden(&files, &all, name);
        if name.starts_with("manifest") || name.starts_with("state") {
            assert_eq!(told, all, "{name}");
        } else {
            assert!(!told.is_empty() && told.len() < all.len(), "{name}");
            assert!(!salvaged(&files).1.is_lossless(), "{name}");
        }
    }
}

/// If a tombstone is lost with its file, its target may reappear; everything else is as it was.
fn assert_nothing_wrong_but_hidden(files: &Files, all: &RowsById, what: &str) -> RowsById {
    let (told, _) = salvaged(files);
    for (key, value) in &told {
        let bare = |text: &String| text.split_once(' ').map(|(_, rest)| rest.to_owned());
        assert_eq!(all.get(key).and_then(bare), bare(value), "{what}: {key:?}");
    }
    told
}

#[test]
fn byte_flips_never_salvage_wrong_rows() {
    let store = SmallStore::new();
    let all = listing_of(&store.closed);
    for (name, bytes) in &store.closed {
        let of_others = {
            let mut files = store.closed.clone();
            files.remove(name);
            salvaged(&files).0
        };
        for at in (0..bytes.len()).step_by(if name.starts_with("segment") { 7 } else { 1 }) {
            let mut files = store.closed.clone();
            files.get_mut(name).unwrap()[at] ^= 1 << (at % 8);
            let what = format!("{name}, byte {at}");
            let told = assert_nothing_wrong_but_hidden(&files, &all, &what);
            for key in of_others.keys() {
                assert!(told.contains_key(key), "{what}: {key:?} is in another file");
            }
        }
    }
}

/// Frames after a damaged one are recovered, too.
#[test]
fn corrupt_wal_frame_loses_only_its_commit() {
    let store = SmallStore::new();
    let all = listing_of(&store.closed);
    let name = store.log_name();
    for frame in store.frames() {
        for at in [frame.start + 1, frame.start + 9, frame.end - 1] {
            let mut files = store.closed.clone();
            files.get_mut(name).unwrap()[at] ^= 0x20;
            let told = assert_nothing_wrong_but_hidden(&files, &all, "a frame");
            let lost: Vec<_> = all.keys().filter(|key| !told.contains_key(key)).collect();
            assert!((1..=4).contains(&lost.len()), "byte {at}: {lost:?}");
        }
    }
    // Without header and manifest the store's id is unknown; with a manifest it is known.
    let mut files = store.closed.clone();
    files.get_mut(name).unwrap()[20] ^= 1;
    assert_eq!(salvaged(&files).0, all);
}

const LARGE_ITEMS: usize = 3000;

/// Makes one segment of many pages.
fn large() -> Files {
    let disk = MemoryDisk::default();
    let store = Store::open(ground::still(Arc::new(disk.clone()), 4), Options::default())
        .expect("the sample is as it was made");
    let drafts = (0..LARGE_ITEMS).map(|n| ItemDraft {
        reference: (n % 3 == 0).then(|| format!("ref/{n}")),
        title: format!("title {n}"),
        attributes: format!("{{\"n\":{n}}}"),
        tags: vec![format!("tag{}", n % 9)],
        ..note(&format!("the {n}th of many, {}", "with words ".repeat(n % 17)))
    });
    let written = store.write(items(drafts)).expect("the sample is as it was made");
    let chain = |n: usize| link(written.items[n], written.items[n + 1], 0.5);
    let edges = (0..400).map(chain).collect();
    store
        .write(engine::Batch { edges, ..Default::default() })
        .expect("the sample is as it was made");
    store.seal().expect("the sample is as it was made");
    drop(store);
    disk.files()
}

fn columns(file: &[u8]) -> BTreeMap<u16, Range<usize>> {
    let trailer = file.len() - TRAILER_BYTES;
    let (directory, end) = (number_at(file, trailer), number_at(file, trailer + 16));
    let entries = file[directory..end].chunks(ENTRY_BYTES);
    let place = |entry: &[u8]| {
        let (start, bytes) = (number_at(entry, 8), number_at(entry, 16));
        (u16::from_le_bytes([entry[0], entry[1]]), start..start + bytes)
    };
    entries.map(place).collect()
}

/// Byte ranges that the item of a row is read from, without symbols.
fn item_bytes(file: &[u8], columns: &BTreeMap<u16, Range<usize>>, row: usize) -> Vec<Range<usize>> {
    let at = |number: u16, cell: usize, row: usize| {
        let start = columns[&number].start + cell * row;
        start..start + cell
    };
    let mut bytes: Vec<Range<usize>> = Vec::new();
    let fixed = [(10, 16), (12, 8), (13, 4), (14, 4), (15, 4), (16, 4), (17, 1), (18, 1), (36, 16)];
    let later = [(38, 16), (39, 8), (40, 8), (41, 8), (42, 8), (43, 32), (44, 4)];
    bytes.extend(fixed.iter().chain(&later).map(|&(number, cell)| at(number, cell, row)));
    for offsets in [19, 21, 23, 25] {
        let (first, last) = (at(offsets, 8, row), at(offsets, 8, row + 1));
        let text = columns[&(offsets + 1)].start;
        bytes.push(text + number_at(file, first.start)..text + number_at(file, last.start));
        bytes.push(first.start..last.end);
    }
    for offsets in [28, 30, 32] {
        bytes.push(at(offsets, 4, row).start..at(offsets, 4, row + 1).end);
    }
    bytes.push(at(29, 4, row)); // one tag each
    bytes
}

#[test]
fn items_on_intact_pages_are_salvaged() {
    let files = large();
    let all = listing_of(&files);
    let name = files.keys().find(|name| name.starts_with("segment-")).unwrap();
    let file = &files[name];
    let columns = columns(file);
    let rows: Vec<u128> = file[columns[&10].clone()]
        .chunks(16)
        .map(|id| u128::from_le_bytes(id.try_into().unwrap()))
        .collect();
    let checks = number_at(file, file.len() - TRAILER_BYTES + 16);
    let pages = checks.div_ceil(PAGE_BYTES);
    assert!(pages > 12, "{pages} pages");
    for page in 0..pages {
        let damaged = page * PAGE_BYTES..((page + 1) * PAGE_BYTES).min(checks);
        let mut files = files.clone();
        let file_now = files.get_mut(name).unwrap();
        file_now[damaged.start + (damaged.len() / 2)] ^= 1;
        let told = assert_nothing_wrong(&files, &all, &format!("page {page}"));
        let is_whole = |bytes: &Range<usize>| {
            bytes.is_empty() || bytes.end <= damaged.start || bytes.start >= damaged.end
        };
        let mut due = 0;
        for (row, id) in rows.iter().enumerate() {
            let whole = page > 0 && item_bytes(file, &columns, row).iter().all(is_whole);
            due += usize::from(whole);
            assert!(!whole || told.contains_key(&(1, *id, 0)), "page {page}, row {row}");
        }
        let items = told.keys().filter(|key| key.0 == 1).count();
        assert_eq!(items, due, "page {page}: what is damaged does not come out");
    }
}

#[test]
fn lost_trailer_loses_no_rows() {
    let files = large();
    let all = listing_of(&files);
    let name = files.keys().find(|name| name.starts_with("segment-")).unwrap();
    for at in [1, 20, 40, 60] {
        let mut files = files.clone();
        let file = files.get_mut(name).unwrap();
        let at = file.len() - at;
        file[at] ^= 1;
        assert_eq!(salvaged(&files).0, all, "byte {at}");
    }
}

/// If the directory is lost, items, sources and tombstones are found by the header.
#[test]
fn lost_column_directory_loses_no_items() {
    let files = large();
    let all = listing_of(&files);
    let name = files.keys().find(|name| name.starts_with("segment-")).unwrap();
    let mut files = files.clone();
    let file = files.get_mut(name).unwrap();
    let directory = number_at(file, file.len() - TRAILER_BYTES);
    file[directory] ^= 1;
    let (told, report) = salvaged(&files);
    let items = told.keys().filter(|key| key.0 == 1).count();
    assert_eq!(items, LARGE_ITEMS);
    assert!(told.iter().all(|(key, value)| all[key] == *value));
    assert!(
        !report.is_lossless() && report.files.iter().any(|it| it.lost.edges == 400),
        "{report:?}"
    );
}

/// Makes one segment of many pages with rows of every kind and every column in use.
fn store_with_all_tables() -> Files {
    const SOURCES: usize = 2500;
    const EDGES: usize = 10_000;
    let disk = MemoryDisk::default();
    let store = Store::open(ground::still(Arc::new(disk.clone()), 6), Options::default())
        .expect("the sample is as it was made");
    let write = |batch| store.write(batch).expect("the sample is as it was made");
    let sources = (0..SOURCES).map(|n| file(&format!("file:///folder/{n}"))).collect();
    let sources = write(Batch { sources, ..Batch::default() }).sources;
    let draft = |n: usize, supersedes| ItemDraft {
        reference: n.is_multiple_of(3).then(|| format!("ref/{n}")),
        title: format!("title {n}"),
        attributes: format!("{{\"n\":{n}}}"),
        tags: vec![format!("tag{}", n % 9)],
        gates: vec![format!("gate{}", n % 4)],
        source: n.is_multiple_of(2).then(|| sources[n % SOURCES]),
        supersedes,
        ..note(&format!("the {n}th of many, {}", "with words ".repeat(n % 17)))
    };
    let ids = write(items((0..LARGE_ITEMS / 2).map(|n| draft(n, Vec::new())))).items;
    let newer = (LARGE_ITEMS / 2..LARGE_ITEMS)
        .map(|n| draft(n, if n % 4 == 1 { vec![ids[n - LARGE_ITEMS / 2]] } else { Vec::new() }));
    let newer = write(items(newer)).items;
    let all = [ids, newer].concat();
    let edge = |n: usize| engine::EdgeDraft {
        note: format!("edge {n}"),
        source: n.is_multiple_of(3).then(|| sources[n % SOURCES]),
        ..link(all[n % LARGE_ITEMS], all[(n * 7 + 1) % LARGE_ITEMS], 0.5)
    };
    let edges = write(Batch { edges: (0..EDGES).map(edge).collect(), ..Batch::default() }).edges;
    write(tombstones(all.iter().step_by(5).map(|id| hide(*id))));
    write(tombstones(edges.iter().step_by(10).map(|id| hide_edge(*id))));
    store.seal().expect("the sample is as it was made");
    drop(store);
    disk.files()
}

/// For any lost part of a segment, the report accounts for each row that is not recovered.
#[test]
fn every_lost_row_is_reported() {
    let files = store_with_all_tables();
    let all = listing_of(&files);
    let name = files.keys().find(|name| name.starts_with("segment-")).unwrap();
    let file = &files[name];
    let columns = columns(file);
    let count =
        |told: &RowsById, table: u8| told.keys().filter(|key| key.0 == table).count() as u64;
    let (mut hit, mut lossy) = (BTreeSet::new(), [0; 4]);
    for page in 0..file.len().div_ceil(PAGE_BYTES) {
        let damaged = page * PAGE_BYTES..((page + 1) * PAGE_BYTES).min(file.len());
        let touches =
            |at: &Range<usize>| !at.is_empty() && at.start < damaged.end && at.end > damaged.start;
        hit.extend(columns.iter().filter(|(_, at)| touches(at)).map(|(number, _)| *number));
        let mut files = files.clone();
        files.get_mut(name).unwrap()[damaged.clone()].fill(0xa5);
        let (told, report) = salvaged(&files);
        let of_file = report.files.iter().find(|it| it.name == *name).unwrap();
        let (lost, left) = (of_file.lost, report.dropped);
        let counts = [
            (lost.sources, left.sources, report.recovered.sources),
            (lost.items, 0, report.recovered.items),
            (lost.edges, left.edges, report.recovered.edges),
            (lost.tombstones, 0, report.recovered.tombstones),
        ];
        let mut unaccounted = 0;
        for (table, (lost, left, given)) in (0..).zip(counts) {
            let told = count(&told, table);
            assert_eq!(told, given, "page {page}, table {table}");
            unaccounted += count(&all, table) - (told + lost + left);
            lossy[usize::from(table)] += lost;
        }
        // If the flag of a tombstone is lost, its target may have been erased.
        assert_eq!(unaccounted, left.erased, "page {page}");
        assert!(of_file.lost.total() == 0 || !of_file.reasons.is_empty(), "page {page}");
        assert!(told == all || !report.is_lossless(), "page {page}");
    }
    let unused = |at: &Range<usize>| at.is_empty();
    let due = columns.iter().filter(|(_, at)| !unused(at)).map(|(number, _)| *number).collect();
    assert_eq!(hit, due, "every column was damaged");
    assert!(lossy.iter().all(|&lost| lost > 0), "of each table something was lost: {lossy:?}");
}

/// An unreadable file loses as many rows as the manifest states, or an unknown number without a manifest.
#[test]
fn unreadable_file_is_never_reported_as_lossless() {
    let store = SmallStore::new();
    let name = store.closed.keys().find(|name| name.starts_with("segment-")).unwrap();
    let of = |files: &Files, name: &str| {
        let (_, report) = salvaged(files);
        assert!(!report.is_lossless(), "{name}");
        report.files.into_iter().find(|it| it.name == *name).unwrap()
    };
    let whole = salvaged(&store.closed).1;
    let rows = whole.files.iter().find(|it| it.name == *name).unwrap().rows;
    let mut files = store.closed.clone();
    files.insert(name.clone(), b"short".to_vec());
    let found = of(&files, name);
    assert!(rows.total() > 0 && found.lost == rows && !found.has_unknown_losses, "{found:?}");
    files.retain(|name, _| !name.starts_with("manifest-"));
    let found = of(&files, name);
    assert!(found.lost.total() == 0 && found.has_unknown_losses, "{found:?}");
    let log = store.log_name();
    for at in [20, store.frames()[0].start + 40] {
        let mut files = files.clone();
        files.get_mut(log).unwrap()[at] ^= 1;
        assert!(of(&files, log).has_unknown_losses, "byte {at}");
    }
    let mut files = store.closed.clone();
    files.remove(log);
    assert!(of(&files, log).has_unknown_losses);
}

/// Makes a store with an erased item, and restores the segment from before the erasure as a leftover.
fn with_leftover() -> (Files, u128) {
    let disk = MemoryDisk::default();
    let store = Store::open(ground::still(Arc::new(disk.clone()), 8), ground::unmerged())
        .expect("the sample is as it was made");
    let written = store
        .write(items([note("amber kept"), note("the secret")]))
        .expect("the sample is as it was made");
    let secret = written.items[1].0;
    store.seal().expect("the sample is as it was made");
    let before = disk.files();
    store.erase(&[secret], "officer", "asked", &NoThrottle).expect("the sample is as it was made");
    drop(store);
    let mut files = disk.files();
    files.extend(before.into_iter().filter(|(name, _)| name.starts_with("segment-")));
    (files, secret)
}

#[test]
fn erased_rows_in_leftover_files_are_not_salvaged() {
    let (files, secret) = with_leftover();
    let mut bare = files.clone();
    bare.retain(|name, _| !name.starts_with("manifest-"));
    for files in [files, bare] {
        let (told, report) = salvaged(&files);
        assert!(!told.keys().any(|key| key.1 == secret && key.0 < 3), "{told:#?}");
        assert_eq!(told.len(), 2, "the other item, and the tombstone");
        assert!(report.dropped.erased > 0);
    }
}

#[test]
fn hidden_rows_stay_hidden_when_their_tombstone_is_lost() {
    let disk = MemoryDisk::default();
    let store = Store::open(ground::still(Arc::new(disk.clone()), 8), ground::unmerged()).unwrap();
    let hidden = store.write(items([note("hidden")])).unwrap().items[0];
    store.seal().unwrap();
    store.write(tombstones([hide(hidden)])).unwrap();
    store.seal().unwrap();
    drop(store);
    let mut files = disk.files();
    let last = files.keys().rfind(|name| name.starts_with("segment-")).unwrap().clone();
    files.remove(&last);
    let (told, _) = salvaged(&files);
    assert_eq!(told.len(), 1);
    assert!(told.values().next().unwrap().starts_with("true "), "{told:?}");
}

/// Stores in which many bytes were changed, and truncated files of every kind.
#[test]
fn arbitrary_bytes_never_panic_salvage() {
    let seed = ground::fresh_seed();
    println!("seed {seed}");
    let mut dice = Dice::new(seed);
    let stores = [SmallStore::new().closed, Golden::kept().unwrap().remove(0).files];
    for round in 0..400 {
        let mut files = stores[round % 2].clone();
        for bytes in files.values_mut() {
            for _ in 0..dice.below(4) {
                let at = dice.index(bytes.len().max(1));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = dice.roll().to_le_bytes()[0];
                }
            }
            if dice.below(6) == 0 {
                bytes.truncate(dice.index(bytes.len().max(1)));
            }
        }
        let disk = MemoryDisk::holding(files.clone());
        engine::verify(&disk, &mut |_| {}).map(drop).unwrap_or_default();
        salvaged(&files);
    }
}

/// A sector cannot be read: exactly the rows of its page are lost, and the file is not mapped.
#[test]
fn unreadable_sector_loses_only_the_rows_of_its_page() {
    const SECTOR_BYTES: usize = 4 << 10;
    let files = large();
    let name = files.keys().find(|name| name.starts_with("segment-")).unwrap();
    let bytes = files[name].len();
    for at in (0..bytes).step_by(PAGE_BYTES).chain([bytes - 1]) {
        let from = at - at % SECTOR_BYTES;
        let sector = from..(from + SECTOR_BYTES).min(bytes);
        let mut emptied = files.clone();
        emptied.get_mut(name).unwrap()[sector.clone()].fill(0);
        let disk = FailingDisk::when(Arc::new(MemoryDisk::holding(files.clone())), |_, _| false);
        disk.spoil(name, at as u64..at as u64 + 1);
        let salvage = Salvage::read(&disk, &mut |_| {}).unwrap();
        let mut told = RowsById::new();
        let report = salvage.records(&mut |_, record| {
            collect_record(&record, &mut told);
            Ok::<_, ()>(())
        });
        assert_eq!(told, salvaged(&emptied).0, "byte {at}");
        let report = report.unwrap();
        assert!(!report.is_lossless(), "byte {at}");
        let why = format!("bytes {from}..{} cannot be read", sector.end);
        let mut reasons = report.files.iter().flat_map(|file| &file.reasons);
        assert!(reasons.any(|reason| reason.contains(&why)), "byte {at}: {report:?}");
        let found = engine::verify(&disk, &mut |_| {}).unwrap().findings;
        let says = |it: &engine::CorruptionError| it.rule == "SEG-06" && it.detail.contains(&why);
        assert!(found.iter().any(says), "byte {at}: {found:?}");
    }
}

#[test]
fn unreadable_wal_sector_loses_only_its_commits() {
    let store = SmallStore::new();
    let all = listing_of(&store.closed);
    let name = store.log_name();
    let last = store.frames().pop().unwrap();
    let mut files = store.closed.clone();
    // The bytes after the last frame are its mark. This small log fits one sector, so a second sector is added.
    let log = files.get_mut(name).unwrap();
    log.resize(8 << 10, 0);
    let disk = FailingDisk::when(Arc::new(MemoryDisk::holding(files)), |_, _| false);
    disk.spoil(name, 5000..5001);
    assert!(last.end < 4096, "the frames are in the first sector");
    let salvage = Salvage::read(&disk, &mut |_| {}).unwrap();
    let mut told = RowsById::new();
    let report = salvage.records(&mut |_, record| {
        collect_record(&record, &mut told);
        Ok::<_, ()>(())
    });
    assert_eq!(told, all);
    assert!(!report.unwrap().is_lossless(), "what was there may have been more");
}
