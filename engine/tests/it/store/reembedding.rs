//! Migration of a store to another model during reads and writes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::limits::COMPACT_FREE_BYTES_MIN;
use engine::{
    Batch, ItemDraft, ItemEncoder, ItemId, ItemView, Model, NoThrottle, ReembedError, Store,
    Throttle, WriteError, verify,
};
use half::f16;
use support_engine::failing_disk::{FailingDisk, Refuses};
use support_engine::ground;
use support_engine::listing::{Asked, listing};
use support_engine::memory_disk::MemoryDisk;
use support_engine::sample::{self, MODEL, Seals, halves, items, note};

use super::scratch_store::{ScratchStore, nearest_ids};

const OTHER: Model = Model { fingerprint: [8; 32], dimensions: 3 };

/// Returns the other model's vector of a text.
fn vector(text: &str) -> Vec<f16> {
    let count = |wanted: &str| text.matches(wanted).count();
    let numbers = [count("a"), count("e"), text.len()];
    numbers.map(|n| f16::from_f32(f32::from(u16::try_from(n).expect("a short text")))).to_vec()
}

/// The other model, which calls `before` for each batch.
struct TestEncoder<F>(F);

impl<F: FnMut(usize)> ItemEncoder for TestEncoder<F> {
    fn model(&self) -> Model {
        OTHER
    }

    fn encode(&mut self, items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String> {
        (self.0)(items.len());
        Ok(items.iter().map(|item| vector(item.text)).collect())
    }
}

fn with_vector(text: &str) -> ItemDraft {
    ItemDraft { embedding: halves([1.0, 0.5, 0.0, 0.25]), ..note(text) }
}

/// Lists everything visible except the model, its embeddings and the results of vector search.
fn listing_of(scratch: &ScratchStore) -> serde_json::Value {
    let snapshot = scratch.snapshot();
    let asked = Asked::of(&snapshot, []).expect("no damage");
    let mut listed = listing(&snapshot, &asked).expect("no damage");
    for key in ["model", "found"] {
        listed.as_object_mut().expect("a listing is an object").remove(key);
    }
    for item in listed["items"].as_array_mut().expect("a list") {
        item.as_object_mut().expect("an item is an object").remove("embedding");
    }
    listed
}

fn check_reembedded(scratch: &ScratchStore) {
    let snapshot = scratch.snapshot();
    assert_eq!(snapshot.model(), Some(OTHER));
    for place in snapshot.item_addresses().expect("no damage") {
        let text = snapshot.item(place).expect("no damage").text;
        if let Some(embedding) = snapshot.embedding(place).expect("no damage") {
            assert_eq!(embedding, vector(text), "{text}");
        }
    }
}

#[test]
fn reembedding_replaces_every_embedding_and_nothing_else() {
    for seals in [Seals(&[]), Seals(&[1, 3]), Seals(&[0, 1, 2, 3, 4, 5])] {
        let mut scratch = ScratchStore::unmerged();
        sample::furnish(scratch.store(), seals, |_, _| {}).unwrap();
        let (before, held) = (listing_of(&scratch), scratch.snapshot());
        let vectors = held.row_counts().unwrap().vectors;
        let done = scratch.store().reembed(&mut TestEncoder(|_| {}), &NoThrottle).unwrap();
        assert_eq!(done.items, vectors);
        check_reembedded(&scratch);
        assert_eq!(listing_of(&scratch), before);
        assert_eq!(held.model(), Some(MODEL), "an older snapshot keeps its model");
        assert!(
            !nearest_ids(&scratch.snapshot(), &[1.0, 1.0, 1.0], &Default::default()).is_empty()
        );
        scratch.reopen();
        check_reembedded(&scratch);
        assert_eq!(listing_of(&scratch), before);
        let again = scratch.store().reembed(&mut TestEncoder(|_| {}), &NoThrottle).unwrap();
        assert_eq!(again.items, 0);
    }
}

#[test]
fn writes_during_reembedding_get_the_new_model() {
    let mut scratch = ScratchStore::unmerged();
    scratch.store().bind_model(MODEL).unwrap();
    scratch.write(items([with_vector("amber")]));
    scratch.seal();
    // Enough writes for a second round at the first call, and one for the end at the second; later calls may come while
    // writers wait.
    let mut calls = 0;
    let mut other = TestEncoder(|_| {
        calls += 1;
        let more = [70, 1, 0][calls.min(3) - 1];
        if more > 0 {
            let texts = (0..more).map(|n| with_vector(&format!("while it moved {calls} {n}")));
            scratch.write(items(texts));
        }
    });
    scratch.store().reembed(&mut other, &NoThrottle).unwrap();
    check_reembedded(&scratch);
    assert_eq!(scratch.snapshot().row_counts().unwrap().vectors, 72);
    scratch.reopen();
    check_reembedded(&scratch);
}

#[test]
fn old_model_embeddings_are_rejected_after_reembedding() {
    let scratch = ScratchStore::new();
    scratch.store().bind_model(MODEL).unwrap();
    scratch.write(items([with_vector("amber")]));
    let same_width = Model { fingerprint: [9; 32], ..MODEL };
    let refused = Batch { embedded_by: Some(same_width), ..items([with_vector("birch")]) };
    let (field, why) = scratch.write_error(refused);
    assert_eq!(field, "model", "{why}");
    scratch.store().reembed(&mut TestEncoder(|_| {}), &NoThrottle).unwrap();
    let (field, _) = scratch.write_error(items([with_vector("birch")]));
    assert_eq!(field, "embedding");
    let right = ItemDraft { embedding: vector("birch"), ..note("birch") };
    scratch.write(Batch { embedded_by: Some(OTHER), ..items([right]) });
}

/// Returns the files that no manifest lists.
fn unlisted(disk: &dyn engine::os::disk::Disk) -> Vec<String> {
    let verified = verify(disk, &mut |_| {}).expect("it can be read");
    assert!(verified.is_clean(), "{:?}", verified.findings);
    let notes = verified.notes.into_iter();
    notes.filter(|note| note.contains("a leftover that no manifest needs")).collect()
}

/// Makes three sealed segments with embeddings, in a store on a disk in memory.
fn three_segments() -> MemoryDisk {
    let disk = MemoryDisk::default();
    let store = opened(Arc::new(disk.clone()));
    store.bind_model(MODEL).expect("the disk works");
    for text in ["amber", "birch", "cedar"] {
        store.write(items([with_vector(text)])).expect("the disk works");
        store.seal().expect("the disk works");
    }
    drop(store);
    disk
}

fn opened(disk: Arc<dyn engine::os::disk::Disk>) -> Store {
    Store::open(ground::still(disk, 5), ground::unmerged()).expect("it opens")
}

fn segments(disk: &MemoryDisk) -> BTreeSet<String> {
    disk.files().into_keys().filter(|name| name.starts_with("segment-")).collect()
}

#[test]
fn reembedding_requires_free_disk_space_throughout() {
    let disk = three_segments();
    let store = opened(Arc::new(disk.clone()));
    let (before, mut calls) = (segments(&disk), 0);
    disk.leave_free(COMPACT_FREE_BYTES_MIN);
    let error = store.reembed(&mut TestEncoder(|_| calls += 1), &NoThrottle).unwrap_err();
    let ReembedError::NoRoom { wanted, free: COMPACT_FREE_BYTES_MIN } = error else {
        panic!("{error}")
    };
    let all: usize =
        disk.files().iter().filter(|it| before.contains(it.0)).map(|it| it.1.len()).sum();
    // Rows of both models are padded to the same width.
    assert_eq!(wanted, COMPACT_FREE_BYTES_MIN + all as u64);
    assert_eq!(calls, 0, "nothing was embedded in vain");
    disk.leave_free(wanted);
    // Other files fill the disk meanwhile.
    let mut calls = 0;
    let mut other = TestEncoder(|_| {
        calls += 1;
        if calls == 2 {
            disk.leave_free(COMPACT_FREE_BYTES_MIN);
        }
    });
    let error = store.reembed(&mut other, &NoThrottle).unwrap_err();
    assert!(matches!(error, ReembedError::NoRoom { .. }), "{error}");
    assert_eq!(calls, 2, "the third segment had no room left");
    assert_eq!(segments(&disk), before);
    store.write(items([note("writers go on")])).unwrap();
    disk.leave_free(u64::MAX);
    store.reembed(&mut TestEncoder(|_| {}), &NoThrottle).unwrap();
    assert_eq!(store.snapshot().model(), Some(OTHER));
}

/// Any operation may fail: the files of a failed migration are removed at once, even if a write has stopped the writer
/// meanwhile.
#[test]
fn failed_reembedding_leaves_no_file_behind() {
    let (mut postponed, mut stopped) = (0, 0);
    for at in 0.. {
        let beneath = three_segments();
        let before = segments(&beneath);
        let disk = FailingDisk::new(Arc::new(beneath.clone()), at, Refuses::Once);
        let Ok(store) = Store::open(ground::still(Arc::new(disk.clone()), 6), ground::unmerged())
        else {
            continue;
        };
        let mut calls = 0;
        let mut other = TestEncoder(|_| {
            calls += 1;
            if calls == 2 {
                let _stops_the_writer_or_not = store.write(items([note("meanwhile")]));
            }
        });
        match store.reembed(&mut other, &NoThrottle) {
            Ok(_) if !disk.has_refused() => break,
            Ok(_) => {}
            Err(ReembedError::Store(WriteError::Postponed { .. })) => {
                postponed += 1;
                let listed: Vec<_> = unlisted(&beneath);
                assert_eq!(listed, [""; 0], "operation {at}");
                store.reembed(&mut TestEncoder(|_| {}), &NoThrottle).expect("the disk works again");
            }
            Err(ReembedError::Store(WriteError::Stopped(_))) => {
                stopped += 1;
                assert_eq!(segments(&beneath), before, "operation {at}");
            }
            // The manifest may be on disk or not, so its files stay until the next open.
            Err(ReembedError::Store(WriteError::Disk(_))) => assert!(store.stop_reason().is_some()),
            Err(error) => panic!("operation {at}: {error}"),
        }
        drop(store);
        let again = opened(Arc::new(beneath.clone()));
        assert!([Some(MODEL), Some(OTHER)].contains(&again.snapshot().model()));
        assert_eq!(unlisted(&beneath), [""; 0]);
    }
    assert!(postponed >= 6 && stopped >= 2, "{postponed} postponed, {stopped} stopped");
}

/// Erases an item at a chosen moment between two segments.
struct EraseDuringReembedding<'a> {
    store: &'a Store,
    target: ItemId,
    /// Moments to skip before that.
    left: AtomicUsize,
    disk: &'a MemoryDisk,
}

impl Throttle for EraseDuringReembedding<'_> {
    fn after_write(&self, bytes: usize) -> bool {
        if bytes == 0 && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.store.erase(&[self.target.0], "eraser", "asked for", &NoThrottle).expect("it can");
            assert_eq!(self.store.erasures_pending().expect("it takes writes"), 0);
            for (name, bytes) in self.disk.files() {
                assert!(!bytes.windows(5).any(|it| it == b"amber"), "{name} has what was erased");
            }
        }
        true
    }
}

/// An erasure does not wait for the end of a migration: it runs between two segments, and no file keeps the bytes, the
/// migration's unpublished files included.
#[test]
fn concurrent_erasure_discards_reembedded_segments() {
    for moment in 1..=4 {
        let disk = three_segments();
        let store = opened(Arc::new(disk.clone()));
        let snapshot = store.snapshot();
        let first = snapshot.item_addresses().unwrap().next().unwrap();
        let target = snapshot.id(first).unwrap();
        drop(snapshot);
        let left = AtomicUsize::new(moment);
        let pace = EraseDuringReembedding { store: &store, target, left, disk: &disk };
        let mut embedded = 0;
        let done = store.reembed(&mut TestEncoder(|count| embedded += count), &pace).unwrap();
        let snapshot = store.snapshot();
        assert_eq!(snapshot.model(), Some(OTHER));
        assert_eq!(snapshot.find(target).unwrap(), None);
        assert_eq!(snapshot.row_counts().unwrap().vectors, 2);
        for place in snapshot.item_addresses().unwrap() {
            let text = snapshot.item(place).unwrap().text;
            assert_eq!(snapshot.embedding(place).unwrap().unwrap(), vector(text), "{text}");
        }
        assert_eq!(done.items, embedded as u64);
        assert_eq!(embedded, if moment == 1 { 2 } else { 3 }, "at moment {moment}");
        drop(snapshot);
        drop(store);
        assert_eq!(unlisted(&disk), [""; 0]);
    }
}

/// Cancels the work after some calls.
struct CancelAfterCalls(AtomicUsize);

impl Throttle for CancelAfterCalls {
    fn after_write(&self, _bytes: usize) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) > 1
    }
}

#[test]
fn cancelled_or_failed_reembedding_keeps_the_old_model() {
    let mut scratch = ScratchStore::unmerged();
    sample::furnish(scratch.store(), Seals(&[0, 1, 4]), |_, _| {}).unwrap();
    let before = listing_of(&scratch);
    // Each of three segments needs an embedding call and a file write at least.
    for calls in 1..=4 {
        let pace = CancelAfterCalls(AtomicUsize::new(calls));
        let error = scratch.store().reembed(&mut TestEncoder(|_| {}), &pace).unwrap_err();
        assert!(matches!(error, ReembedError::Cancelled), "{error}");
        assert_eq!(scratch.snapshot().model(), Some(MODEL));
        assert_eq!(listing_of(&scratch), before);
        assert_eq!(unlisted(&*scratch.env().disk), [""; 0], "after {calls} calls");
        scratch.reopen();
        assert_eq!(listing_of(&scratch), before);
    }
    struct FailingEncoder;
    impl ItemEncoder for FailingEncoder {
        fn model(&self) -> Model {
            OTHER
        }
        fn encode(&mut self, items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String> {
            Ok(vec![vec![f16::NAN; 3]; items.len()])
        }
    }
    let error = scratch.store().reembed(&mut FailingEncoder, &NoThrottle).unwrap_err();
    assert!(matches!(error, ReembedError::Encoder(_)), "{error}");
    let wide = Model { dimensions: 5000, ..OTHER };
    struct WrongWidthEncoder(Model);
    impl ItemEncoder for WrongWidthEncoder {
        fn model(&self) -> Model {
            self.0
        }
        fn encode(&mut self, _items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String> {
            Err("never asked".to_owned())
        }
    }
    let error = scratch.store().reembed(&mut WrongWidthEncoder(wide), &NoThrottle).unwrap_err();
    assert!(matches!(error, ReembedError::Store(WriteError::Refused { .. })), "{error}");
    scratch.store().reembed(&mut TestEncoder(|_| {}), &NoThrottle).unwrap();
    check_reembedded(&scratch);
}
