//! Corrupt bytes under correct checksums, as a bug of another program or a person with a hex editor would leave them.
//! The engine returns an error or some answer, and never panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use support_engine::memory_disk::Files;
use support_engine::reseal;

use support_engine::small_store::SmallStore;

const MASKS: [u8; 4] = [0x01, 0x02, 0x80, 0xff];
/// Files up to this size get all four masks for each byte; each byte of a larger file gets one of the masks.
const EACH_BYTE_BYTES_MAX: usize = 4096;
const SEGMENT_TRAILER_BYTES: usize = 64;

/// Reads the store with one byte of `name` changed and its checksums recomputed, for each position of `at`. Returns the
/// number of changes that were rejected.
fn corrupt_with_valid_checksum(
    store: &SmallStore,
    name: &str,
    at: impl Iterator<Item = usize>,
    reseal: impl Fn(&mut [u8]) -> Option<()>,
) -> usize {
    let mut refused = 0;
    let is_small = store.files[name].len() <= EACH_BYTE_BYTES_MAX;
    for at in at {
        let masks = if is_small { &MASKS[..] } else { &MASKS[at % MASKS.len()..][..1] };
        for mask in masks {
            let mut files: Files = store.files.clone();
            let bytes = files.get_mut(name).expect("it is one of them");
            bytes[at] ^= mask;
            reseal(bytes).expect("its lengths are as they were");
            let read = catch_unwind(AssertUnwindSafe(|| store.read(files)));
            let read = read.unwrap_or_else(|_| panic!("{name}, byte {at} ^ {mask:#x}"));
            refused += usize::from(read.is_err());
        }
    }
    refused
}

#[test]
fn corrupt_wal_record_bytes_never_panic() {
    let store = SmallStore::new();
    for frame in store.frames() {
        let reseal = |bytes: &mut [u8]| reseal::frame(bytes, &frame);
        let name = store.log_name();
        let refused = corrupt_with_valid_checksum(&store, name, frame.start + 8..frame.end, reseal);
        assert!(refused > 0);
    }
}

#[test]
fn corrupt_segment_bytes_never_panic() {
    let store = SmallStore::new();
    let segments = store.files.keys().filter(|name| name.starts_with("segment-"));
    // Two segments have nearly the same layout: the even bytes of one and the odd bytes of the other are changed.
    for (start, name) in segments.enumerate() {
        let bytes = &store.files[name];
        let trailer = bytes.len() - SEGMENT_TRAILER_BYTES;
        let checks = bytes[trailer + 16..trailer + 24].try_into().expect("eight bytes");
        let checks = usize::try_from(u64::from_le_bytes(checks)).expect("a small segment");
        let refused =
            corrupt_with_valid_checksum(&store, name, (start..checks).step_by(2), reseal::segment);
        assert!(refused > 0);
        let refused = corrupt_with_valid_checksum(
            &store,
            name,
            trailer..trailer + 52,
            reseal::segment_trailer,
        );
        assert!(refused > 0);
    }
}

#[test]
fn corrupt_state_file_bytes_never_panic() {
    let store = SmallStore::new();
    for name in store.files.keys().filter(|name| name.starts_with("state-")) {
        let all = 0..store.files[name].len();
        let refused = corrupt_with_valid_checksum(&store, name, all, reseal::state);
        assert!(refused > 0);
    }
}

/// Values that a writer would have rejected are rejected in a log, too.
#[test]
fn record_beyond_its_limits_is_corruption() {
    let store = SmallStore::new();
    let mut files = store.files.clone();
    let frame = store.frames()[1].clone(); // its item has an embedding that ends in -1, 1
    let log = files.get_mut(store.log_name()).unwrap();
    let halves = [0x00, 0xbc, 0x00, 0x3c];
    let found = log[frame.clone()].windows(4).position(|bytes| bytes == halves).unwrap();
    let not_a_number = [0x00, 0x7e];
    log[frame.start + found..][..2].copy_from_slice(&not_a_number);
    reseal::frame(log, &frame).expect("the frame is there");
    let why = store.read(files).unwrap_err();
    assert!(why.contains("LOG-05") && why.contains("embedding"), "{why}");
}
