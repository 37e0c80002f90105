use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::Durability;
use super::frame::frame_bytes;
use super::frame::{FrameChecksum, HEAD_BYTES, HEADER_BYTES, WalHeader};
use super::reader::{WalEnd, WalReader};
use super::writer::WalWriter;
use crate::error::{DiskError, OpenError};
use crate::ids::{Seq, StoreId};
use crate::layout::{self, FileKind};
use crate::limits::LOG_RESERVE_STEP;
use crate::manifest::{Manifest, READ_VERSION};
use crate::os::disk::{DiskFile, FsDisk};

const STORE: StoreId = StoreId(0x5eed);
const NUMBER: u64 = 7;
const FIRST: Seq = 4;

/// File in memory that can fail to reserve space.
#[derive(Debug, Default)]
struct File {
    bytes: Mutex<Vec<u8>>,
    refuses: Option<io::ErrorKind>,
    reserved: Mutex<Vec<u64>>,
}

impl DiskFile for File {
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        self.bytes.lock().unwrap().extend(bytes);
        Ok(())
    }

    fn sync(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> Result<(), DiskError> {
        self.reserved.lock().unwrap().push(bytes);
        match self.refuses {
            Some(kind) => Err(DiskError::new("reserve", "a log", kind.into())),
            None => Ok(()),
        }
    }
}

fn begin(file: &Arc<File>, durability: Durability) -> WalWriter {
    WalWriter::with_file(file.clone(), STORE, NUMBER, FIRST, durability).unwrap()
}

fn payload(n: usize) -> Vec<u8> {
    format!("payload {n}").repeat(n % 3 + 1).into_bytes()
}

/// Log and the ranges of its frames, including a closing mark.
struct Sample {
    bytes: Vec<u8>,
    frames: Vec<Range<usize>>,
}

/// Writes a log of `frames` frames with a sync after each `group` of them.
fn sample(frames: usize, group: usize, is_closed: bool) -> Sample {
    let file = Arc::new(File::default());
    let mut log = begin(&file, Durability::Sync);
    let mut places = Vec::new();
    let mut start = HEADER_BYTES;
    for n in 0..frames {
        log.append(FIRST + n as u64, &payload(n), 1).unwrap();
        let end = log.bytes();
        assert_eq!(end, start as u64 + frame_bytes(&payload(n)));
        places.push(start..usize::try_from(end).unwrap());
        start = places[n].end;
        if (n + 1) % group == 0 {
            log.syncer().sync().unwrap();
        }
    }
    if is_closed {
        log.close().unwrap();
        places.push(start..start + HEAD_BYTES);
    }
    let bytes = file.bytes.lock().unwrap().clone();
    assert_eq!(bytes.len(), places.last().map_or(HEADER_BYTES, |place| place.end));
    Sample { bytes, frames: places }
}

/// Counts and checks all frames; returns the count and the log's end.
fn read(bytes: &[u8]) -> Result<(usize, WalEnd), String> {
    let log = WalReader::from_bytes(bytes.to_vec(), NUMBER, true);
    let mut frames = log.frames(STORE, FIRST).map_err(|error| error.to_string())?;
    let mut found = 0;
    while let Some(frame) = frames.next_frame().map_err(|error| error.to_string())? {
        assert_eq!(frame.seq, FIRST + found as u64);
        assert_eq!((frame.payload, frame.records), (&*payload(found), 1));
        assert_eq!(frame.version, READ_VERSION);
        found += 1;
    }
    assert_eq!(frames.next_frame().unwrap(), None, "the end stays the end");
    Ok((found, frames.end().unwrap()))
}

fn assert_damage(found: &Result<(usize, WalEnd), String>, rule: &str) {
    let why = found.as_ref().unwrap_err();
    assert!(why.contains(rule), "{why}, not {rule}");
}

/// Builds a frame of this log for any position, with valid checksums.
fn forged(at: usize, seq: Seq, synced_bytes: u64, payload: &[u8]) -> Vec<u8> {
    let records = u32::from(!payload.is_empty());
    FrameChecksum::placed(STORE, NUMBER).encode_frame(
        at as u64,
        seq,
        synced_bytes,
        records,
        payload,
    )
}

#[test]
fn wal_frames_roundtrip_and_the_end_is_classified() {
    for frames in 0..6 {
        assert_eq!(read(&sample(frames, 1, false).bytes), Ok((frames, WalEnd::Clean)));
        assert_eq!(read(&sample(frames, 1, true).bytes), Ok((frames, WalEnd::Closed)));
    }
}

#[test]
fn wal_file_is_preallocated_on_a_real_disk() {
    let folder = tempfile::tempdir().unwrap();
    let disk = FsDisk::open(folder.path()).unwrap();
    for (number, durability) in
        [(1, Durability::Sync), (2, Durability::Interval(std::time::Duration::ZERO))]
    {
        let mut log = WalWriter::create(&disk, STORE, number, 1, durability).unwrap();
        assert_eq!(log.number(), number);
        assert_eq!(log.file_bytes(), HEADER_BYTES as u64, "room is made for the first frame");
        log.append(1, &[9; 100], 1).unwrap();
        log.sync().unwrap();
        let bytes = (HEADER_BYTES + HEAD_BYTES) as u64 + 100;
        assert_eq!(log.bytes(), bytes);
        let room = if durability == Durability::Sync { LOG_RESERVE_STEP } else { bytes };
        assert_eq!(log.file_bytes(), room);
        let open = WalReader::open(&disk, number, true).unwrap();
        assert_eq!(open.file_bytes(), room);
        let mut frames = open.frames(STORE, 1).unwrap();
        assert_eq!(frames.next_frame().unwrap().unwrap().payload, [9; 100]);
        assert_eq!(frames.next_frame().unwrap(), None);
        assert_eq!(frames.end(), Some(WalEnd::Clean));
        log.append(2, &vec![8; 1 << 20], 1).unwrap();
        if durability == Durability::Sync {
            assert_eq!(log.file_bytes(), 2 * LOG_RESERVE_STEP);
        }
        log.close().unwrap();
        let closed = WalReader::open(&disk, number, true).unwrap();
        let mut frames = closed.frames(STORE, 1).unwrap();
        while frames.next_frame().unwrap().is_some() {}
        assert_eq!(frames.end(), Some(WalEnd::Closed));
    }
}

#[test]
fn frames_are_appended_when_preallocation_fails() {
    for refuses in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
        let file = Arc::new(File { refuses: Some(refuses), ..File::default() });
        let mut log = begin(&file, Durability::Sync);
        for n in 0..3 {
            log.append(FIRST + n as u64, &payload(n), 1).unwrap();
        }
        assert_eq!(log.file_bytes(), log.bytes());
        assert_eq!(*file.reserved.lock().unwrap(), [LOG_RESERVE_STEP], "it asked once");
        assert_eq!(read(&file.bytes.lock().unwrap()), Ok((3, WalEnd::Clean)));
    }
    let broken = File { refuses: Some(io::ErrorKind::Other), ..File::default() };
    let mut log = begin(&Arc::new(broken), Durability::Sync);
    log.append(FIRST, b"x", 1).unwrap_err();
}

/// Covers frames synced singly and in groups, with and without a closing mark.
#[test]
fn byte_flip_is_detected_unless_in_an_unconfirmed_last_frame() {
    for (group, is_closed) in [(1, true), (1, false), (2, true), (2, false), (9, true)] {
        let sample = sample(5, group, is_closed);
        let last = sample.frames.len() - 1;
        // First frame that neither the last frame nor the closing mark declares synced.
        let untold = if is_closed { last } else { last / group * group };
        for at in 0..sample.bytes.len() {
            for mask in [1 << (at % 8), 0xff] {
                let mut bad = sample.bytes.clone();
                bad[at] ^= mask;
                let found = read(&bad);
                let spoiled = sample.frames.iter().position(|place| place.contains(&at));
                match spoiled {
                    Some(n) if n >= untold => assert_eq!(found, Ok((n, WalEnd::Torn)), "{at}"),
                    Some(_) => assert_damage(&found, "LOG-04"),
                    None => assert_damage(&found, "LOG-01"),
                }
            }
        }
    }
}

#[test]
fn truncation_keeps_all_earlier_frames() {
    let sample = sample(5, 2, true);
    for length in 0..sample.bytes.len() {
        let found = read(&sample.bytes[..length]);
        if length < HEADER_BYTES {
            assert_damage(&found, "LOG-01");
            continue;
        }
        let whole = sample.frames.iter().filter(|place| place.end <= length).count();
        let rest = &sample.bytes[sample.frames[whole].start..length];
        // A closing mark begins with zero bytes.
        let is_clean = rest.iter().all(|&byte| byte == 0);
        let end = if is_clean { WalEnd::Clean } else { WalEnd::Torn };
        assert_eq!(found, Ok((whole, end)), "cut at {length}");
        // With reserved space, the unwritten rest of the frame reads as zeros.
        let mut zeros = sample.bytes[..length].to_vec();
        zeros.resize(sample.bytes.len() + 500, 0);
        let (found, _) = read(&zeros).unwrap();
        assert_eq!(found, whole, "zeros from {length} on");
    }
}

#[test]
fn unlisted_wal_may_have_a_torn_header() {
    let header = sample(0, 1, false).bytes;
    for length in 0..=HEADER_BYTES {
        for byte in [0, 0xff] {
            let mut bytes = header[..length].to_vec();
            bytes.iter_mut().for_each(|one| *one &= byte);
            let log = WalReader::from_bytes(bytes, NUMBER, false);
            let mut frames = log.frames(STORE, FIRST).unwrap();
            assert_eq!(frames.next_frame().unwrap(), None);
            assert_eq!(frames.end(), Some(WalEnd::Clean));
        }
    }
}

#[test]
fn preallocated_zeros_read_as_a_clean_end() {
    for is_closed in [false, true] {
        let sample = sample(3, 1, is_closed);
        let end = if is_closed { WalEnd::Closed } else { WalEnd::Clean };
        for room in [1, 31, 32, 5000] {
            let mut bytes = sample.bytes.clone();
            bytes.resize(bytes.len() + room, 0);
            assert_eq!(read(&bytes), Ok((3, end)));
        }
    }
}

/// A frame is overwritten with zeros, and a later frame declares its bytes synced.
#[test]
fn zeroed_hole_in_synced_bytes_is_corruption() {
    let sample = sample(5, 2, false);
    for (n, place) in sample.frames.iter().enumerate() {
        let mut bytes = sample.bytes.clone();
        bytes[place.clone()].fill(0);
        match n {
            0..=3 => assert_damage(&read(&bytes), "LOG-04"),
            _ => assert_eq!(read(&bytes), Ok((n, WalEnd::Clean))),
        }
    }
}

#[test]
fn close_mark_ends_the_wal() {
    let sample = sample(2, 1, true);
    let mark = sample.frames[2].clone();
    let mut more = sample.bytes.clone();
    more.extend(forged(mark.end, FIRST + 2, mark.end as u64, b"after the mark"));
    assert_damage(&read(&more), "LOG-07");
    for seq in [0, FIRST, FIRST + 2, u64::MAX] {
        let mut bytes = sample.bytes[..mark.start].to_vec();
        bytes.extend(forged(mark.start, seq, mark.start as u64, &[]));
        assert_damage(&read(&bytes), "LOG-07");
    }
}

#[test]
fn frame_claiming_itself_synced_is_corruption() {
    let mut bytes = sample(1, 1, false).bytes;
    let at = bytes.len();
    bytes.extend(forged(at, FIRST + 1, at as u64 + 1, &payload(1)));
    assert_damage(&read(&bytes), "LOG-06");
}

#[test]
fn out_of_order_frame_is_corruption() {
    let mut bytes = sample(1, 1, false).bytes;
    let at = bytes.len();
    bytes.extend(forged(at, FIRST + 2, 0, &payload(1)));
    assert_damage(&read(&bytes), "LOG-02");
}

/// A torn frame has a text with frames of this very log, copied or forged for another position.
#[test]
fn frame_bytes_inside_a_payload_are_not_parsed_as_frames() {
    let whole = sample(3, 1, false);
    let torn_at = whole.bytes.len();
    let mut text = whole.bytes[HEADER_BYTES..].to_vec();
    for seq in FIRST..FIRST + 9 {
        for synced in [0, torn_at, torn_at + 1, torn_at + 50] {
            text.extend(forged(torn_at, seq, synced as u64, b"made up"));
            text.extend(forged(torn_at + text.len(), seq, synced as u64, &[]));
        }
    }
    let frame = forged(torn_at, FIRST + 3, torn_at as u64, &text);
    let mut bytes = [&whole.bytes[..], &frame].concat();
    for at in 0..HEAD_BYTES {
        bytes[torn_at + at] ^= 0x55;
        assert_eq!(read(&bytes), Ok((3, WalEnd::Torn)), "head torn at {at}");
        bytes[torn_at + at] ^= 0x55;
    }
    bytes.truncate(bytes.len() - 1);
    assert_eq!(read(&bytes), Ok((3, WalEnd::Torn)), "payload torn");
}

/// A head counts as evidence for the bytes before it, never for its own bytes.
#[test]
fn later_frame_head_vouches_only_for_earlier_bytes() {
    let whole = sample(2, 1, false).bytes;
    let torn = [&whole[..], &[0x55; 40]].concat();
    let later = |synced: usize, at: usize| {
        [&torn[..], &forged(at, FIRST + 3, synced as u64, b"later")].concat()
    };
    let at = torn.len();
    for synced in [0, whole.len(), at + 1, usize::MAX] {
        assert_eq!(read(&later(synced, at)), Ok((2, WalEnd::Torn)), "{synced}");
    }
    for synced in [whole.len() + 1, at] {
        assert_damage(&read(&later(synced, at)), "LOG-04");
        assert_eq!(read(&later(synced, at + 1)), Ok((2, WalEnd::Torn)), "another place");
    }
}

/// Holds even for a frame forged for its actual position, inside a frame with an intact head.
#[test]
fn frame_forged_inside_a_payload_stays_payload() {
    let whole = sample(3, 1, false);
    let torn_at = whole.bytes.len();
    let inner = forged(torn_at + HEAD_BYTES, FIRST + 4, torn_at as u64 + 1, b"forged");
    let text = [&inner[..], b" and what follows it"].concat();
    let mut bytes = [&whole.bytes[..], &forged(torn_at, FIRST + 3, 0, &text)].concat();
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(read(&bytes), Ok((3, WalEnd::Torn)));
    // A valid frame after the torn frame counts, however.
    let end = bytes.len();
    bytes.extend(forged(end, FIRST + 4, end as u64, b"later"));
    assert_damage(&read(&bytes), "LOG-04");
}

#[test]
fn frames_of_another_wal_are_ignored() {
    let sample = sample(2, 1, true);
    for (store, number) in [(StoreId(1), NUMBER), (STORE, NUMBER + 1)] {
        let (read_version, write_version) = (READ_VERSION, READ_VERSION);
        let first_seq = FIRST;
        let header = WalHeader { read_version, write_version, store, number, first_seq }.encode();
        let log = WalReader::from_bytes(sample.bytes.clone(), number, true);
        let error = log.frames(store, FIRST).unwrap_err().to_string();
        assert!(error.contains("LOG-01"), "{error}");
        // Frames of another log are rejected under a valid header, too.
        let bytes = [&header[..], &sample.bytes[HEADER_BYTES..]].concat();
        let log = WalReader::from_bytes(bytes, number, true);
        let mut frames = log.frames(store, FIRST).unwrap();
        assert_eq!(frames.next_frame().unwrap(), None);
        assert_eq!(frames.end(), Some(WalEnd::Torn));
    }
    let log = WalReader::from_bytes(sample.bytes, NUMBER, true);
    let error = log.frames(STORE, FIRST + 1).unwrap_err().to_string();
    assert!(error.contains("LOG-03"), "{error}");
}

#[test]
fn wal_version_is_read_only_under_a_valid_checksum() {
    let header = WalHeader {
        read_version: READ_VERSION + 1,
        write_version: READ_VERSION + 1,
        store: STORE,
        number: NUMBER,
        first_seq: FIRST,
    };
    let open = |bytes: &[u8]| {
        let log = WalReader::from_bytes(bytes.to_vec(), NUMBER, true);
        log.frames(STORE, FIRST).map(drop)
    };
    let newer = open(&header.encode()).unwrap_err();
    assert!(matches!(newer, OpenError::TooNew { version: 3, .. }), "{newer}");
    let zero = WalHeader { read_version: 0, ..header }.encode();
    assert!(open(&zero).unwrap_err().to_string().contains("LOG-01"));
    // This build can read such a log, though the newer write version forbids writing.
    open(&WalHeader { read_version: READ_VERSION, ..header }.encode()).unwrap();
    let mut flipped = sample(0, 1, false).bytes;
    flipped[8] ^= 0x40;
    assert!(matches!(open(&flipped), Err(OpenError::Damaged(_))));
}

/// Each cut is a state that a second process may read while the writer appends.
#[test]
fn growing_wal_is_read_up_to_its_last_whole_frame() {
    let sample = sample(4, 2, true);
    let read_so_far = |bytes: &[u8]| {
        let log = WalReader::from_bytes(bytes.to_vec(), NUMBER, true);
        let mut frames = log.frames_while_growing(STORE, FIRST).unwrap();
        let mut seqs = Vec::new();
        while let Some(frame) = frames.next_frame().unwrap() {
            seqs.push(frame.seq);
        }
        (seqs, frames.at(), frames.end().unwrap())
    };
    for length in HEADER_BYTES..sample.bytes.len() {
        for room in [0, 100] {
            let mut bytes = sample.bytes[..length].to_vec();
            bytes.resize(length + room, 0);
            let (seqs, at, end) = read_so_far(&bytes);
            let whole = sample.frames.iter().filter(|place| place.end <= length).count();
            assert!(seqs.into_iter().eq((FIRST..).take(whole)));
            assert_eq!(at, sample.frames[whole].start as u64);
            assert!(matches!(end, WalEnd::Clean | WalEnd::Growing), "{end:?}");
        }
    }
    assert_eq!(read_so_far(&sample.bytes).2, WalEnd::Closed);
    // Damage in a log without a writer may be a frame in progress here.
    let mut early = sample.bytes;
    early[sample.frames[1].clone()].fill(0);
    assert_damage(&read(&early), "LOG-04");
    let (seqs, _, end) = read_so_far(&early);
    assert_eq!((seqs, end), (vec![FIRST], WalEnd::Growing));
}

/// Uses preserved logs of version 1, one complete and one torn.
#[test]
fn version_1_wal_is_read() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../format-spec/vectors");
    for (name, whole, end) in [("v1-small", 3, WalEnd::Clean), ("v1-torn", 2, WalEnd::Torn)] {
        let mut files = fs::read_dir(vectors.join(name)).unwrap();
        let disk = FsDisk::open(&vectors.join(name)).unwrap();
        let names: Vec<String> =
            files.by_ref().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        let (manifest, _) = Manifest::newest(&disk, &names).unwrap().unwrap();
        assert_eq!((manifest.read_version, manifest.can_write()), (1, true));
        let log = names.iter().find_map(|name| layout::file_number(FileKind::Log, name)).unwrap();
        let first = manifest.last_seq + 1;
        let count = |bytes: Vec<u8>| {
            let reader = WalReader::from_bytes(bytes, log, false);
            let mut frames = reader.frames(manifest.store, first)?;
            let mut found = 0;
            while let Some(frame) = frames.next_frame()? {
                crate::record_codec::decode(frame.payload, frame.records, frame.version)?;
                found += 1;
            }
            Ok::<_, OpenError>((found, frames.end().unwrap()))
        };
        let bytes =
            fs::read(vectors.join(name).join(layout::file_name(FileKind::Log, log))).unwrap();
        assert_eq!(count(bytes.clone()).unwrap(), (whole, end));
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x04;
            match count(bad) {
                Err(error) => assert!(error.to_string().contains("LOG-0"), "byte {at}: {error}"),
                Ok((found, end)) => {
                    assert!((whole - 1..=whole).contains(&found), "byte {at}: {found} frames");
                    assert_eq!(end, WalEnd::Torn, "byte {at}");
                }
            }
        }
    }
}

/// After a power cut, unsynced reserved space may read as any bytes, and only zeros may follow a closing mark.
#[test]
fn close_mark_preallocates_nothing() {
    for frames in [0, 1] {
        let file = Arc::new(File::default());
        let mut log = begin(&file, Durability::Sync);
        for n in 0..frames {
            log.append(FIRST + n as u64, &payload(n), 1).unwrap();
        }
        let before = file.reserved.lock().unwrap().len();
        log.close().unwrap();
        assert_eq!(file.reserved.lock().unwrap().len(), before, "with {frames} frames");
    }
}
