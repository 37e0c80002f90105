//! Erased bytes leave every file of the store and of its backups.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::os::disk::Disk;
use engine::{Batch, ItemDraft, ItemId, NoThrottle, Snapshot, Store, Throttle, WriteError};
use support_engine::failing_disk::FailingDisk;
use support_engine::ground;
use support_engine::memory_disk::MemoryDisk;
use support_engine::sample::{
    self, MODEL, Seals, file, halves, hide, items, link, note, tombstones,
};

use super::scratch_store::{ScratchStore, nearest_ids, search_word};

const SECRET: &str = "zanzibarsecret";

/// Returns the names of the files that contain these bytes.
fn files_containing(scratch: &ScratchStore, bytes: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    for entry in
        std::fs::read_dir(scratch.folder.path()).expect("the disk works, and nothing is damaged")
    {
        let entry = entry.expect("the disk works, and nothing is damaged");
        let found = std::fs::read(entry.path()).expect("the disk works, and nothing is damaged");
        if found.windows(bytes.len()).any(|window| window == bytes) {
            names.push(
                entry.file_name().into_string().expect("the disk works, and nothing is damaged"),
            );
        }
    }
    names
}

fn secret_item(source: Option<engine::SourceId>) -> ItemDraft {
    ItemDraft {
        title: format!("title {SECRET}"),
        attributes: format!(r#"{{"note":"{SECRET}"}}"#),
        tags: vec![format!("tag-{SECRET}")],
        source,
        embedding: halves([0.5, 0.25, 0.125, 1.0]),
        ..note(&format!("the {SECRET} itself"))
    }
}

/// Fills a store with a secret among other items, sealed or not, and returns a kept item and the secret.
fn store_with_secret(scratch: &ScratchStore, sealed: bool) -> (ItemId, ItemId) {
    scratch.store().bind_model(MODEL).expect("the disk works, and nothing is damaged");
    let kept = scratch.write(items([ItemDraft {
        embedding: halves([1.0, 0.0, 0.0, 0.0]),
        ..note("amber kept")
    }]));
    let source = scratch
        .write(Batch { sources: vec![file(&format!("file:///{SECRET}.md"))], ..Batch::default() });
    let written = scratch.write(items([secret_item(Some(source.sources[0]))]));
    let (kept, secret) = (kept.items[0], written.items[0]);
    let mut edge = link(kept, secret, 0.5);
    edge.note = format!("leads to {SECRET}");
    scratch.write(Batch { edges: vec![edge], ..Batch::default() });
    let newer = ItemDraft { supersedes: vec![secret], ..note("birch what replaced it") };
    scratch.write(items([newer]));
    if sealed {
        scratch.seal();
    }
    (kept, secret)
}

fn check_gone(snapshot: &Snapshot, kept: ItemId, gone: ItemId) {
    assert!(snapshot.find(gone).expect("the disk works, and nothing is damaged").is_none());
    assert!(search_word(snapshot, SECRET, &Default::default()).is_empty());
    assert!(!nearest_ids(snapshot, &[0.5, 0.25, 0.125, 1.0], &Default::default()).contains(&gone));
    assert_eq!(search_word(snapshot, "amber", &Default::default()), [kept]);
    let stones = snapshot.tombstones(gone.0).expect("the disk works, and nothing is damaged");
    assert_eq!(stones.len(), 1);
    assert_eq!((stones[0].by, stones[0].reason), ("officer", "asked for by its owner"));
}

fn erase(store: &Store, id: ItemId) {
    store
        .erase(&[id.0], "officer", "asked for by its owner", &NoThrottle)
        .expect("the disk works, and nothing is damaged");
}

#[test]
fn erased_bytes_are_in_no_sealed_or_unsealed_file() {
    for sealed in [false, true] {
        let mut scratch = ScratchStore::unmerged();
        let (kept, gone) = store_with_secret(&scratch, sealed);
        assert!(
            !files_containing(&scratch, SECRET.as_bytes()).is_empty(),
            "the test looks rightly"
        );
        erase(scratch.store(), gone);
        assert_eq!(files_containing(&scratch, SECRET.as_bytes()), Vec::<String>::new());
        let halves: Vec<u8> =
            halves([0.5, 0.25, 0.125, 1.0]).iter().flat_map(|half| half.to_le_bytes()).collect();
        assert_eq!(files_containing(&scratch, &halves), Vec::<String>::new());
        check_gone(&scratch.snapshot(), kept, gone);
        assert_eq!(scratch.store().erasures_pending().unwrap(), 0);
        scratch.reopen();
        check_gone(&scratch.snapshot(), kept, gone);
        assert_eq!(scratch.snapshot().row_counts().unwrap().edges, 0, "its edge went with it");
        assert_eq!(
            scratch.snapshot().row_counts().unwrap().sources,
            0,
            "so did a source that only it had"
        );
    }
}

#[test]
fn source_with_other_items_survives_an_erasure() {
    let scratch = ScratchStore::new();
    scratch.store().bind_model(MODEL).unwrap();
    let written =
        scratch.write(Batch { sources: vec![file("file:///both.md")], ..Batch::default() });
    let source = written.sources[0];
    let other = ItemDraft { source: Some(source), ..note("amber the other") };
    let written = scratch.write(items([secret_item(Some(source)), other]));
    erase(scratch.store(), written.items[0]);
    let snapshot = scratch.snapshot();
    assert!(snapshot.source(source).unwrap().is_some());
    assert_eq!(snapshot.items_by_source(source).unwrap().len(), 1);
}

#[test]
fn erased_id_is_never_reused() {
    let scratch = ScratchStore::new();
    let (_, gone) = store_with_secret(&scratch, true);
    erase(scratch.store(), gone);
    let again = ItemDraft { id: Some(gone), ..note("with the old id") };
    let (field, why) = scratch.write_error(items([again]));
    assert_eq!(field, "id");
    assert!(why.contains("taken") || why.contains("erased"), "{why}");
}

/// The chain of an erased item's successors still starts at the erased id.
#[test]
fn chain_continues_through_an_erased_item() {
    let scratch = ScratchStore::new();
    let (_, gone) = store_with_secret(&scratch, true);
    erase(scratch.store(), gone);
    let snapshot = scratch.snapshot();
    let newer = snapshot.direct_successors(gone).unwrap();
    assert_eq!(newer.len(), 1);
    assert_eq!(snapshot.item(newer[0]).unwrap().text, "birch what replaced it");
}

/// Cancels every job.
struct AlwaysCancel;

impl Throttle for AlwaysCancel {
    fn after_write(&self, _bytes: usize) -> bool {
        false
    }
}

#[test]
fn interrupted_erasure_hides_at_once_and_resumes_on_open() {
    let mut scratch = ScratchStore::unmerged();
    let (kept, gone) = store_with_secret(&scratch, true);
    scratch.store().erase(&[gone.0], "officer", "asked for by its owner", &AlwaysCancel).unwrap();
    assert!(search_word(&scratch.snapshot(), SECRET, &Default::default()).is_empty(), "hidden");
    assert_eq!(scratch.store().erasures_pending().unwrap(), 2, "the item and its source");
    assert_eq!(scratch.store().item_erasures_pending().unwrap(), 1);
    scratch.reopen();
    assert_eq!(scratch.store().erasures_pending().unwrap(), 2);
    assert!(!files_containing(&scratch, SECRET.as_bytes()).is_empty());
    assert_eq!(scratch.store().erase_pending(&NoThrottle).unwrap(), 2);
    assert_eq!(files_containing(&scratch, SECRET.as_bytes()), Vec::<String>::new());
    check_gone(&scratch.snapshot(), kept, gone);
}

/// Cancels the second job.
struct CancelAtSecondCall(AtomicUsize);

impl Throttle for CancelAtSecondCall {
    fn after_write(&self, _bytes: usize) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst) != 1
    }
}

#[test]
fn resumed_erasure_removes_the_orphaned_source() {
    let mut scratch = ScratchStore::unmerged();
    // The item's segment comes before a segment that has its edge, which the cancelled job leaves pending.
    let only = Batch { sources: vec![file("file:///only.md")], ..Batch::default() };
    let source = scratch.write(only).sources[0];
    let item = ItemDraft { embedding: Vec::new(), ..secret_item(Some(source)) };
    let written = scratch.write(items([item, note("amber")]));
    let (gone, kept) = (written.items[0], written.items[1]);
    scratch.seal();
    scratch.write(Batch { edges: vec![link(kept, gone, 0.5)], ..Batch::default() });
    scratch.seal();
    let pace = CancelAtSecondCall(AtomicUsize::new(0));
    scratch.store().erase(&[gone.0], "officer", "asked for", &pace).unwrap();
    assert!(scratch.snapshot().find(gone).unwrap().is_none(), "the first segment is rewritten");
    assert_eq!(scratch.store().item_erasures_pending().unwrap(), 1, "it still waits");
    scratch.reopen();
    let again = ItemDraft { source: Some(source), ..note("names what goes") };
    assert_eq!(scratch.write_error(items([again])).0, "source");
    assert_eq!(scratch.store().erase_pending(&NoThrottle).unwrap(), 2);
    assert!(scratch.snapshot().source(source).unwrap().is_none());
    assert_eq!(files_containing(&scratch, b"only.md"), Vec::<String>::new());
}

/// While a source is being erased, no new item may reference it; before that, any reference keeps the source.
#[test]
fn source_referenced_during_the_erasure_is_never_removed() {
    struct ReferenceDuringErasure<'a>(&'a ScratchStore, engine::SourceId);
    impl Throttle for ReferenceDuringErasure<'_> {
        fn after_write(&self, _bytes: usize) -> bool {
            let item = ItemDraft { source: Some(self.1), ..note("names what goes") };
            let (field, why) = self.0.write_error(items([item]));
            assert_eq!(field, "source");
            assert!(why.contains("is being erased"), "{why}");
            true
        }
    }
    let scratch = ScratchStore::unmerged();
    let only = Batch { sources: vec![file("file:///only.md")], ..Batch::default() };
    let source = scratch.write(only).sources[0];
    let item = ItemDraft { embedding: Vec::new(), ..secret_item(Some(source)) };
    let gone = scratch.write(items([item])).items[0];
    scratch.seal();
    scratch
        .store()
        .erase(&[gone.0], "officer", "asked for", &ReferenceDuringErasure(&scratch, source))
        .unwrap();
    assert_eq!(scratch.snapshot().row_counts().unwrap().sources, 0);
}

#[test]
fn tombstoned_item_can_be_erased() {
    let scratch = ScratchStore::new();
    let (_, gone) = store_with_secret(&scratch, false);
    scratch.write(tombstones([hide(gone)]));
    erase(scratch.store(), gone);
    assert_eq!(files_containing(&scratch, SECRET.as_bytes()), Vec::<String>::new());
    assert_eq!(scratch.snapshot().tombstones(gone.0).unwrap().len(), 2);
}

#[test]
fn erasure_leaves_all_other_rows_unchanged() {
    let scratch = ScratchStore::unmerged();
    sample::furnish(scratch.store(), Seals(&[1, 3]), |_, _| {}).unwrap();
    let secret = scratch.write(items([secret_item(None)])).items[0];
    let listed = |id| {
        let snapshot = scratch.snapshot();
        let asked = support_engine::listing::Asked::of(&snapshot, []).unwrap();
        let mut listed = support_engine::listing::listing(&snapshot, &asked).unwrap();
        let items = listed["items"].as_array_mut().unwrap();
        items.retain(|item| item["id"] != format!("{id}"));
        (listed["items"].clone(), listed["edges"].clone())
    };
    let before = listed(secret);
    erase(scratch.store(), secret);
    assert_eq!(listed(secret), before);
}

/// A source may be referenced by an edge alone, which is erased by itself or with an item that it joins.
#[test]
fn source_named_only_by_an_erased_edge_is_removed() {
    for (by_itself, sealed) in [(true, false), (false, false), (true, true), (false, true)] {
        let scratch = ScratchStore::unmerged();
        let written = scratch.write(items([note("amber"), note("birch")]));
        let [from, to] = [written.items[0], written.items[1]];
        let sources = ["only", "both", "alone"].map(|name| file(&format!("file:///{name}.md")));
        let sources = Batch { sources: sources.to_vec(), ..Batch::default() };
        let sources = scratch.write(sources).sources;
        let naming =
            |at: usize| engine::EdgeDraft { source: Some(sources[at]), ..link(from, to, 0.5) };
        let edges = vec![naming(0), naming(1), engine::EdgeDraft { from: to, ..naming(1) }];
        let edges = scratch.write(Batch { edges, ..Batch::default() }).edges;
        if sealed {
            scratch.seal();
        }
        let gone = if by_itself { vec![edges[0].0, edges[1].0] } else { vec![from.0] };
        scratch.store().erase(&gone, "officer", "asked for", &NoThrottle).unwrap();
        let snapshot = scratch.snapshot();
        let left = sources.iter().map(|&it| snapshot.source(it).unwrap().is_some());
        let left: Vec<bool> = left.collect();
        // The third edge ends at the other item, and a source that was never referenced stays.
        assert_eq!(left, [false, true, true], "{by_itself} {sealed}");
        assert_eq!(files_containing(&scratch, b"only.md"), Vec::<String>::new());
        assert_eq!(scratch.store().erasures_pending().unwrap(), 0);
    }
}

/// Makes a store on a failing disk, with a secret in one of two segments that compaction merges.
fn on_failing_disk(
    fails: impl Fn(&str, &str) -> bool + Send + Sync + 'static,
) -> (MemoryDisk, Store, ItemId) {
    let beneath = MemoryDisk::default();
    let disk = FailingDisk::when(Arc::new(beneath.clone()), fails);
    let store =
        Store::open(ground::still(Arc::new(disk), 5), ground::unmerged()).expect("the disk works");
    let gone = store
        .write(items([ItemDraft { embedding: Vec::new(), ..secret_item(None) }]))
        .expect("the disk works")
        .items[0];
    store.seal().expect("the disk works");
    store.write(items([note("amber")])).expect("the disk works");
    store.seal().expect("the disk works");
    (beneath, store, gone)
}

fn contains_secret(disk: &MemoryDisk) -> bool {
    let holds = |bytes: Vec<u8>| bytes.windows(SECRET.len()).any(|it| it == SECRET.as_bytes());
    disk.files().into_values().any(holds)
}

#[test]
fn erasure_removes_files_left_by_a_failed_rewrite() {
    let armed = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&armed);
    // For a while, every operation on the compaction's new file fails once the file has its final name.
    let (beneath, store, gone) = on_failing_disk(move |action, _| match action {
        "map" => now.load(Ordering::SeqCst) == 1,
        "remove" => now.load(Ordering::SeqCst) > 0,
        _ => false,
    });
    armed.store(1, Ordering::SeqCst);
    let error = store.compact_fully(&NoThrottle).unwrap_err();
    assert!(matches!(error, WriteError::Postponed { .. }), "{error}");
    let segments = |disk: &MemoryDisk| {
        disk.names().unwrap().iter().filter(|name| name.starts_with("segment-")).count()
    };
    assert_eq!(segments(&beneath), 3, "the file is there, and can be neither used nor removed");
    armed.store(2, Ordering::SeqCst);
    let erased = store.erase(&[gone.0], "officer", "asked for", &NoThrottle);
    assert!(erased.is_err() && store.stop_reason().is_none(), "{erased:?}");
    armed.store(0, Ordering::SeqCst);
    // Nothing else is pending, and no write runs: only the removal is retried.
    assert_eq!(store.erase_pending(&NoThrottle).unwrap(), 1);
    assert!(!contains_secret(&beneath));
}

/// A failed sync of the directory may lose names created before it, too.
#[test]
fn failed_directory_sync_of_a_rewrite_stops_the_writer() {
    let armed = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&armed);
    let (beneath, store, _) = on_failing_disk(move |action, name| {
        (action, name) == ("sync", "the directory") && now.load(Ordering::SeqCst) > 0
    });
    armed.store(1, Ordering::SeqCst);
    let error = store.compact_fully(&NoThrottle).unwrap_err();
    assert!(matches!(error, WriteError::Disk(_)) && store.stop_reason().is_some(), "{error}");
    let names = beneath.names().unwrap();
    assert_eq!(names.iter().filter(|name| name.starts_with("segment-")).count(), 2, "{names:?}");
}
