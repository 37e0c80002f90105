//! The manifest: the atomic list of live files (`format-spec/log.md`, Manifest).

use std::fmt::Write;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::error::{Damage, DiskError, OpenError};
use crate::ids::{Seq, StoreId};
use crate::layout::{self, FileKind};
use crate::limits::{DIMENSIONS_MAX, MANIFEST_BYTES_MAX, SEGMENTS_MAX};
use crate::os::clock::Micros;
use crate::os::disk::{self, Disk};

const FORMAT: &str = "recalld manifest";

/// The encoder that made a store's embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// Hash of everything that shapes its vectors.
    pub fingerprint: [u8; 32],
    /// Width of a vector.
    pub dimensions: u32,
}

/// A state file, as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateEntry {
    pub(crate) generation: u64,
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
}

/// A segment, as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentEntry {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
    pub(crate) items: u32,
    pub(crate) sources: u32,
    pub(crate) edges: u32,
    pub(crate) tombstones: u32,
    pub(crate) vectors: u32,
    pub(crate) first_seq: Seq,
    pub(crate) last_seq: Seq,
    pub(crate) state: Option<StateEntry>,
}

/// A manifest's contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) number: u64,
    pub(crate) store: StoreId,
    pub(crate) created_at: Micros,
    pub(crate) last_seq: Seq,
    pub(crate) log_floor: u64,
    pub(crate) next_file: u64,
    pub(crate) model: Option<Model>,
    pub(crate) segments: Vec<SegmentEntry>,
}

impl Manifest {
    /// The manifest of a store that holds nothing.
    pub(crate) fn first(store: StoreId, created_at: Micros) -> Self {
        Self {
            number: 1,
            store,
            created_at,
            last_seq: 0,
            log_floor: 1,
            next_file: 1,
            model: None,
            segments: Vec::new(),
        }
    }

    /// The newest manifest among `names`, and its length; `None` in a directory without one.
    pub(crate) fn newest(
        disk: &dyn Disk,
        names: &[String],
    ) -> Result<Option<(Self, u64)>, OpenError> {
        let numbers = names.iter().filter_map(|name| layout::number(FileKind::Manifest, name));
        let Some(number) = numbers.max() else { return Ok(None) };
        let name = layout::name(FileKind::Manifest, number);
        let bytes = disk.read(&name, MANIFEST_BYTES_MAX)?;
        let manifest = decode(&name, &bytes)?;
        if manifest.number != number {
            let detail = format!("it says that it is number {}", manifest.number);
            return Err(Damage::new("MAN-02", detail).within(&name).into());
        }
        Ok(Some((manifest, bytes.len() as u64)))
    }

    /// Puts this manifest in place; from then on it is the one that counts. Gives its length.
    pub(crate) fn put_in_place(&self, disk: &dyn Disk) -> Result<u64, DiskError> {
        let bytes = self.encode();
        disk::put_in_place(disk, &layout::name(FileKind::Manifest, self.number), &bytes)?;
        Ok(bytes.len() as u64)
    }

    fn encode(&self) -> Vec<u8> {
        let model = self.model.map(
            |model| json!({"fingerprint": hex(&model.fingerprint), "dimensions": model.dimensions}),
        );
        let line = json!({
            "format": FORMAT,
            "read_version": layout::READ_VERSION,
            "write_version": layout::WRITE_VERSION,
            "number": self.number,
            "store": hex(&self.store.0.to_le_bytes()),
            "created_at": self.created_at.0,
            "last_seq": self.last_seq,
            "log_floor": self.log_floor,
            "next_file": self.next_file,
            "model": model,
            "segments": self.segments.iter().map(SegmentEntry::to_json).collect::<Vec<_>>(),
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
            "tombstones": self.tombstones, "vectors": self.vectors,
            "first_seq": self.first_seq, "last_seq": self.last_seq, "state": state,
        })
    }

    fn of_json(value: &Value) -> Result<Self, Damage> {
        let fields = Fields::of(value, "a segment")?;
        let state = match fields.any("state")? {
            Value::Null => None,
            state => {
                let fields = Fields::of(state, "a state")?;
                Some(StateEntry {
                    generation: fields.u64("generation")?,
                    bytes: fields.u64("bytes")?,
                    sha256: fields.hash("sha256")?,
                })
            }
        };
        Ok(Self {
            number: fields.u64("number")?,
            bytes: fields.u64("bytes")?,
            sha256: fields.hash("sha256")?,
            items: fields.u32("items")?,
            sources: fields.u32("sources")?,
            edges: fields.u32("edges")?,
            tombstones: fields.u32("tombstones")?,
            vectors: fields.u32("vectors")?,
            first_seq: fields.u64("first_seq")?,
            last_seq: fields.u64("last_seq")?,
            state,
        })
    }
}

fn decode(name: &str, bytes: &[u8]) -> Result<Manifest, OpenError> {
    let line = checked_line(bytes).map_err(|damage| damage.within(name))?;
    let value: Value = serde_json::from_str(line)
        .map_err(|error| Damage::new("MAN-02", format!("not JSON: {error}")).within(name))?;
    let version = version(&value).map_err(|damage| damage.within(name))?;
    if version > layout::READ_VERSION {
        return Err(OpenError::TooNew { file: name.to_owned(), version });
    }
    of_json(&value).map_err(|damage| damage.within(name).into())
}

/// The first line, if the second confirms it (MAN-01).
fn checked_line(bytes: &[u8]) -> Result<&str, Damage> {
    let wrong = |what: &str| Damage::new("MAN-01", what);
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("not UTF-8"))?;
    let (line, rest) = text.split_once('\n').ok_or_else(|| wrong("it has one line, not two"))?;
    let expected = format!("sha256 {}\n", hex(&Sha256::digest(line.as_bytes())));
    if rest != expected {
        return Err(wrong("its SHA-256 is not that of its first line"));
    }
    Ok(line)
}

fn version(value: &Value) -> Result<u16, Damage> {
    let fields = Fields::of(value, "the manifest")?;
    if fields.any("format")? != FORMAT {
        return Err(Damage::new("MAN-02", "format is not that of a manifest"));
    }
    let (read, write) = (fields.narrow("read_version")?, fields.narrow("write_version")?);
    // A build that could only read beside these files would still write: it has no such mode yet.
    Ok(if write > layout::WRITE_VERSION { write } else { read })
}

fn of_json(value: &Value) -> Result<Manifest, Damage> {
    let fields = Fields::of(value, "the manifest")?;
    let listed = fields.any("segments")?.as_array();
    let listed = listed.ok_or_else(|| Damage::new("MAN-02", "segments is not a list"))?;
    if listed.len() > SEGMENTS_MAX {
        let detail = format!("{} segments, at most {SEGMENTS_MAX} are allowed", listed.len());
        return Err(Damage::new("MAN-02", detail));
    }
    let segments = listed.iter().map(SegmentEntry::of_json).collect::<Result<Vec<_>, _>>()?;
    check_order(&segments)?;
    Ok(Manifest {
        number: fields.u64("number")?,
        store: StoreId(u128::from_le_bytes(fields.hash("store")?)),
        created_at: Micros(fields.i64("created_at")?),
        last_seq: fields.u64("last_seq")?,
        log_floor: fields.u64("log_floor")?,
        next_file: fields.u64("next_file")?,
        model: model_of_json(fields.any("model")?)?,
        segments,
    })
}

fn model_of_json(value: &Value) -> Result<Option<Model>, Damage> {
    if value.is_null() {
        return Ok(None);
    }
    let fields = Fields::of(value, "the model")?;
    let dimensions = fields.u32("dimensions")?;
    if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
        let detail = format!("{dimensions} dimensions; 1 to {DIMENSIONS_MAX} are allowed");
        return Err(Damage::new("MAN-02", detail));
    }
    Ok(Some(Model { fingerprint: fields.hash("fingerprint")?, dimensions }))
}

/// Segments follow one another in commit order (MAN-04).
fn check_order(segments: &[SegmentEntry]) -> Result<(), Damage> {
    let mut last = 0;
    for entry in segments {
        if entry.first_seq <= last || entry.last_seq < entry.first_seq {
            let detail = format!("segment {} is out of commit order", entry.number);
            return Err(Damage::new("MAN-04", detail));
        }
        last = entry.last_seq;
    }
    Ok(())
}

/// Fields of one JSON object, each missing or wrong one a damage of MAN-02.
struct Fields<'a> {
    object: &'a Map<String, Value>,
    what: &'static str,
}

impl<'a> Fields<'a> {
    fn of(value: &'a Value, what: &'static str) -> Result<Self, Damage> {
        let object = value.as_object();
        let object = object.ok_or_else(|| Damage::new("MAN-02", format!("{what} is no object")))?;
        Ok(Self { object, what })
    }

    fn any(&self, name: &str) -> Result<&'a Value, Damage> {
        self.object.get(name).ok_or_else(|| self.wrong(name, "missing"))
    }

    fn u64(&self, name: &str) -> Result<u64, Damage> {
        self.any(name)?.as_u64().ok_or_else(|| self.wrong(name, "not a natural number"))
    }

    fn i64(&self, name: &str) -> Result<i64, Damage> {
        self.any(name)?.as_i64().ok_or_else(|| self.wrong(name, "not a number"))
    }

    fn u32(&self, name: &str) -> Result<u32, Damage> {
        self.narrow(name)
    }

    fn narrow<T: TryFrom<u64>>(&self, name: &str) -> Result<T, Damage> {
        T::try_from(self.u64(name)?).map_err(|_| self.wrong(name, "too large"))
    }

    fn hash<const N: usize>(&self, name: &str) -> Result<[u8; N], Damage> {
        let text = self.any(name)?.as_str().unwrap_or_default();
        unhex(text).ok_or_else(|| self.wrong(name, "not a hash in hexadecimal"))
    }

    fn wrong(&self, name: &str, how: &str) -> Damage {
        Damage::new("MAN-02", format!("{name} of {} is {how}", self.what))
    }
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
    }
    text
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let mut manifest = Manifest::first(StoreId(77), Micros(5));
        manifest.model = Some(Model { fingerprint: [9; 32], dimensions: 384 });
        manifest.segments.push(SegmentEntry {
            number: 3,
            bytes: 4096,
            sha256: [1; 32],
            items: 2,
            sources: 1,
            edges: 0,
            tombstones: 0,
            vectors: 2,
            first_seq: 1,
            last_seq: 4,
            state: Some(StateEntry { generation: 2, bytes: 90, sha256: [2; 32] }),
        });
        manifest
    }

    #[test]
    fn a_manifest_gives_back_what_it_was_given() {
        assert_eq!(decode("m", &sample().encode()).unwrap(), sample());
    }

    #[test]
    fn every_flipped_byte_and_every_cut_is_noticed() {
        let file = sample().encode();
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 1;
            assert!(decode("m", &bad).is_err(), "byte {at}");
            assert!(decode("m", &file[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn segments_that_overlap_are_refused() {
        let mut manifest = sample();
        let mut second = manifest.segments[0].clone();
        second.first_seq = 4;
        second.last_seq = 9;
        manifest.segments.push(second);
        let error = decode("m", &manifest.encode()).unwrap_err();
        assert!(error.to_string().contains("MAN-04"), "{error}");
    }
}
