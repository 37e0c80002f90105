//! Proofs of erasure: issued if nothing remains, and refused if anything might.

use std::sync::Arc;

use engine::{Batch, ErasureProof, ItemDraft, ItemId, NoThrottle, Store, verify_erased};
use support_engine::ground;
use support_engine::memory_disk::{Files, MemoryDisk};
use support_engine::sample::{MODEL, halves, hide, items, link, note, tombstones};

const SECRET: &str = "zanzibarsecret";

struct StoreWithSecret {
    disk: MemoryDisk,
    store: Store,
    secret: ItemId,
}

/// Makes a store with a secret, an edge to it, and an item that replaces the secret.
fn made() -> StoreWithSecret {
    let disk = MemoryDisk::default();
    let store = Store::open(ground::still(Arc::new(disk.clone()), 8), ground::unmerged())
        .expect("the sample is as it was made");
    store.bind_model(MODEL).expect("the sample is as it was made");
    let kept =
        store.write(items([note("amber kept")])).expect("the sample is as it was made").items[0];
    let draft = ItemDraft {
        title: format!("of {SECRET}"),
        embedding: halves([0.5, 0.25, 0.125, 1.0]),
        ..note(&format!("the {SECRET} itself"))
    };
    let secret = store.write(items([draft])).expect("the sample is as it was made").items[0];
    store
        .write(Batch { edges: vec![link(kept, secret, 0.5)], ..Batch::default() })
        .expect("the sample is as it was made");
    store.seal().expect("the sample is as it was made");
    let newer = ItemDraft { supersedes: vec![secret], ..note("birch replaced it") };
    store.write(items([newer])).expect("the sample is as it was made");
    StoreWithSecret { disk, store, secret }
}

fn proof(files: &Files, id: ItemId) -> ErasureProof {
    let disk = MemoryDisk::holding(files.clone());
    verify_erased(&disk, id.0, Some(SECRET), &mut |_| {}).expect("the sample is as it was made")
}

fn erased() -> (StoreWithSecret, Files) {
    let made = made();
    made.store
        .erase(&[made.secret.0], "officer", "asked", &NoThrottle)
        .expect("the sample is as it was made");
    let files = made.disk.files();
    (made, files)
}

#[test]
fn erased_item_is_proven_erased() {
    let (made, files) = erased();
    for files in [files, {
        drop(made.store);
        made.disk.files()
    }] {
        let proof = proof(&files, made.secret);
        assert_eq!(proof.unproven_reasons, [] as [String; 0]);
        assert!(proof.is_proven() && proof.has_tombstone, "{proof:?}");
        // The tombstone, the list of replaced items, and the sorted list.
        assert_eq!(proof.explained.len(), 3, "{:?}", proof.explained);
    }
}

#[test]
fn unknown_id_is_not_proven_erased() {
    let (_made, files) = erased();
    let unknown = proof(&files, ItemId(77));
    assert!(unknown.report.is_clean() && unknown.unproven_reasons.is_empty(), "{unknown:?}");
    assert!(!unknown.is_proven() && !unknown.has_tombstone, "{unknown:?}");
}

#[test]
fn erasure_with_its_tombstone_in_the_wal_is_proven() {
    let (made, _) = erased();
    made.store.write(items([note("a later commit")])).unwrap();
    assert!(proof(&made.disk.files(), made.secret).is_proven());
}

#[test]
fn current_or_tombstoned_item_is_not_proven_erased() {
    let made = made();
    let standing = proof(&made.disk.files(), made.secret);
    assert!(!standing.is_proven() && !standing.has_tombstone);
    made.store.write(tombstones([hide(made.secret)])).unwrap();
    let hidden = proof(&made.disk.files(), made.secret);
    assert!(!hidden.is_proven() && !hidden.has_tombstone);
    for what in ["an item", "a link", "the phrase"] {
        assert!(
            hidden.unproven_reasons.iter().any(|why| why.contains(what)),
            "{what}: {:?}",
            hidden.unproven_reasons
        );
    }
}

#[test]
fn pending_erasure_is_not_proven() {
    struct AlwaysCancel;
    impl engine::Throttle for AlwaysCancel {
        fn after_write(&self, _bytes: usize) -> bool {
            false
        }
    }
    let made = made();
    made.store.erase(&[made.secret.0], "officer", "asked", &AlwaysCancel).unwrap();
    let proof = proof(&made.disk.files(), made.secret);
    assert!(proof.is_pending && !proof.is_proven());
}

/// A copy of the id or the phrase anywhere: in a leftover, a foreign file, between columns, after the last commit of a
/// log.
#[test]
fn planted_copy_of_erased_bytes_is_found_in_any_file() {
    let (made, files) = erased();
    let id = made.secret.0.to_le_bytes().to_vec();
    let plant = |name: &str, bytes: &[u8]| {
        let mut files = files.clone();
        files.entry(name.to_owned()).or_default().extend_from_slice(bytes);
        let proof = proof(&files, made.secret);
        assert!(!proof.is_proven(), "{name}");
        assert!(
            proof.unproven_reasons.iter().any(|why| why.contains(name)),
            "{name}: {:?}",
            proof.unproven_reasons
        );
    };
    plant("notes.txt", &id);
    plant("notes.txt", SECRET.as_bytes());
    plant("notes.txt", made.secret.to_string().as_bytes());
    plant("segment-00000000000000000099", b"anything");
    plant("segment-00000000000000000099.new", b"anything");
    plant("manifest-00000000000000000001", b"anything");
    let log = files.keys().find(|name| name.starts_with("log-")).unwrap();
    plant(log, &id);
    plant(log, b"anything");
    plant("notes.txt", engine::hex(&id).as_bytes());
}

/// The segment from before the erasure, restored under the name that the manifest lists.
#[test]
fn restored_old_segment_is_found() {
    let before = {
        let made = made();
        made.store.seal().unwrap();
        made.disk.files()
    };
    let (made, files) = erased();
    for (name, bytes) in before.iter().filter(|(name, _)| name.starts_with("segment-")) {
        let mut files = files.clone();
        files.insert(name.clone(), bytes.clone());
        assert!(!proof(&files, made.secret).is_proven(), "{name}");
    }
}
