//! Objects of a remote, byte for byte as in `format-spec/vectors/remote/`: read, and written again.
//! `RECALLD_TEST_BLESS=1` writes the files.

use std::fs;
use std::path::PathBuf;

use recalld_replication::core::Pin;
use recalld_replication::{
    Beat, Bytes, DataKey, Edge, FarFile, FarLog, Fold, Full, Hash, Head, Hex, Holding, Holds, Kept,
    Kind, LogPiece, NodeId, Record, Tenant,
};

/// Bytes of a golden file, which must equal `bytes`. In bless mode the file is written first.
fn golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../format-spec/vectors/remote");
    let path = folder.join(name);
    if std::env::var_os("RECALLD_TEST_BLESS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    let there = fs::read(&path).unwrap();
    assert!(there == bytes, "{name} is written in another way");
    there
}

fn key(nonce: u8) -> DataKey {
    DataKey { epoch: 3, nonce: Hex([nonce; 16]) }
}

/// Four records, one of each kind.
fn chain() -> Vec<(&'static str, Kind)> {
    let object = Bytes::Object { key: key(9), sha256: Hash::of(b"far") };
    let piece = |number, from, to, bytes| LogPiece { number, first_seq: 7, from, to, bytes };
    let step =
        vec![piece(5, 0, 8, Bytes::Here(b"one\ntwo\n".to_vec())), piece(6, 0, 5 << 20, object)];
    let file = |name: &str, nonce| {
        let (name, sha256) = (name.to_owned(), Hash::of(name.as_bytes()));
        FarFile { name, key: key(nonce), bytes: 40 << 20, sha256 }
    };
    let fold = |from, to| Fold { key: key(4), from, to, sha256: Hash::of(b"fold") };
    let log =
        |number, folds, rest: &[u8]| FarLog { number, first_seq: 7, folds, rest: rest.into() };
    let full = Full {
        manifest: b"{}\nsha256 \n".to_vec(),
        files: vec![file("segment-00000000000000000001", 1), file("state-1-2", 2)],
        logs: vec![log(5, vec![fold(0, 90), fold(90, 100)], b"rest"), log(6, vec![], b"")],
        erased: 1,
    };
    vec![
        ("take.record", Kind::Take),
        ("full.record", Kind::Full(full)),
        ("step.record", Kind::Step(step)),
        ("give.record", Kind::Give { to: Some(NodeId::new("box-2").unwrap()) }),
    ]
}

#[test]
fn records_are_written_and_read_as_the_vectors_have_them() {
    let mut before: Option<(Head, Hash)> = None;
    for (number, (name, kind)) in (1..).zip(chain()) {
        let previous = before.as_ref().map_or(Hash::NONE, |(_, hash)| *hash);
        let head = Head {
            number,
            tenant: Tenant::new("local").unwrap(),
            store: Hex([0x5c; 16]),
            epoch: 3,
            node: NodeId::new("box-1").unwrap(),
            run: Hex([0x11; 16]),
            url: "http://127.0.0.1:7070".into(),
            nonce: Hex([u8::try_from(number).unwrap(); 16]),
            at: 1_700_000_000_000_000 + i64::try_from(number).unwrap(),
            previous,
            base: if number == 1 { 0 } else { 2 },
            seq: 40 + number,
        };
        let record = Record { head, kind };
        let (bytes, hash) = record.encode().unwrap();
        let (read, found) = Record::decode(&golden(name, &bytes)).unwrap();
        assert_eq!((&read, found), (&record, hash), "{name}");
        if let Some((head, hash)) = &before {
            read.check_after(head, *hash).unwrap();
        }
        before = Some((read.head, found));
    }
}

#[test]
fn edges_beats_pins_and_what_nodes_hold_are_as_the_vectors_have_them() {
    let kept = vec![Kept { number: 7, sha256: Hash::of(b"7"), at: 1_700_000_000_000_007 }];
    let edge = Edge { boundary: 9, turn: 2, epoch: 3, erased: 6, gone: 4, kept };
    assert_eq!(Edge::decode(&golden("edge.json", &edge.encode())), Ok(edge));
    let (node, run, url) =
        (NodeId::new("box-1").unwrap(), Hex([0x11; 16]), "http://127.0.0.1:7070".to_owned());
    let beat = Beat { node: node.clone(), run, count: 12, url, lease_s: 15 };
    assert_eq!(Beat::decode(&golden("beat.json", &beat.encode())), Ok(beat));
    let pin = Pin { number: 7, seconds: 600 };
    assert_eq!(Pin::decode(&golden("pin.json", &pin.encode())), Ok(pin));
    let workspaces = [("acme", 0, 1), ("local", 9, 0)]
        .map(|(name, record, left)| (Tenant::new(name).unwrap(), Holding { record, left }));
    let holds = Holds { node, workspaces: workspaces.into() };
    assert_eq!(Holds::decode(&golden("holds.json", &holds.encode())), Ok(holds));
}
