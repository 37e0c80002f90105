//! Pages fetched on use, late, never, or with wrong content.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use super::*;
use crate::item::{Batch, ItemDraft};
use crate::os::mmap::FileBytes;
use crate::segment::{Segment, SegmentBuilder, open_any};
use crate::{ItemId, Remedy};

/// Number of items; `TEXT_BYTES` is the length of the text of each.
const ITEMS: u32 = 64;
const TEXT_BYTES: usize = 100_000;

fn text(row: u32) -> String {
    format!("{row:09} ").repeat(TEXT_BYTES / 10)
}

/// Returns a segment of some megabytes.
fn bytes() -> Vec<u8> {
    let items = (0..ITEMS).map(|row| ItemDraft {
        id: Some(ItemId(u128::from(row) + 1)),
        kind: "note".to_owned(),
        title: format!("{row}"),
        text: text(row),
        ..ItemDraft::default()
    });
    let mut builder = SegmentBuilder::default();
    builder.push_batch(1, &Batch { items: items.collect(), ..Batch::default() });
    builder.finish().as_slice().to_vec()
}

/// Remote file that can be made unreachable or return wrong bytes.
#[derive(Debug, Default)]
struct Elsewhere {
    bytes: Vec<u8>,
    is_away: AtomicBool,
    /// Number of responses to corrupt, and the offset of the corrupted byte; responses without this byte do not count.
    wrong: Mutex<(usize, usize)>,
    asked: Mutex<Vec<Range<u64>>>,
    /// Signals each fetch, which blocks until the test replies.
    held: Option<(Sender<()>, Mutex<Receiver<()>>)>,
    /// If true, the next fetch panics.
    panics: AtomicBool,
}

impl Elsewhere {
    fn of(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { bytes, ..Self::default() })
    }

    fn fetched(&self) -> u64 {
        self.asked.lock().unwrap().iter().map(|range| range.end - range.start).sum()
    }
}

impl RangeFetcher for Elsewhere {
    fn fetch(&self, range: Range<u64>) -> Result<Vec<u8>, String> {
        if let Some((told, go)) = &self.held {
            told.send(()).unwrap();
            go.lock().unwrap().recv().unwrap();
        }
        assert!(!self.panics.swap(false, Ordering::SeqCst), "as the test wants it");
        if self.is_away.load(Ordering::SeqCst) {
            return Err("the store is away".to_owned());
        }
        self.asked.lock().unwrap().push(range.clone());
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        let mut found = self.bytes[range.clone()].to_vec();
        let mut wrong = self.wrong.lock().unwrap();
        if wrong.0 > 0 && range.contains(&wrong.1) {
            found[wrong.1 - range.start] ^= 1;
            wrong.0 -= 1;
        }
        Ok(found)
    }
}

struct Place {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("segment-1.part");
        Self { _folder: folder, path }
    }

    fn open(&self, from: &Arc<Elsewhere>) -> Arc<LazyFile> {
        let source = Arc::clone(from) as Arc<dyn RangeFetcher>;
        open(&self.path, from.bytes.len() as u64, source).unwrap()
    }
}

fn segment(filling: &Arc<LazyFile>) -> Segment {
    let bytes = FileBytes::Lazy(Arc::clone(filling));
    open_any("segment-1", bytes).unwrap().segment
}

/// Returns the offset of the text of a row.
fn byte_of(bytes: &[u8], row: u32) -> usize {
    let wanted = text(row);
    bytes.windows(20).position(|window| window == &wanted.as_bytes()[..20]).unwrap()
}

#[test]
fn only_used_pages_are_fetched_until_completion() {
    let (place, from) = (Place::new(), Elsewhere::of(bytes()));
    let filling = place.open(&from);
    assert!(from.fetched() <= 4 * PAGE_BYTES as u64, "first and last pages: {}", from.fetched());
    let filled = segment(&filling);
    let whole = Segment::open("segment-1", FileBytes::copy_from(&from.bytes)).unwrap();
    assert!(filled.item(3).unwrap() == whole.item(3).unwrap());
    let some = from.fetched();
    assert!(some < from.bytes.len() as u64 * 3 / 4, "{some} of {}", from.bytes.len());
    assert!(!filling.is_complete() && filling.bytes_present() <= some);
    assert!(filled.item(3).unwrap().text == text(3));
    assert_eq!(from.fetched(), some, "what is here is not fetched again");
    for row in 0..ITEMS {
        assert!(filled.item(row).unwrap() == whole.item(row).unwrap());
        assert_eq!(filled.row_of_item(ItemId(u128::from(row) + 1)).unwrap(), Some(row));
    }
    assert!(filled.ensure_complete().unwrap() == from.bytes);
    assert!(filling.is_complete());
    assert_eq!(filling.bytes_present(), from.bytes.len() as u64);
    let pages = 2 * PAGE_BYTES as u64;
    assert!(from.fetched() <= from.bytes.len() as u64 + pages, "each page once, but for the end");
    assert!(std::fs::read(&place.path).unwrap() == from.bytes);
    assert_eq!(
        filled.column::<u8>(crate::layout::TEXT_BYTES).unwrap().all().unwrap().len(),
        6_400_000
    );
}

#[test]
fn unavailable_page_is_not_corruption_and_can_be_retried() {
    let (place, from) = (Place::new(), Elsewhere::of(bytes()));
    let filled = segment(&place.open(&from));
    filled.item(0).unwrap();
    from.is_away.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        let away = filled.item(ITEMS - 1).map(|item| item.id).unwrap_err();
        assert_eq!((away.rule, away.remedy()), ("FAR-01", Remedy::RetryLater), "{away}");
        assert!(away.detail.contains("the store is away"), "{away}");
    }
    assert!(filled.ensure_complete().unwrap_err().is_unavailable());
    assert!(filled.item(0).unwrap().text == text(0), "what is here answers on");
    from.is_away.store(false, Ordering::SeqCst);
    assert!(filled.item(ITEMS - 1).unwrap().text == text(ITEMS - 1));
}

#[test]
fn opening_without_the_file_end_fails() {
    let (place, from) = (Place::new(), Elsewhere::of(bytes()));
    from.is_away.store(true, Ordering::SeqCst);
    let length = from.bytes.len() as u64;
    let away = open(&place.path, length, Arc::clone(&from) as Arc<dyn RangeFetcher>).unwrap_err();
    assert_eq!(away.remedy(), Remedy::RetryLater);
    assert!(away.to_string().starts_with("a part of the store is not here yet"), "{away}");
    from.is_away.store(false, Ordering::SeqCst);
    *from.wrong.lock().unwrap() = (1, from.bytes.len() - 40);
    place.open(&from);
    *from.wrong.lock().unwrap() = (3, from.bytes.len() - 40);
    let other = Place::new();
    let wrong = open(&other.path, length, Arc::clone(&from) as Arc<dyn RangeFetcher>).unwrap_err();
    assert_eq!(wrong.remedy(), Remedy::Restore, "{wrong}");
}

#[test]
fn page_with_wrong_checksum_is_refetched_once() {
    let (place, from) = (Place::new(), Elsewhere::of(bytes()));
    let filled = segment(&place.open(&from));
    let byte = byte_of(&from.bytes, 40) + 5000;
    *from.wrong.lock().unwrap() = (1, byte);
    assert!(filled.item(40).unwrap().text == text(40));
    assert_eq!(from.wrong.lock().unwrap().0, 0, "it was asked for");
    let byte = byte_of(&from.bytes, 20) + 5000;
    *from.wrong.lock().unwrap() = (2, byte);
    let damage = filled.item(20).map(|item| item.id).unwrap_err();
    assert_eq!((damage.rule, damage.remedy()), ("SEG-06", Remedy::Restore), "{damage}");
    assert!(damage.detail.contains(&format!("page {}", byte / PAGE_BYTES)), "{damage}");
    assert!(filled.item(20).unwrap().text == text(20), "nothing wrong was kept");
}

#[test]
fn restart_keeps_valid_pages_of_a_partial_file() {
    let (place, from) = (Place::new(), Elsewhere::of(bytes()));
    segment(&place.open(&from)).item(50).unwrap();
    from.is_away.store(true, Ordering::SeqCst);
    let again = segment(&place.open(&from));
    assert!(again.item(50).unwrap().text == text(50), "nothing is fetched");
    assert!(again.item(25).map(|item| item.id).unwrap_err().is_unavailable());
    drop(again);
    // Possible states after a power cut: a page that was never written, and a page with other content.
    let mut file = std::fs::read(&place.path).unwrap();
    let byte = byte_of(&from.bytes, 50) + 3000;
    file[byte] ^= 1;
    std::fs::write(&place.path, &file).unwrap();
    let again = segment(&place.open(&from));
    assert!(again.item(50).map(|item| item.id).unwrap_err().is_unavailable());
    from.is_away.store(false, Ordering::SeqCst);
    let before = from.fetched();
    assert!(again.item(50).unwrap().text == text(50));
    assert_eq!(from.fetched() - before, PAGE_BYTES as u64, "the one page");
    assert!(again.ensure_complete().unwrap() == from.bytes);
    drop(again);
    // The end of an existing file is verified too.
    let mut file = std::fs::read(&place.path).unwrap();
    let end = file.len() - 100;
    file[end] ^= 1;
    std::fs::write(&place.path, &file).unwrap();
    let again = segment(&place.open(&from));
    assert!(again.ensure_complete().unwrap() == from.bytes);
    // A file of another length is not reused.
    drop(again);
    std::fs::write(&place.path, &from.bytes[1..]).unwrap();
    assert!(segment(&place.open(&from)).ensure_complete().unwrap() == from.bytes);
}

#[test]
fn partial_file_locked_by_another_process_is_not_touched() {
    let (place, from) = (Place::new(), Elsewhere::of(bytes()));
    let first = segment(&place.open(&from));
    let before = first.item(1).unwrap();
    let second = segment(&place.open(&from));
    assert!(second.item(1).unwrap() == before);
    assert!(first.ensure_complete().unwrap() == second.ensure_complete().unwrap());
    assert!(std::fs::read(&place.path).unwrap() == from.bytes);
}

#[test]
fn concurrent_readers_share_one_page_fetch() {
    let place = Place::new();
    let plain = Elsewhere::of(bytes());
    // Fetches the pages that opening needs, so that the blocking source below is asked only for the pages under test.
    let byte = byte_of(&plain.bytes, 30);
    drop(place.open(&plain));
    let (told, begun) = channel();
    let (go, going) = channel();
    let held = Some((told, Mutex::new(going)));
    let from = Arc::new(Elsewhere { bytes: plain.bytes.clone(), held, ..Elsewhere::default() });
    let filling = place.open(&from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let filling = &filling;
                scope.spawn(move || {
                    filling.ensure_present(byte + n * PAGE_BYTES..byte + n * PAGE_BYTES + 1)
                })
            })
            .collect();
        begun.recv().unwrap();
        // If the pages are in two fetch ranges, a second fetch may begin; a range in flight must not be fetched again.
        go.send(()).unwrap();
        go.send(()).unwrap();
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
    });
    let asked = from.asked.lock().unwrap();
    assert!(asked.len() <= 2, "{asked:?}");
    let mut pages: Vec<u64> =
        asked.iter().flat_map(|range| range.clone().step_by(PAGE_BYTES)).collect();
    let count = pages.len();
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(pages.len(), count, "no page twice: {asked:?}");
}

#[test]
fn waiting_readers_receive_the_fetch_error() {
    let (told, begun) = channel();
    let (go, going) = channel();
    let place = Place::new();
    let plain = Elsewhere::of(bytes());
    drop(place.open(&plain));
    let held = Some((told, Mutex::new(going)));
    let from = Arc::new(Elsewhere {
        bytes: plain.bytes.clone(),
        held,
        is_away: AtomicBool::new(true),
        ..Elsewhere::default()
    });
    let filling = &place.open(&from);
    let found = std::thread::scope(|scope| {
        let byte = 3 << 20;
        let threads = [(); 2].map(|()| scope.spawn(move || filling.ensure_present(byte..byte + 1)));
        begun.recv().unwrap();
        // If the second thread came late, it fetches by itself.
        go.send(()).unwrap();
        go.send(()).unwrap();
        threads.map(|thread| thread.join().unwrap())
    });
    for why in found {
        assert_eq!(why, Err(PageFetchError::Unavailable("the store is away".to_owned())));
    }
}

#[test]
fn pages_claimed_by_a_panicked_thread_are_fetched_again() {
    let (place, from) = (Place::new(), Elsewhere::of(bytes()));
    let filling = &place.open(&from);
    from.panics.store(true, Ordering::SeqCst);
    let byte = 3 << 20;
    let need = || filling.ensure_present(byte..byte + 1);
    std::thread::scope(|scope| assert!(scope.spawn(need).join().is_err()));
    assert_eq!(need(), Ok(()), "it waits for nobody");
}

#[test]
fn complete_lazy_file_reads_like_a_mapped_file() {
    let (place, from) = (Place::new(), Elsewhere::of(bytes()));
    std::fs::write(&place.path, &from.bytes).unwrap();
    let filling = open_complete(&place.path, Arc::clone(&from) as Arc<dyn RangeFetcher>).unwrap();
    assert!(filling.is_complete());
    assert!(segment(&filling).ensure_complete().unwrap() == from.bytes);
    assert_eq!(from.fetched(), 0);
}
