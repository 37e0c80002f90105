//! The weights file (safetensors): a length, a JSON header, then the tensors' bytes.
//!
//! Every offset is checked before use; a tensor is returned only in the requested shape and type, with all values
//! finite.
//!
//! Tensors of other names, and bytes outside of all tensors, are ignored: they cannot change a requested value, and the
//! SHA-256 shows if the file is the published one. If two entries have one name, the last one counts, as in the
//! reference reader of the format. All requested tensors MUST fit into the file together, so that a small file cannot
//! request a large network.

use std::cell::Cell;
use std::ops::Range;

use half::{bf16, f16};
use serde_json::{Map, Value};

use crate::OpenError;
use crate::config::{Settings, brief};
use crate::files::WEIGHTS;

/// Bytes of the header's length, a little-endian u64, at the start of the file.
const LENGTH_BYTES: usize = 8;
/// Longest header: some hundred bytes for each of at most a few thousand tensors.
const HEADER_BYTES_MAX: usize = 16 << 20;

/// A checked weights file over borrowed bytes.
pub(crate) struct Weights<'a> {
    header: Map<String, Value>,
    data: &'a [u8],
    /// Bytes of `data` that no requested tensor has claimed yet.
    left: Cell<usize>,
    /// Prefix of every tensor's name: empty, or `bert.` in files saved from a larger network.
    prefix: &'static str,
}

/// Storage of one float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    F32,
    F16,
    Bf16,
}

impl Kind {
    fn named(name: &str) -> Option<Kind> {
        match name {
            "F32" => Some(Kind::F32),
            "F16" => Some(Kind::F16),
            "BF16" => Some(Kind::Bf16),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::F32 => "F32",
            Kind::F16 => "F16",
            Kind::Bf16 => "BF16",
        }
    }

    fn bytes(self) -> usize {
        if self == Kind::F32 { 4 } else { 2 }
    }
}

/// A tensor of the requested type, shape and length, whose values are not checked yet.
pub(crate) struct Tensor<'a> {
    name: String,
    /// Type and shape, for messages.
    cells: String,
    bytes: &'a [u8],
    kind: Kind,
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
        Ok(Weights { header, data, left: Cell::new(data.len()), prefix })
    }

    /// Returns the tensor of that name and shape.
    ///
    /// # Errors
    /// The tensor is missing, has another shape, is not F32, F16 or BF16, lies outside the file, or would share bytes
    /// with the tensors returned before.
    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor<'a>, OpenError> {
        let name = format!("{}{name}", self.prefix);
        let wrong =
            |found: String, wanted: String| OpenError::Tensor { name: name.clone(), found, wanted };
        let wanted = || format!("F32, F16 or BF16 of shape {shape:?}");
        let entry =
            self.header.get(&name).ok_or_else(|| wrong("no such tensor".into(), wanted()))?;
        let kind = entry["dtype"].as_str().and_then(Kind::named);
        let Some(kind) = kind.filter(|_| same_shape(&entry["shape"], shape)) else {
            let (dtype, sides) = (brief(&entry["dtype"]), brief_shape(&entry["shape"]));
            return Err(wrong(format!("dtype {dtype} of shape {sides}"), wanted()));
        };
        let bytes = byte_range(&entry["data_offsets"]).and_then(|range| self.data.get(range));
        let size = shape.iter().try_fold(kind.bytes(), |size, &side| size.checked_mul(side));
        let Some(bytes) = bytes.filter(|bytes| Some(bytes.len()) == size) else {
            let offsets = brief_shape(&entry["data_offsets"]);
            let found = format!("data_offsets {offsets} in {} bytes of data", self.data.len());
            let cells = described(kind, shape);
            return Err(wrong(
                found,
                format!("{cells}: {} of data inside the file", brief_size(size)),
            ));
        };
        let Some(left) = self.left.get().checked_sub(bytes.len()) else {
            let (found, all) = (self.left.get(), self.data.len());
            let found = format!("{found} bytes of {all} that no other tensor has");
            let cells = described(kind, shape);
            return Err(wrong(found, format!("{cells}: {} of data of its own", brief_size(size))));
        };
        self.left.set(left);
        Ok(Tensor { cells: described(kind, shape), name, bytes, kind })
    }
}

impl Tensor<'_> {
    /// Name in the file, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Type and shape, for messages: `F32 of shape [30522, 384]`.
    pub(crate) fn cells(&self) -> &str {
        &self.cells
    }

    /// Returns the values in row-major order, converted to f32.
    ///
    /// # Errors
    /// A value is not finite.
    pub(crate) fn floats(&self) -> Result<Vec<f32>, OpenError> {
        let floats = widen(self.bytes, self.kind);
        // A single pass without branches costs less than the copy did.
        let finite = floats.iter().fold(true, |all, value| all & value.is_finite());
        finite.then_some(floats).ok_or_else(|| OpenError::Tensor {
            name: self.name.clone(),
            found: "a value that is infinite or not a number".into(),
            wanted: format!("{}, all of it finite", self.cells),
        })
    }
}

fn described(kind: Kind, shape: &[usize]) -> String {
    format!("{} of shape {shape:?}", kind.name())
}

fn widen(bytes: &[u8], kind: Kind) -> Vec<f32> {
    let (words, _) = bytes.as_chunks::<4>();
    let (halves, _) = bytes.as_chunks::<2>();
    match kind {
        Kind::F32 => words.iter().map(|word| f32::from_le_bytes(*word)).collect(),
        Kind::F16 => halves.iter().map(|half| f16::from_le_bytes(*half).to_f32()).collect(),
        Kind::Bf16 => halves.iter().map(|half| bf16::from_le_bytes(*half).to_f32()).collect(),
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

/// Formats a list of a few numbers for a message.
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
    use crate::tiny::with_header;

    /// Returns the error for this file's tensor `t`, requested as 2 by 3.
    fn complaint(bytes: &[u8]) -> String {
        let floats =
            Weights::open(bytes).and_then(|weights| weights.tensor("t", &[2, 3])?.floats());
        let error = floats.unwrap_err();
        assert_eq!(error.remedy(), Remedy::FetchAgain);
        error.to_string()
    }

    fn values_of(bytes: &[u8]) -> Vec<f32> {
        Weights::open(bytes).unwrap().tensor("t", &[2, 3]).unwrap().floats().unwrap()
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
        let bytes = one(entry("F32", json!([2, 3]), json!([4, 28])), &data);
        assert_eq!(values_of(&bytes), values);
    }

    #[test]
    fn all_three_widths_of_floats_are_read() {
        let values = [1.0, -2.5, 3.0, 0.0, -0.125, 6.0];
        let f16s: Vec<u8> = values.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect();
        let bf16s: Vec<u8> = values.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect();
        for (dtype, data) in [("F16", f16s), ("BF16", bf16s)] {
            let bytes = one(entry(dtype, json!([2, 3]), json!([0, 12])), &data);
            assert_eq!(values_of(&bytes), values, "{dtype}");
        }
    }

    /// The module docs explain why.
    #[test]
    fn what_is_not_asked_for_is_not_looked_at() {
        let data: Vec<u8> = (0..12_u8).flat_map(|x| f32::from(x).to_le_bytes()).collect();
        let header = r#"{"t": {"dtype": "I8", "shape": [1], "data_offsets": [0, 1]},
            "u": {"dtype": "C64", "shape": [2], "data_offsets": [20, 9]},
            "v": {"dtype": "F32", "shape": [3], "data_offsets": [12, 24]},
            "t": {"dtype": "F32", "shape": [2, 3], "data_offsets": [4, 28]}}"#;
        let bytes = with_header(header.as_bytes(), &data);
        assert_eq!(values_of(&bytes), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "the last of two names");
    }

    #[test]
    fn damage_is_named() {
        let f32s = |offsets: Value| one(entry("F32", json!([2, 3]), offsets), &[0; 24]);
        let cases: &[(Vec<u8>, &[&str])] = &[
            (vec![], &["0 bytes", "8-byte header length"]),
            (
                [&((16 << 20) + 1_u64).to_le_bytes()[..], &[b' '; 100]].concat(),
                &["a header of 16777217 bytes in a file of 108", "at most 16 MiB"],
            ),
            (vec![9; 20], &["a header of 651061555542690057 bytes", "ends inside"]),
            (with_header(b"[1]", &[]), &["one JSON object", "a list of 1 items"]),
            (with_header(b"{", &[]), &["one JSON object"]),
            (with_header(b"{}", &[]), &["tensor t", "no such tensor", "[2, 3]"]),
            (one(json!(7), &[]), &["tensor t", "dtype nothing"]),
            (
                one(entry("F64", json!([2, 3]), json!([0, 48])), &[0; 48]),
                &["dtype \"F64\" of shape [2, 3]", "F32, F16 or BF16 of shape [2, 3]"],
            ),
            (one(entry("I8", json!([2, 3]), json!([0, 6])), &[0; 6]), &["dtype \"I8\""]),
            (
                one(entry("BF16", json!([2, 3]), json!([0, 24])), &[0; 24]),
                &["BF16", "[2, 3]", "12 bytes of data"],
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

    /// Otherwise a few bytes, returned again and again, would become a network of any size.
    #[test]
    fn tensors_do_not_share_bytes() {
        let (six, two) = (json!([0, 24]), json!([16, 24]));
        let header =
            json!({"t": entry("F32", json!([2, 3]), six), "u": entry("F32", json!([2]), two)});
        let bytes = with_header(header.to_string().as_bytes(), &[0; 28]);
        let weights = Weights::open(&bytes).unwrap();
        weights.tensor("t", &[2, 3]).unwrap();
        let message = weights.tensor("u", &[2]).err().unwrap().to_string();
        for part in ["tensor u", "F32 of shape [2]", "8 bytes", "4 bytes of 28 that no other"] {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }

    #[test]
    fn a_shape_too_large_to_count_is_an_error() {
        let huge = usize::MAX / 2;
        let entry = json!({"dtype": "F32", "shape": [huge, huge], "data_offsets": [0, 4]});
        let bytes = one(entry, &[0; 4]);
        let error = Weights::open(&bytes).unwrap().tensor("t", &[huge, huge]).err().unwrap();
        assert!(error.to_string().contains("more bytes than can be counted"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_or_a_model(bytes: Vec<u8>, length in 0_u64..300) {
            let mut framed = length.to_le_bytes().to_vec();
            framed.extend(&bytes);
            for bytes in [&bytes, &framed] {
                if let Ok(weights) = Weights::open(bytes) {
                    prop_assert!(weights.tensor("t", &[1]).is_err());
                }
            }
        }
    }
}
