//! The weights file (safetensors): a length, a JSON header, then the tensors' bytes.
//!
//! Every offset is checked before it is used; a tensor is handed out only in the shape and type
//! that was asked for, with all values finite. Knows bytes and shapes, not what the tensors are
//! for.

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
    /// What stands before every tensor's name: nothing, or `bert.` in files saved from a larger
    /// net.
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
    /// Fails if it is missing, has another shape, is not F32 or F16, lies outside the file, or
    /// holds a value that is not finite.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::Remedy;
    use crate::tiny::{Tiny, with_header};

    /// What opening says about this file's tensor `t`, asked for as 2 by 3.
    fn complaint(bytes: &[u8]) -> String {
        let floats = Weights::open(bytes).and_then(|weights| weights.floats("t", &[2, 3]));
        let error = floats.unwrap_err();
        assert_eq!(error.remedy(), Remedy::FetchAgain);
        error.to_string()
    }

    fn entry(dtype: &str, shape: Value, data_offsets: Value) -> Value {
        json!({"dtype": dtype, "shape": shape, "data_offsets": data_offsets})
    }

    fn one(entry: Value, data: &[u8]) -> Vec<u8> {
        with_header(json!({ "t": entry }).to_string().as_bytes(), data)
    }

    #[test]
    fn a_tensor_is_read_where_its_offsets_say() {
        let values = [1.0_f32, -2.5, 3.0, 0.0, 1e-40, 6.0];
        let mut data = vec![0xFF; 4];
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let entry = json!({"dtype": "F32", "shape": [2, 3], "data_offsets": [4, 28]});
        let bytes = one(entry, &data);
        assert_eq!(Weights::open(&bytes).unwrap().floats("t", &[2, 3]).unwrap(), values);
    }

    #[test]
    fn damage_is_named() {
        let f32s = |offsets: Value| one(entry("F32", json!([2, 3]), offsets), &[0; 24]);
        let cases: &[(Vec<u8>, &[&str])] = &[
            (vec![], &["0 bytes", "8-byte header length"]),
            (vec![9; 20], &["a header of 651061555542690057 bytes", "ends inside"]),
            (with_header(b"[1]", &[]), &["one JSON object", "a list of 1 items"]),
            (with_header(b"{", &[]), &["one JSON object"]),
            (with_header(b"{}", &[]), &["tensor t", "no such tensor", "[2, 3]"]),
            (one(json!(7), &[]), &["tensor t", "dtype nothing"]),
            (
                one(entry("BF16", json!([2, 3]), json!([0, 12])), &[0; 12]),
                &["dtype \"BF16\"", "F32 or F16"],
            ),
            (
                one(entry("F32", json!([3, 2]), json!([0, 24])), &[0; 24]),
                &["shape [3, 2]", "[2, 3]"],
            ),
            (one(entry("F32", json!([2, -3]), json!([0, 24])), &[0; 24]), &["shape [2, -3]"]),
            (f32s(json!([0, 25])), &["data_offsets [0, 25] in 24 bytes", "24 bytes of data"]),
            (f32s(json!([0, 20])), &["data_offsets [0, 20]"]),
            (f32s(json!([24, 0])), &["data_offsets [24, 0]"]),
            (f32s(json!([u64::MAX - 23, u64::MAX])), &["data_offsets"]),
            (f32s(json!("x")), &["data_offsets \"x\""]),
            (one(entry("F32", json!([2, 3]), json!([0, 24])), &[0xFF; 24]), &["finite"]),
        ];
        for (bytes, wanted) in cases {
            let message = complaint(bytes);
            for part in *wanted {
                assert!(message.contains(part), "{message:?} lacks {part:?}");
            }
        }
    }

    #[test]
    fn a_shape_too_large_to_count_is_an_error() {
        let huge = usize::MAX / 2;
        let entry = json!({"dtype": "F32", "shape": [huge, huge], "data_offsets": [0, 4]});
        let bytes = one(entry, &[0; 4]);
        let error = Weights::open(&bytes).unwrap().floats("t", &[huge, huge]).unwrap_err();
        assert!(error.to_string().contains("more bytes than can be counted"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_or_a_model(bytes: Vec<u8>, length in 0_u64..300) {
            let mut framed = length.to_le_bytes().to_vec();
            framed.extend(&bytes);
            for bytes in [&bytes, &framed] {
                if let Ok(weights) = Weights::open(bytes) {
                    prop_assert!(weights.floats("t", &[1]).is_err());
                }
            }
        }

        #[test]
        fn a_bent_file_is_an_error_or_a_model(
            places: [prop::sample::Index; 3],
            bits in 1_u8..,
            cut: prop::sample::Index,
        ) {
            let mut files = Tiny::new().files();
            let header = 8 + usize::from(u16::from_le_bytes([files.weights[0], files.weights[1]]));
            for place in places {
                files.weights[place.index(header)] ^= bits;
            }
            let _ = files.open();
            files.weights.truncate(cut.index(files.weights.len()));
            prop_assert!(files.open().is_err());
        }
    }
}
