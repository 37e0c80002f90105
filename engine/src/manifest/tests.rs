use std::collections::BTreeSet;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::contents::NUMBER_MAX;
use super::json::{decode, hex};
use super::*;
use crate::ids::{Seq, StoreId};
use crate::limits::{DIMENSIONS_MAX, ERASURES_PENDING_MAX, LOGS_MAX, SEGMENTS_MAX};
use crate::os::clock::Micros;
use crate::os::disk::FsDisk;

fn entry(number: u64, first_seq: Seq, last_seq: Seq) -> SegmentEntry {
    SegmentEntry {
        number,
        bytes: 4096,
        sha256: [1; 32],
        items: 2,
        sources: 1,
        edges: 0,
        tombstones: 0,
        vectors: 2,
        dimensions: 384,
        first_seq,
        last_seq,
        state: Some(StateEntry { generation: 2, bytes: 90, sha256: [2; 32] }),
    }
}

fn sample() -> Manifest {
    Manifest {
        model: Some(Model { fingerprint: [9; 32], dimensions: 384 }),
        last_seq: 9,
        synced_seq: 12,
        log_floor: 4,
        next_file: 8,
        segments: vec![entry(3, 1, 4), entry(6, 5, 9)],
        logs: vec![5, 7],
        erasures: [1, 77, u128::MAX].into(),
        ..Manifest::initial(StoreId(77), Micros(5))
    }
}

/// Appends the SHA-256 line to a line.
fn sealed(line: &str) -> Vec<u8> {
    format!("{line}\nsha256 {}\n", hex(&Sha256::digest(line))).into_bytes()
}

/// Changes the sample's JSON, under a valid SHA-256.
fn changed(change: impl FnOnce(&mut Value)) -> Result<Manifest, OpenError> {
    let bytes = sample().encode();
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap();
    let mut value = serde_json::from_slice(line).unwrap();
    change(&mut value);
    decode("m", &sealed(&value.to_string()))
}

fn assert_rule(found: &Result<Manifest, OpenError>, rule: &str) {
    let error = found.as_ref().unwrap_err().to_string();
    assert!(error.contains(rule), "{error}, not {rule}");
}

#[test]
fn manifest_roundtrips() {
    assert_eq!(decode("m", &sample().encode()).unwrap(), sample());
    let first = Manifest::initial(StoreId(1), Micros(2));
    assert_eq!(decode("m", &first.encode()).unwrap(), first);
}

#[test]
fn manifest_flips_and_truncations_are_corruption() {
    let file = sample().encode();
    for at in 0..file.len() {
        let mut bad = file.clone();
        bad[at] ^= 1;
        assert!(matches!(decode("m", &bad), Err(OpenError::Damaged(_))), "byte {at}");
        assert!(decode("m", &file[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn overlapping_segments_are_rejected() {
    let mut manifest = sample();
    manifest.segments[1].first_seq = 4;
    assert_rule(&decode("m", &manifest.encode()), "MAN-04");
}

#[test]
fn inconsistent_manifest_is_rejected_on_read_and_write() {
    type Change = fn(&mut Manifest);
    let changes: [(&str, Change); 18] = [
        ("two segments of one number", |m| m.segments[1].number = 3),
        ("a segment and a log of one number", |m| m.segments[1].number = 5),
        ("a segment that is not below next_file", |m| m.segments[1].number = 8),
        ("a log that is not below next_file", |m| m.logs[1] = 8),
        ("logs that do not ascend", |m| m.logs.reverse()),
        ("a log twice", |m| m.logs[1] = 5),
        ("a log below the floor", |m| m.logs[0] = 1),
        ("a floor above next_file", |m| (m.log_floor, m.logs) = (9, Vec::new())),
        ("a segment that is newer than the store", |m| m.last_seq = 8),
        ("a store number that cannot be counted on from", |m| m.next_file = u64::MAX),
        ("a last commit of the kind", |m| (m.last_seq, m.synced_seq) = (u64::MAX, u64::MAX)),
        ("less on disk than in the segments", |m| m.synced_seq = 8),
        ("a manifest of the kind", |m| m.number = 1 << 63),
        ("a generation of the kind", |m| {
            m.segments[0].state.as_mut().unwrap().generation = u64::MAX;
        }),
        ("lengths whose sum overflows", |m| {
            m.segments[0].bytes = u64::MAX;
            m.segments[1].state.as_mut().unwrap().bytes = u64::MAX;
        }),
        ("embeddings of another width", |m| m.segments[0].dimensions = 383),
        ("embeddings without a model", |m| m.model = None),
        ("a width without embeddings", |m| m.segments[0].vectors = 0),
    ];
    let folder = tempfile::tempdir().unwrap();
    let disk = FsDisk::open(folder.path()).unwrap();
    for (what, change) in changes {
        let mut manifest = sample();
        change(&mut manifest);
        let error = decode("m", &manifest.encode()).expect_err(what).to_string();
        assert!(error.contains("MAN-06"), "{what}: {error}");
        manifest.install(&disk).expect_err(what);
    }
    assert_eq!(disk.names().unwrap(), [""; 0], "nothing was written");
    sample().install(&disk).unwrap();
    let (found, bytes) = Manifest::newest(&disk, &disk.names().unwrap()).unwrap().unwrap();
    assert_eq!((found, bytes), (sample(), sample().encode().len() as u64));
}

#[test]
fn pending_erasures_must_be_ascending_ids() {
    let id = |n: u128| hex(&n.to_le_bytes());
    let with = |ids: Value| changed(|value| value["erasures"] = ids);
    with(json!([id(1), id(2)])).unwrap();
    for ids in [json!([id(2), id(1)]), json!([id(2), id(2)]), json!([id(0)])] {
        assert_rule(&with(ids), "MAN-06");
    }
    for ids in [json!([1]), json!(["1"]), json!({}), json!([id(10).to_uppercase()]), Value::Null] {
        assert_rule(&with(ids), "MAN-02");
    }
}

#[test]
fn missing_manifest_field_is_corruption() {
    let names: Vec<String> =
        serde_json::from_slice::<Value>(sample().encode().split(|&b| b == b'\n').next().unwrap())
            .unwrap()
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
    assert_eq!(names.len(), 14);
    for name in names {
        let gone = changed(|value| drop(value.as_object_mut().unwrap().remove(&name)));
        assert_rule(&gone, "MAN-02");
    }
    let narrow = changed(|value| {
        value["segments"][0].as_object_mut().unwrap().remove("dimensions");
    });
    assert_rule(&narrow, "MAN-02");
}

/// A version 1 manifest has no logs, no erasures and no embedding widths, and declares only its segments synced.
#[test]
fn version_1_manifest_is_read() {
    let first = |value: &mut Value| {
        value["read_version"] = 1.into();
        value["write_version"] = 1.into();
        let fields = value.as_object_mut().unwrap();
        fields.remove("synced_seq");
        fields.remove("logs");
        fields.remove("erasures");
        for segment in value["segments"].as_array_mut().unwrap() {
            segment.as_object_mut().unwrap().remove("dimensions");
        }
    };
    let wanted = Manifest {
        read_version: 1,
        write_version: 1,
        synced_seq: 9,
        logs: Vec::new(),
        erasures: BTreeSet::new(),
        ..sample()
    };
    let found = changed(first).unwrap();
    assert_eq!(found, wanted);
    assert!(found.can_write());
    let rewritten = decode("m", &found.encode()).unwrap();
    assert_eq!((rewritten.read_version, rewritten.write_version), (READ_VERSION, WRITE_VERSION));
    let bare = changed(|value| {
        first(value);
        value["model"] = Value::Null;
    });
    assert_rule(&bare, "MAN-06");
}

#[test]
fn newer_manifest_version_is_rejected_or_read_only() {
    let newer = WRITE_VERSION + 1;
    let read_only = changed(|value| value["write_version"] = newer.into()).unwrap();
    assert!(!read_only.can_write());
    let folder = tempfile::tempdir().unwrap();
    read_only.install(&FsDisk::open(folder.path()).unwrap()).unwrap_err();
    let refused = changed(|value| {
        value["read_version"] = newer.into();
        value["write_version"] = newer.into();
    });
    assert!(matches!(refused, Err(OpenError::TooNew { version: 3, .. })), "{refused:?}");
    assert_rule(&changed(|value| value["read_version"] = 0.into()), "MAN-02");
    assert_rule(&changed(|value| value["write_version"] = 1.into()), "MAN-02");
}

/// All lists and numbers have their maximum.
#[test]
fn largest_manifest_roundtrips() {
    let half = i64::MAX as u64 / 2;
    let share = half / SEGMENTS_MAX as u64 / 2;
    let logs = half - LOGS_MAX as u64..half;
    let segments = (0..SEGMENTS_MAX as u64).map(|n| SegmentEntry {
        bytes: share,
        sha256: [0xff; 32],
        items: u32::MAX,
        sources: u32::MAX,
        edges: u32::MAX,
        tombstones: u32::MAX,
        vectors: u32::MAX,
        dimensions: DIMENSIONS_MAX,
        state: Some(StateEntry { generation: half, bytes: share, sha256: [0xff; 32] }),
        ..entry(half / 2 + n, half / 2 + n, half / 2 + n)
    });
    let manifest = Manifest {
        number: half,
        created_at: Micros(i64::MIN),
        last_seq: half,
        synced_seq: half,
        next_file: half,
        model: Some(Model { fingerprint: [0xff; 32], dimensions: DIMENSIONS_MAX }),
        segments: segments.collect(),
        logs: logs.collect(),
        erasures: (0..ERASURES_PENDING_MAX as u128).map(|n| u128::MAX - n).collect(),
        ..sample()
    };
    let bytes = manifest.encode();
    assert!(bytes.len() as u64 <= MANIFEST_BYTES_MAX, "{} bytes", bytes.len());
    assert_eq!(decode("m", &bytes).unwrap(), manifest);
    let mut longer = manifest.clone();
    longer.erasures.insert(1);
    assert_rule(&decode("m", &longer.encode()), "MAN-02");
    let mut longer = manifest;
    longer.logs.insert(0, half - 1 - LOGS_MAX as u64);
    assert_rule(&decode("m", &longer.encode()), "MAN-02");
}

#[test]
fn emptied_manifest_lists_nothing_and_makes_all_files_obsolete() {
    let before = ManifestView::new(sample());
    assert!(!before.is_empty());
    // A log exists that no manifest has listed so far.
    let after = ManifestView::parse(&before.encode_emptied(15, 40).unwrap()).unwrap();
    assert!(after.is_empty() && after.files().next().is_none());
    assert_eq!((after.number(), after.last_seq(), after.synced_seq()), (2, 15, 15));
    assert_eq!((after.store(), after.model()), (before.store(), before.model()));
    assert_eq!((after.log_floor(), after.erasure_count()), (41, 0));
    let names = ["log-", "segment-", "manifest-"].map(|kind| format!("{kind}{:020}", 1));
    assert_eq!(after.obsolete_files(&names), names);
    let next = ManifestView::parse(&after.encode_emptied(15, 0).unwrap()).unwrap();
    assert_eq!((next.number(), next.log_floor()), (3, 41));
    assert!(
        before.encode_emptied(15, u64::MAX).is_err()
            && before.encode_emptied(NUMBER_MAX + 1, 40).is_err()
    );
    let newer = Manifest { write_version: WRITE_VERSION + 1, ..sample() };
    let refused = ManifestView::new(newer).encode_emptied(15, 40).unwrap_err();
    assert!(matches!(refused, OpenError::TooNew { version, .. } if version > WRITE_VERSION));
}
