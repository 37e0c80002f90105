//! The weights file (safetensors): a length, a JSON header, then the tensors' bytes.
//!
//! Every offset is checked before it is used; a tensor is handed out only in the shape and type that
//! was asked for, with all values finite. Knows bytes and shapes, not what the tensors are for.

use std::ops::Range;

use half::f16;
use serde_json::{Map, Value};

use crate::OpenError;
use crate::config::{Settings, brief};
use crate::files::WEIGHTS;

/// Bytes of the header's length, a little-endian u64, at the start of the file.
const LENGTH_BYTES: usize = 8;
/// Longest header that is read: some hundred bytes for each of at most a few thousand tensors.
const HEADER_BYTES_MAX: usize = 16 << 20;

/// A checked weights file. Borrows the bytes.
pub(crate) struct Weights<'a> {
    header: Map<String, Value>,
    data: &'a [u8],
    /// What stands before every tensor's name: nothing, or `bert.` in files saved from a larger net.
    prefix: &'static str,
}

/// How one float is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    F32,
    F16,
}

impl<'a> Weights<'a> {
    /// Splits the file and parses its header.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Weights<'a>, OpenError> {
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
            return Err(malformed(format!("{} bytes", bytes.len()), "an 8-byte header length"));
        };
        let length = u64::from_le_bytes(*length);
        let header_bytes = usize::try_from(length).ok().filter(|&n| n <= HEADER_BYTES_MAX);
        let split = header_bytes.and_then(|n| rest.split_at_checked(n));
        let Some((header, data)) = split else {
            let found = format!("a header of {length} bytes in a file of {}", bytes.len());
            return Err(malformed(found, "a header of at most 16 MiB that ends inside the file"));
        };
        let Value::Object(header) = Settings::parse(WEIGHTS, header)?.value else {
            return Err(malformed("another JSON value".into(), "a header object"));
        };
        let bare = header.contains_key("embeddings.word_embeddings.weight");
        let prefixed = header.contains_key("bert.embeddings.word_embeddings.weight");
        let prefix = if prefixed && !bare { "bert." } else { "" };
        Ok(Weights { header, data, prefix })
    }

    /// The values of a tensor, in row-major order, widened to f32.
    ///
    /// Fails if it is missing, has another shape, is not F32 or F16, lies outside the file, or holds
    /// a value that is not finite.
    pub(crate) fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, OpenError> {
        let name = format!("{}{name}", self.prefix);
        let wanted = || format!("F32 or F16 of shape {shape:?}");
        let wrong =
            |found: String, wanted: String| OpenError::Tensor { name: name.clone(), found, wanted };
        let entry =
            self.header.get(&name).ok_or_else(|| wrong("no such tensor".into(), wanted()))?;
        let kind = match entry["dtype"].as_str() {
            Some("F32") => Kind::F32,
            Some("F16") => Kind::F16,
            _ => return Err(wrong(format!("dtype {}", brief(&entry["dtype"])), wanted())),
        };
        if !same_shape(&entry["shape"], shape) {
            return Err(wrong(format!("shape {}", brief_shape(&entry["shape"])), wanted()));
        }
        let bytes = byte_range(&entry["data_offsets"]).and_then(|range| self.data.get(range));
        let width = if kind == Kind::F32 { 4 } else { 2 };
        let size = shape.iter().try_fold(width, |size: usize, &side| size.checked_mul(side));
        let Some(bytes) = bytes.filter(|bytes| Some(bytes.len()) == size) else {
            let offsets = brief_shape(&entry["data_offsets"]);
            let found = format!("data_offsets {offsets} in {} bytes of data", self.data.len());
            return Err(wrong(found, format!("{} of data inside the file", brief_size(size))));
        };
        let floats = widen(bytes, kind);
        // One pass without branches, so that it costs less than the copy did.
        let finite = floats.iter().fold(true, |all, value| all & value.is_finite());
        finite.then_some(floats).ok_or_else(|| {
            wrong("a value that is infinite or not a number".into(), "finite values".into())
        })
    }
}

fn widen(bytes: &[u8], kind: Kind) -> Vec<f32> {
    match kind {
        Kind::F32 => {
            let (words, _) = bytes.as_chunks::<4>();
            words.iter().map(|word| f32::from_le_bytes(*word)).collect()
        }
        Kind::F16 => {
            let (words, _) = bytes.as_chunks::<2>();
            words.iter().map(|word| f16::from_le_bytes(*word).to_f32()).collect()
        }
    }
}

fn same_shape(found: &Value, wanted: &[usize]) -> bool {
    let Some(sides) = found.as_array() else { return false };
    let sides = sides.iter().map(|side| side.as_u64().and_then(|side| usize::try_from(side).ok()));
    sides.eq(wanted.iter().map(|&side| Some(side)))
}

fn byte_range(offsets: &Value) -> Option<Range<usize>> {
    let [start, end] = offsets.as_array()?.as_slice() else { return None };
    let start = usize::try_from(start.as_u64()?).ok()?;
    let end = usize::try_from(end.as_u64()?).ok()?;
    Some(start..end)
}

/// A list of a few numbers for a message.
fn brief_shape(value: &Value) -> String {
    const SIDES_MAX: usize = 8;
    match value.as_array() {
        Some(sides) if sides.len() <= SIDES_MAX => {
            let sides: Vec<String> = sides.iter().map(brief).collect();
            format!("[{}]", sides.join(", "))
        }
        _ => brief(value),
    }
}

fn brief_size(size: Option<usize>) -> String {
    size.map_or("more bytes than can be counted".into(), |size| format!("{size} bytes"))
}

fn malformed(found: String, wanted: &str) -> OpenError {
    OpenError::Malformed { file: WEIGHTS, found, wanted: wanted.into() }
}
