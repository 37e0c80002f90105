//! Writes to a store whose segments are partially present.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::ids::ItemId;
use crate::item::TombstoneDraft;
use crate::os::lazy_file::RangeFetcher;
use crate::query::snapshot::Status;

/// Number of items, enough that the ids take more than four pages.
const ITEMS: u128 = 20_000;
/// Item that supersedes `OLD`, whose id is on another page.
const NEW: ItemId = ItemId(15_000);
const OLD: ItemId = ItemId(5_000);

/// Source of whole segments that can be unavailable, and returns only the requested pages.
#[derive(Debug)]
pub(super) struct Elsewhere {
    folder: PathBuf,
    /// Directory of the fetched pages.
    here: PathBuf,
    is_away: Arc<AtomicBool>,
}

impl Elsewhere {
    pub(super) fn map(&self, name: &str) -> Result<FileBytes, DiskError> {
        let path = self.folder.join(name);
        let file = File::open(&path).map_err(|error| DiskError::new("map", name, error))?;
        let bytes = file.metadata().unwrap().len();
        let source = Arc::new(Pages { file, is_away: Arc::clone(&self.is_away) });
        let opened = crate::segment::lazy_open::open(&self.here.join(name), bytes, source);
        Ok(FileBytes::Lazy(opened.unwrap()))
    }
}

#[derive(Debug)]
struct Pages {
    file: File,
    is_away: Arc<AtomicBool>,
}

impl RangeFetcher for Pages {
    fn fetch(&self, range: Range<u64>) -> Result<Vec<u8>, String> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err("the store is away".to_owned());
        }
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
        self.file.read_exact_at(&mut bytes, range.start).unwrap();
        Ok(bytes)
    }

    fn can_read_ahead(&self) -> bool {
        false
    }
}

/// Writes a sealed store.
fn write_store(disk: &Hooked) {
    let items = (1..=ITEMS).map(|id| ItemDraft {
        id: Some(ItemId(id)),
        kind: "note".to_owned(),
        modality: "text".to_owned(),
        supersedes: (id == NEW.0).then_some(OLD).into_iter().collect(),
        ..ItemDraft::default()
    });
    let items: Vec<_> = items.collect();
    let store = disk.open(Options::default());
    for items in items.chunks(1000) {
        store.write(Batch { items: items.to_vec(), ..Batch::default() }).unwrap();
    }
    store.seal().unwrap();
}

#[test]
fn write_missing_a_page_is_retryable_and_keeps_the_writer_open() {
    let (folder, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut disk = Hooked::on(&folder);
    write_store(&disk);
    let is_away = Arc::new(AtomicBool::new(false));
    let (from, here) = (folder.path().to_owned(), here.path().to_owned());
    disk.source = Some(Arc::new(Elsewhere { folder: from, here, is_away: Arc::clone(&is_away) }));
    let options = || Options { merge_bytes_max: 0, ..Options::default() };
    let store = disk.open(options());
    let snapshot = store.snapshot();
    let place = snapshot.find(NEW).unwrap().unwrap();
    assert_eq!(snapshot.item(place).unwrap().supersedes, [OLD]);
    is_away.store(true, Ordering::SeqCst);
    // All pages that the checks read are present; the page of the superseded item, whose row is retired for good, is
    // absent.
    let erase = || {
        let stone = TombstoneDraft { target: NEW.0, erase: true, ..TombstoneDraft::default() };
        Batch { tombstones: vec![stone], ..Batch::default() }
    };
    let before = store.snapshot().seq();
    let told = store.write(erase()).unwrap_err();
    assert!(matches!(told, WriteError::Postponed { .. }), "{told}");
    assert_eq!(store.stop_reason(), None);
    assert_eq!(store.erasures_pending().unwrap(), 0, "nothing of it is noted");
    let next = store.write(note("written meanwhile")).unwrap();
    assert_eq!(next.seq, before + 1, "nothing of it is in the log");
    is_away.store(false, Ordering::SeqCst);
    store.write(erase()).unwrap();
    let look = |store: &Store| {
        let snapshot = store.snapshot();
        let status = |id| snapshot.status(snapshot.find(id).unwrap().unwrap()).unwrap();
        assert_eq!((status(NEW), status(OLD)), (Status::Tombstoned, Status::Superseded));
        assert_eq!(snapshot.seq(), before + 2);
    };
    look(&store);
    drop(store);
    look(&disk.open(options()));
}
