//! Encoding and decoding of records, their order in a log, and damaged records.

use super::*;

fn head(number: u64) -> Head {
    Head {
        number,
        tenant: Tenant::new("local").unwrap(),
        store: Nonce::parse("0123456789abcdef0123456789abcdef").unwrap(),
        epoch: 3,
        node: NodeId::new("box-1").unwrap(),
        run: Nonce::parse("11111111111111111111111111111111").unwrap(),
        url: "http://127.0.0.1:7070".into(),
        nonce: Nonce::parse("22222222222222222222222222222222").unwrap(),
        at: 1_700_000_000_000_000,
        previous: if number == 1 { Hash::NONE } else { Hash::of(b"before") },
        base: 1,
        seq: 40,
    }
}

fn key(nonce: u8) -> DataKey {
    DataKey { epoch: 3, nonce: crate::hex::Hex([nonce; 16]) }
}

fn piece(number: u64, from: u64, bytes: &[u8]) -> LogPiece {
    let to = from + bytes.len() as u64;
    LogPiece { number, first_seq: 7, from, to, bytes: Bytes::Here(bytes.to_vec()) }
}

fn step() -> Record {
    let object = Bytes::Object { key: key(9), sha256: Hash::of(b"far") };
    let far = LogPiece { number: 6, first_seq: 30, from: 0, to: 5 << 20, bytes: object };
    Record { head: head(12), kind: Kind::Step(vec![piece(5, 64, b"one\ntwo\n"), far]) }
}

fn full() -> Record {
    let file = |name: &str, nonce| FarFile {
        name: name.into(),
        key: key(nonce),
        bytes: 40 << 20,
        sha256: Hash::of(name.as_bytes()),
    };
    let fold = |from, to| Fold { key: key(4), from, to, sha256: Hash::of(b"fold") };
    let log =
        |number, folds, rest: &[u8]| FarLog { number, first_seq: 7, folds, rest: rest.into() };
    let full = Full {
        manifest: b"{}\nsha256 \n".to_vec(),
        files: vec![file("segment-00000000000000000001", 1), file("state-1-2", 2)],
        logs: vec![log(5, vec![fold(0, 90), fold(90, 100)], b"rest"), log(6, vec![], b"")],
        erased: 11,
    };
    Record { head: Head { base: 12, ..head(12) }, kind: Kind::Full(full) }
}

fn take() -> Record {
    Record { head: Head { base: 0, ..head(1) }, kind: Kind::Take }
}

fn give() -> Record {
    Record { head: head(12), kind: Kind::Give { to: Some(NodeId::new("box-2").unwrap()) } }
}

/// The full record, with its first log changed.
fn with_log(change: impl FnOnce(&mut FarLog)) -> Record {
    let mut record = full();
    let Kind::Full(full) = &mut record.kind else { panic!("it is a full record") };
    change(&mut full.logs[0]);
    record
}

#[test]
fn every_kind_is_read_as_it_is_written() {
    for record in [take(), give(), step(), full()] {
        let (bytes, hash) = record.encode().unwrap();
        assert_eq!(Record::decode(&bytes), Ok((record, hash)));
    }
}

#[test]
fn a_record_with_any_byte_changed_or_cut_is_damage() {
    for record in [take(), give(), step(), full()] {
        let (bytes, _) = record.encode().unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Record::decode(&changed).is_err(), "byte {at}");
            assert!(Record::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
        let longer = [&bytes[..], b"x"].concat();
        assert_eq!(Record::decode(&longer).unwrap_err().rule, "REM-01");
    }
}

#[test]
fn a_newer_version_is_told_before_its_fields_are_looked_at() {
    let line = br#"{"format": "recalld remote record", "read_version": 2, "sort": "other"}"#;
    let bytes = [&line[..], format!("\nsha256 {}\n", Hash::of(line)).as_bytes()].concat();
    let damage = Record::decode(&bytes).unwrap_err();
    assert_eq!(damage.rule, "REM-03");
    assert!(damage.detail.contains("up to version 1"), "{damage}");
}

#[test]
fn what_could_not_be_read_is_not_written() {
    let big = Record {
        head: head(12),
        kind: Kind::Step(vec![piece(5, 0, &vec![0; INLINE_BYTES_MAX + 1])]),
    };
    let twice =
        Record { head: head(12), kind: Kind::Step(vec![piece(5, 0, b"a"), piece(5, 1, b"b")]) };
    let wrong = [
        Record { head: head(0), ..take() },
        Record { head: Head { epoch: 0, ..take().head }, ..take() },
        Record { head: Head { previous: Hash::of(b"x"), ..take().head }, ..take() },
        Record { head: Head { base: 13, ..head(12) }, ..step() },
        Record { head: Head { base: 12, ..head(12) }, ..step() },
        Record { head: head(1), ..step() },
        Record { head: Head { at: -1, ..head(12) }, ..step() },
        Record { head: Head { url: "x".repeat(URL_BYTES_MAX + 1), ..head(12) }, ..step() },
        Record { head: head(12), kind: Kind::Step(vec![]) },
        Record { head: head(12), kind: Kind::Step(vec![piece(5, 0, b"")]) },
        Record { head: head(12), ..full() },
        with_log(|log| log.number = 6),
        with_log(|log| log.folds[1].from = 91),
        with_log(|log| log.folds[0].to = 0),
        with_log(|log| log.rest = vec![0; INLINE_BYTES_MAX + 1]),
        big,
        twice,
    ];
    for record in wrong {
        assert_eq!(record.encode().unwrap_err().rule, "REM-02", "{:?}", record.head);
    }
}

#[test]
fn a_record_follows_the_one_before_or_is_damage() {
    let before = head(11);
    let hash = Hash::of(b"before");
    let step = step();
    assert_eq!(step.check_after(&before, hash), Ok(()));
    let next = Head { epoch: 4, node: NodeId::new("box-2").unwrap(), base: 1, ..head(12) };
    assert_eq!(Record { head: next, kind: Kind::Take }.check_after(&before, hash), Ok(()));
    assert_eq!(full().check_after(&before, hash), Ok(()));

    let run = Nonce::NONE;
    let other = |change: fn(&mut Head)| {
        let mut head = before.clone();
        change(&mut head);
        head
    };
    let wrong = [
        other(|head| head.number = 10),
        other(|head| head.tenant = Tenant::new("other").unwrap()),
        other(|head| head.store = Nonce::NONE),
        other(|head| head.epoch = 4),
        other(|head| head.at += 1),
        other(|head| head.seq = 41),
        other(|head| head.base = 2),
        Head { run, ..before.clone() },
    ];
    for head in wrong {
        assert_eq!(step.check_after(&head, hash).unwrap_err().rule, "REM-04", "{head:?}");
    }
    assert_eq!(step.check_after(&before, Hash::NONE).unwrap_err().rule, "REM-04");
    let stale = Record { head: head(12), kind: Kind::Take };
    assert_eq!(stale.check_after(&before, hash).unwrap_err().rule, "REM-04");
}
