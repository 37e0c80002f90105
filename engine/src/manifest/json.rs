//! Encoding of a manifest as two lines of text: JSON, and its SHA-256.
//!
//! Defines names and types of the fields, of every version that this build reads.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::contents::{
    Manifest, Model, READ_VERSION, SegmentEntry, StateEntry, WRITE_VERSION, check_at_most,
    inconsistent,
};
use crate::error::{CorruptionError, OpenError};
use crate::ids::StoreId;
use crate::limits::{DIMENSIONS_MAX, ERASURES_PENDING_MAX, LOGS_MAX, SEGMENTS_MAX};
use crate::os::clock::Micros;

const FORMAT: &str = "recalld manifest";

impl Manifest {
    /// Encodes this manifest in this build's version.
    pub(super) fn encode(&self) -> Vec<u8> {
        let model = self.model.map(
            |model| json!({"fingerprint": hex(&model.fingerprint), "dimensions": model.dimensions}),
        );
        let line = json!({
            "format": FORMAT,
            "read_version": READ_VERSION,
            "write_version": WRITE_VERSION,
            "number": self.number,
            "store": hex(&self.store.0.to_le_bytes()),
            "created_at": self.created_at.0,
            "last_seq": self.last_seq,
            "synced_seq": self.synced_seq,
            "log_floor": self.log_floor,
            "next_file": self.next_file,
            "model": model,
            "segments": self.segments.iter().map(SegmentEntry::to_json).collect::<Vec<_>>(),
            "logs": self.logs,
            "erasures": self.erasures.iter().map(|id| hex(&id.to_le_bytes())).collect::<Vec<_>>(),
        })
        .to_string();
        let hash = hex(&Sha256::digest(line.as_bytes()));
        format!("{line}\nsha256 {hash}\n").into_bytes()
    }
}

impl SegmentEntry {
    fn to_json(&self) -> Value {
        let state = self.state.as_ref().map(|state| {
            json!({
                "generation": state.generation,
                "bytes": state.bytes,
                "sha256": hex(&state.sha256),
            })
        });
        json!({
            "number": self.number, "bytes": self.bytes, "sha256": hex(&self.sha256),
            "items": self.items, "sources": self.sources, "edges": self.edges,
            "tombstones": self.tombstones, "vectors": self.vectors, "dimensions": self.dimensions,
            "first_seq": self.first_seq, "last_seq": self.last_seq, "state": state,
        })
    }

    /// Decodes a segment entry. `model_dimensions` replaces the dimensions in version 1, which does not store them
    /// here.
    fn from_json(value: &Value, model_dimensions: Option<u32>) -> Result<Self, CorruptionError> {
        let fields = JsonFields::new(value, "a segment")?;
        let state = match fields.value("state")? {
            Value::Null => None,
            state => {
                let fields = JsonFields::new(state, "a state")?;
                Some(StateEntry {
                    generation: fields.u64("generation")?,
                    bytes: fields.u64("bytes")?,
                    sha256: fields.hash("sha256")?,
                })
            }
        };
        let vectors = fields.u32("vectors")?;
        let dimensions = match model_dimensions {
            None => fields.u32("dimensions")?,
            Some(dimensions) if vectors > 0 => dimensions,
            Some(_) => 0,
        };
        Ok(Self {
            number: fields.u64("number")?,
            bytes: fields.u64("bytes")?,
            sha256: fields.hash("sha256")?,
            items: fields.u32("items")?,
            sources: fields.u32("sources")?,
            edges: fields.u32("edges")?,
            tombstones: fields.u32("tombstones")?,
            vectors,
            dimensions,
            first_seq: fields.u64("first_seq")?,
            last_seq: fields.u64("last_seq")?,
            state,
        })
    }
}

/// Decodes and checks a manifest.
pub(super) fn decode(name: &str, bytes: &[u8]) -> Result<Manifest, OpenError> {
    let line = checked_line(bytes).map_err(|damage| damage.in_file(name))?;
    let value: Value = serde_json::from_str(line).map_err(|error| {
        CorruptionError::new("MAN-02", format!("not JSON: {error}")).in_file(name)
    })?;
    let versions = versions(&value).map_err(|damage| damage.in_file(name))?;
    if versions.0 > READ_VERSION {
        return Err(OpenError::TooNew { file: name.to_owned(), version: versions.0 });
    }
    let manifest = manifest_from_json(&value, versions).map_err(|damage| damage.in_file(name))?;
    manifest.check().map_err(|damage| damage.in_file(name))?;
    Ok(manifest)
}

/// Returns the first line if the second line has its SHA-256 (MAN-01).
fn checked_line(bytes: &[u8]) -> Result<&str, CorruptionError> {
    let wrong = |what: &str| CorruptionError::new("MAN-01", what);
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("not UTF-8"))?;
    let (line, rest) = text.split_once('\n').ok_or_else(|| wrong("it has one line, not two"))?;
    let expected = format!("sha256 {}\n", hex(&Sha256::digest(line.as_bytes())));
    if rest != expected {
        return Err(wrong("its SHA-256 is not that of its first line"));
    }
    Ok(line)
}

/// Minimum versions for reading and writing.
fn versions(value: &Value) -> Result<(u16, u16), CorruptionError> {
    let fields = JsonFields::new(value, "the manifest")?;
    if fields.value("format")? != FORMAT {
        return Err(CorruptionError::new("MAN-02", "format is not that of a manifest"));
    }
    let (read, write) = (fields.narrow("read_version")?, fields.narrow("write_version")?);
    if read == 0 || write < read {
        let detail = format!("no build reads version {read} and writes version {write}");
        return Err(CorruptionError::new("MAN-02", detail));
    }
    Ok((read, write))
}

fn manifest_from_json(value: &Value, versions: (u16, u16)) -> Result<Manifest, CorruptionError> {
    let (read_version, write_version) = versions;
    let fields = JsonFields::new(value, "the manifest")?;
    let model = model_from_json(fields.value("model")?)?;
    let is_first = read_version == 1;
    let dimensions = is_first.then(|| model.map_or(0, |model| model.dimensions));
    let segments = fields.list("segments", SEGMENTS_MAX)?.iter();
    let (logs, erasures) =
        if is_first { (Vec::new(), BTreeSet::new()) } else { (fields.logs()?, fields.erasures()?) };
    Ok(Manifest {
        read_version,
        write_version,
        number: fields.u64("number")?,
        store: StoreId(u128::from_le_bytes(fields.hash("store")?)),
        created_at: Micros(fields.i64("created_at")?),
        last_seq: fields.u64("last_seq")?,
        synced_seq: fields.u64(if is_first { "last_seq" } else { "synced_seq" })?,
        log_floor: fields.u64("log_floor")?,
        next_file: fields.u64("next_file")?,
        model,
        segments: segments
            .map(|entry| SegmentEntry::from_json(entry, dimensions))
            .collect::<Result<_, _>>()?,
        logs,
        erasures,
    })
}

fn model_from_json(value: &Value) -> Result<Option<Model>, CorruptionError> {
    if value.is_null() {
        return Ok(None);
    }
    let fields = JsonFields::new(value, "the model")?;
    let dimensions = fields.u32("dimensions")?;
    if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
        let detail = format!("{dimensions} dimensions; 1 to {DIMENSIONS_MAX} are allowed");
        return Err(CorruptionError::new("MAN-02", detail));
    }
    Ok(Some(Model { fingerprint: fields.hash("fingerprint")?, dimensions }))
}

/// Fields of a JSON object; a missing or invalid field is a corruption (MAN-02).
struct JsonFields<'a> {
    object: &'a Map<String, Value>,
    what: &'static str,
}

impl<'a> JsonFields<'a> {
    fn new(value: &'a Value, what: &'static str) -> Result<Self, CorruptionError> {
        let object = value.as_object();
        let object =
            object.ok_or_else(|| CorruptionError::new("MAN-02", format!("{what} is no object")))?;
        Ok(Self { object, what })
    }

    fn value(&self, name: &str) -> Result<&'a Value, CorruptionError> {
        self.object.get(name).ok_or_else(|| self.damage(name, "missing"))
    }

    fn u64(&self, name: &str) -> Result<u64, CorruptionError> {
        self.value(name)?.as_u64().ok_or_else(|| self.damage(name, "not a natural number"))
    }

    fn i64(&self, name: &str) -> Result<i64, CorruptionError> {
        self.value(name)?.as_i64().ok_or_else(|| self.damage(name, "not a number"))
    }

    fn u32(&self, name: &str) -> Result<u32, CorruptionError> {
        self.narrow(name)
    }

    fn narrow<T: TryFrom<u64>>(&self, name: &str) -> Result<T, CorruptionError> {
        T::try_from(self.u64(name)?).map_err(|_| self.damage(name, "too large"))
    }

    fn hash<const N: usize>(&self, name: &str) -> Result<[u8; N], CorruptionError> {
        let text = self.value(name)?.as_str().unwrap_or_default();
        decode_hex(text).ok_or_else(|| self.damage(name, "not a hash in hexadecimal"))
    }

    fn list(&self, name: &str, members_max: usize) -> Result<&'a [Value], CorruptionError> {
        let list = self.value(name)?.as_array().ok_or_else(|| self.damage(name, "not a list"))?;
        check_at_most(name, list.len(), members_max)?;
        Ok(list)
    }

    fn logs(&self) -> Result<Vec<u64>, CorruptionError> {
        let numbers = self.list("logs", LOGS_MAX)?.iter();
        let wrong = || self.damage("logs", "not a list of natural numbers");
        numbers.map(|number| number.as_u64().ok_or_else(wrong)).collect()
    }

    fn erasures(&self) -> Result<BTreeSet<u128>, CorruptionError> {
        let mut ids = BTreeSet::new();
        for text in self.list("erasures", ERASURES_PENDING_MAX)? {
            let digits = text.as_str().and_then(decode_hex);
            let digits = digits.ok_or_else(|| self.damage("erasures", "not a list of ids"))?;
            let id = u128::from_le_bytes(digits);
            if ids.last().is_some_and(|&last| last >= id) {
                return Err(inconsistent("erasures do not ascend"));
            }
            ids.insert(id);
        }
        Ok(ids)
    }

    fn damage(&self, name: &str, how: &str) -> CorruptionError {
        CorruptionError::new("MAN-02", format!("{name} of {} is {how}", self.what))
    }
}

/// Encodes bytes as lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
    }
    text
}

fn decode_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let right =
        digits.len() == N * 2 && digits.iter().all(|d| matches!(d, b'0'..=b'9' | b'a'..=b'f'));
    if !right {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let value = |digit: u8| if digit <= b'9' { digit - b'0' } else { digit - b'a' + 10 };
        *byte = value(pair[0]) << 4 | value(pair[1]);
    }
    Some(bytes)
}
