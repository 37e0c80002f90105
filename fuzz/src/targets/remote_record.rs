//! Objects of a remote, from any writer: records with correct hashes and arbitrary fields, low watermarks, heartbeats,
//! pins, node inventories and object names. Each gives an error or the same bytes again, never a panic.

use recalld_replication::core::Pin;
use recalld_replication::{Beat, Edge, Hash, Holds, Key, Record};
use serde_json::Value;

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&how, rest)) = data.split_first() else { return };
    match how % 3 {
        0 => small(rest),
        1 => record(rest),
        _ => record(&hashed(rest)),
    }
}

/// Returns a header line for the rest of the input, with correct hashes.
fn hashed(data: &[u8]) -> Vec<u8> {
    let end = data.iter().position(|&byte| byte == b'\n').unwrap_or(data.len());
    let (line, body) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    let mut line = line.to_vec();
    if let Ok(Value::Object(mut head)) = serde_json::from_slice::<Value>(&line) {
        head.insert("body_bytes".into(), body.len().into());
        head.insert("body_sha256".into(), Hash::of(body).to_string().into());
        line = Value::Object(head).to_string().into_bytes();
    }
    let second = format!("\nsha256 {}\n", Hash::of(&line));
    [&line, second.as_bytes(), body].concat()
}

fn record(bytes: &[u8]) {
    let Ok((record, hash)) = Record::decode(bytes) else { return };
    // Other whitespace and field orders are accepted, too; the encoded form decodes to the same record.
    let (again, _) = record.encode().expect("what was read can be written");
    let (read, _) = Record::decode(&again).expect("what was written can be read");
    assert_eq!(read, record);
    let _may_follow = record.check_after(&record.head, hash);
    assert!(record.keys().len() <= bytes.len());
}

fn small(bytes: &[u8]) {
    if let Ok(edge) = Edge::decode(bytes) {
        assert_eq!(Edge::decode(&edge.encode()), Ok(edge.clone()));
        assert!(edge.kept.iter().all(|kept| !edge.is_below(kept.number)));
    }
    if let Ok(beat) = Beat::decode(bytes) {
        assert_eq!(Beat::decode(&beat.encode()), Ok(beat));
    }
    if let Ok(pin) = Pin::decode(bytes) {
        assert_eq!(Pin::decode(&pin.encode()), Ok(pin));
    }
    if let Ok(holds) = Holds::decode(bytes) {
        assert_eq!(Holds::decode(&holds.encode()), Ok(holds));
    }
    if let Some(key) = std::str::from_utf8(bytes).ok().and_then(Key::parse) {
        assert_eq!(key.to_string().as_bytes(), bytes, "a name is written in one way");
    }
}
