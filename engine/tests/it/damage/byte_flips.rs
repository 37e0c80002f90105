//! Every byte flipped, every file truncated at every length, every file missing.
//!
//! Corruption of the last frame of the newest log, or truncation at that log's end, cannot be distinguished from a
//! crash. A crash before the frame was acknowledged leaves the same bytes, and a store that rejected them would not
//! open after a crash. The earlier commits must then be there in full, and nothing else. A frame followed by another
//! frame, or by a mark, is vouched for by its successor (log.md, Torn writes).

use std::sync::Arc;

use engine::{ItemDraft, Options, Store};
use support_engine::ground;
use support_engine::listing::{Asked, listing};
use support_engine::memory_disk::{Files, MemoryDisk};
use support_engine::reseal::LOG_HEADER_BYTES;
use support_engine::sample::{self, MODEL, halves, items, note};

use support_engine::small_store::SmallStore;

/// Two masks: a bit that differs from one byte to the next, and all bits.
fn masks(at: usize) -> [u8; 2] {
    [1 << (at % 8), 0xff]
}

fn with_corrupted_file(files: &Files, name: &str, spoil: impl FnOnce(&mut Vec<u8>)) -> Files {
    let mut files = files.clone();
    spoil(files.get_mut(name).expect("it is one of them"));
    files
}

#[test]
fn small_store_has_every_kind_of_file() {
    let store = SmallStore::new();
    for stem in ["manifest-", "segment-", "state-", "log-"] {
        assert!(store.files.keys().any(|name| name.starts_with(stem)), "{stem}");
    }
    assert_eq!(store.frames().len(), sample::STEPS - store.sealed);
    assert_eq!(store.read(store.files.clone()).as_ref(), Ok(&store.shown[sample::STEPS - 1]));
}

#[test]
fn listed_file_byte_flips_are_detected() {
    let store = SmallStore::new();
    for (name, bytes) in store.files.iter().filter(|(name, _)| *name != store.log_name()) {
        for at in 0..bytes.len() {
            for mask in masks(at) {
                let files = with_corrupted_file(&store.files, name, |bytes| bytes[at] ^= mask);
                // Every byte of these files is covered by a checksum.
                assert!(store.read(files).is_err(), "{name}, byte {at} ^ {mask:#x}");
            }
        }
    }
}

#[test]
fn wal_byte_flips_are_detected_unless_like_a_torn_write() {
    let store = SmallStore::new();
    let frames = store.frames();
    let last = frames.last().expect("the log has frames").clone();
    let before_last = &store.shown[sample::STEPS - 2];
    for at in 0..last.end {
        for mask in masks(at) {
            let name = store.log_name();
            let read =
                store.read(with_corrupted_file(&store.files, name, |bytes| bytes[at] ^= mask));
            if last.contains(&at) {
                assert_eq!(read.as_ref(), Ok(before_last), "byte {at} ^ {mask:#x}");
            } else {
                assert!(read.is_err(), "byte {at} ^ {mask:#x}");
            }
        }
    }
}

/// After an orderly close, a mark vouches for the last frame, too.
#[test]
fn closed_wal_byte_flips_are_detected() {
    let store = SmallStore::new();
    let (name, frames) = (store.log_name(), store.frames());
    let mark = frames.last().expect("the log has frames").end;
    assert!(store.closed[name].len() > mark);
    for at in 0..store.closed[name].len() {
        for mask in masks(at) {
            let read =
                store.read(with_corrupted_file(&store.closed, name, |bytes| bytes[at] ^= mask));
            if at < mark {
                assert!(read.is_err(), "byte {at} ^ {mask:#x}");
            } else {
                let all = &store.shown[sample::STEPS - 1];
                assert_eq!(read.as_ref(), Ok(all), "byte {at} ^ {mask:#x} of the mark");
            }
        }
    }
}

#[test]
fn truncated_file_is_detected_unless_the_newest_wal() {
    let store = SmallStore::new();
    let frames = store.frames();
    for (name, bytes) in &store.files {
        for length in 0..bytes.len() {
            let read =
                store.read(with_corrupted_file(&store.files, name, |bytes| bytes.truncate(length)));
            // The manifest names the log, so the log's header had been synced.
            if name == store.log_name() && length >= LOG_HEADER_BYTES {
                let whole = frames.iter().filter(|frame| frame.end <= length).count();
                let wanted = &store.shown[store.sealed + whole - 1];
                assert_eq!(read.as_ref(), Ok(wanted), "{name} cut at {length}");
            } else {
                assert!(read.is_err(), "{name} cut at {length}");
            }
        }
    }
}

#[test]
fn extended_file_is_detected_unless_the_newest_wal() {
    let store = SmallStore::new();
    for name in store.files.keys() {
        for more in [&[0; 1][..], &[0xff; 40], &[0; 5000]] {
            let read =
                store.read(with_corrupted_file(&store.files, name, |bytes| bytes.extend(more)));
            if name == store.log_name() {
                assert_eq!(read.as_ref(), Ok(&store.shown[sample::STEPS - 1]));
            } else {
                assert!(read.is_err(), "{name} and {} bytes", more.len());
            }
        }
    }
}

#[test]
fn missing_file_is_detected_on_open() {
    let store = SmallStore::new();
    for name in store.files.keys() {
        let mut files = store.files.clone();
        files.remove(name);
        let why = store.read(files).expect_err(name);
        assert!(why.contains(name.as_str()) || why.contains("MAN-03"), "{name}: {why}");
    }
}

/// An older log that is truncated, missing, or has a corrupt last frame is detected by its successor.
#[test]
fn truncated_or_missing_older_wal_is_detected() {
    let store = SmallStore::new();
    // The store is closed in an orderly way: after a kill, the next open would seal the log.
    let disk = MemoryDisk::holding(store.closed.clone());
    let ground = ground::still(Arc::new(disk.clone()), 99);
    let reopened = Store::open(ground, Options::default()).unwrap();
    reopened.write(items([note("in a second log")])).unwrap();
    drop(reopened);
    let files = disk.files();
    let (name, last) = (store.log_name(), store.frames().pop().unwrap());
    assert!(store.read(files.clone()).is_ok());
    for length in 0..last.end {
        let cut = with_corrupted_file(&files, name, |bytes| bytes.truncate(length));
        assert!(store.read(cut).is_err(), "cut at {length}");
    }
    for at in 0..last.end {
        let flipped = with_corrupted_file(&files, name, |bytes| bytes[at] ^= 0x04);
        assert!(store.read(flipped).is_err(), "byte {at}");
    }
    let mut gone = files;
    gone.remove(name);
    let why = store.read(gone).unwrap_err();
    assert!(why.contains("MAN-03"), "{why}");
}

/// Opening checks only the first and last page of a segment of several pages; the others are checked when they are
/// read. In either case, the store returns only bytes that were written.
#[test]
fn large_segment_byte_flip_is_detected_when_its_page_is_read() {
    const ITEMS: u8 = 90;
    const STEP_BYTES: usize = 1999;
    let disk = MemoryDisk::default();
    let store = Store::open(ground::still(Arc::new(disk.clone()), 3), Options::default()).unwrap();
    store.bind_model(MODEL).unwrap();
    let drafts = (0..ITEMS).map(|n| ItemDraft {
        embedding: halves([f32::from(n), 1.0, 0.0, 2.0]),
        ..note(&format!("{n}th {}", "of many words that make it long ".repeat(100)))
    });
    let written = store.write(items(drafts)).unwrap();
    store.seal().unwrap();
    let asked = Asked::of(&store.snapshot(), [&written]).unwrap();
    let wanted = listing(&store.snapshot(), &asked).unwrap();
    drop(store);
    let files = disk.files();
    let name = files.keys().find(|name| name.starts_with("segment-")).unwrap();
    assert!(files[name].len() > 4 * (64 << 10), "{} bytes are few pages", files[name].len());
    let mut late = 0;
    for at in (0..files[name].len()).step_by(STEP_BYTES) {
        let disk =
            MemoryDisk::holding(with_corrupted_file(&files, name, |bytes| bytes[at] ^= 0x20));
        let opened = Store::open(ground::still(Arc::new(disk), 3), Options::default());
        let Ok(store) = opened else { continue };
        late += 1;
        let error = listing(&store.snapshot(), &asked).expect_err(&format!("byte {at}"));
        let engine::SearchError::Damaged(damage) = error else { panic!("{error}") };
        assert_eq!(damage.rule, "SEG-06", "{damage}");
    }
    assert!(late > 50, "only {late} flips came as far as a reader");
    let disk = MemoryDisk::holding(files);
    let store = Store::open(ground::still(Arc::new(disk), 3), Options::default()).unwrap();
    assert_eq!(listing(&store.snapshot(), &asked).unwrap(), wanted);
}
