//! (tests) Every rule of `format-spec/weights.md` has a file that breaks the rule, and packed values decode as the
//! specification says.

use half::f16;
use kernels::{COLUMNS, Kernels, Precision, QUAD, padded_depth};
use proptest::prelude::*;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::layout::{ENTRY_BYTES, HEADER_BYTES, Layout, Section, at, entry};
use crate::config::Config;
use crate::tiny::{HIDDEN, INNER, LAYERS, Tiny, TinyFiles, WORDS};
use crate::{Encoder, OpenError, PackedWeights, Remedy, pack};

fn packed(tiny: &Tiny, precision: Precision) -> Vec<u8> {
    pack(&tiny.files().borrowed(), precision).unwrap().as_ref().to_vec()
}

fn layout(tiny: &Tiny, precision: Precision) -> Layout {
    Layout::of(&Config::read(&tiny.files().borrowed().settings()).unwrap(), precision)
}

fn source(files: &TinyFiles) -> [u8; 32] {
    Sha256::digest(&files.weights).into()
}

/// Opens bytes as the packed weights of a model.
fn open(tiny: &Tiny, bytes: &[u8], precision: Precision) -> Result<Encoder, OpenError> {
    let files = tiny.files();
    let settings = files.borrowed().settings();
    let kernels = Kernels::detect();
    Encoder::open_packed(&settings, bytes.to_vec(), source(&files), kernels, precision)
}

fn complaint(tiny: &Tiny, bytes: &[u8], precision: Precision) -> String {
    let error = open(tiny, bytes, precision).map(|_| ()).unwrap_err();
    assert_eq!(error.remedy(), Remedy::PackAgain, "{error}");
    error.to_string()
}

/// Recomputes all checksums, those of sections only as far as the sections lie inside the file.
fn reseal(bytes: &mut [u8]) {
    let Some((head, rest)) = bytes.split_at_mut_checked(HEADER_BYTES) else { return };
    let sections = u32::from_le_bytes(*head[at::SECTIONS..].first_chunk().unwrap()) as usize;
    let directory_bytes = sections.saturating_mul(ENTRY_BYTES);
    if let Some((directory, body)) = rest.split_at_mut_checked(directory_bytes) {
        for entry in directory.chunks_exact_mut(ENTRY_BYTES) {
            let number = |at: usize| {
                let number = u64::from_le_bytes(*entry[at..].first_chunk().unwrap());
                usize::try_from(number).unwrap()
            };
            let start = number(entry::OFFSET).checked_sub(HEADER_BYTES + directory_bytes);
            let end = start.and_then(|start| start.checked_add(number(entry::BYTES)));
            if let Some(bytes) = start.zip(end).and_then(|(start, end)| body.get(start..end)) {
                let crc = crc32c::crc32c(bytes);
                entry[entry::CRC..][..4].copy_from_slice(&crc.to_le_bytes());
            }
        }
        let crc = crc32c::crc32c(directory);
        head[at::DIRECTORY_CRC..][..4].copy_from_slice(&crc.to_le_bytes());
    }
    let crc = crc32c::crc32c(&head[..at::HEADER_CRC]);
    head[at::HEADER_CRC..][..4].copy_from_slice(&crc.to_le_bytes());
}

fn vectors(encoder: &Encoder) -> Vec<f32> {
    let texts = ["", "a b", "unaffable caf\u{e9}!", "b a b a b a b"];
    let mut out = vec![f32::NAN; texts.len() * HIDDEN];
    encoder.encode_batch(&mut encoder.scratch(), &texts, &mut out);
    out
}

#[test]
fn what_is_packed_once_opens_to_the_same_bits() {
    let tiny = Tiny::new();
    for &precision in Precision::ALL {
        let files = tiny.files();
        let kernels = Kernels::detect();
        let fresh = Encoder::open_as(&files.borrowed(), kernels, precision).unwrap();
        let bytes = packed(&tiny, precision);
        assert_eq!(packed(&tiny, precision), bytes, "the same bytes each time");
        let again = open(&tiny, &bytes, precision).unwrap();
        assert_eq!(again.precision(), precision);
        assert_eq!(again.fingerprint(), fresh.fingerprint());
        assert_eq!(vectors(&again), vectors(&fresh));
    }
}

/// If these bytes change, [`PACKING`](super::PACKING) MUST change too. Otherwise files of the old packing would be
/// misread.
#[test]
fn the_bytes_are_those_of_this_packing() {
    let digest = |precision| {
        // The header is excluded, since it has the SHA-256 of the source, whose JSON header has no fixed order.
        let hash = Sha256::digest(&packed(&Tiny::new(), precision)[HEADER_BYTES..]);
        hash[..6].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let found = Precision::ALL.iter().map(|&precision| digest(precision)).collect::<Vec<_>>();
    assert_eq!(
        (super::PACKING, found.join(" ").as_str()),
        (1, "478bbaa06e11 649af59aa3f4 5393130a3468")
    );
}

#[test]
fn bytes_that_start_anywhere_are_taken() {
    let tiny = Tiny::new();
    let files = tiny.files();
    let whole = pack(&files.borrowed(), Precision::F16).unwrap();
    struct From(PackedWeights, usize);
    impl AsRef<[u8]> for From {
        fn as_ref(&self) -> &[u8] {
            &self.0.as_ref()[self.1..]
        }
    }
    for shift in [0, 1, 2, 63, 64] {
        let mut moved = PackedWeights::zeros(shift + whole.as_ref().len());
        moved.as_mut()[shift..].copy_from_slice(whole.as_ref());
        let settings = files.borrowed().settings();
        let kernels = Kernels::detect();
        let moved = From(moved, shift);
        Encoder::open_packed(&settings, moved, source(&files), kernels, Precision::F16).unwrap();
    }
}

/// Corrupts packed weights; the checksums are recomputed afterwards.
type Spoil = fn(&mut Vec<u8>, &Layout);

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..][..N].copy_from_slice(&value);
}

/// Returns the first section of that name.
fn section(layout: &Layout, name: &str) -> Section {
    *layout.sections.iter().find(|section| section.kind.name == name).unwrap()
}

fn assert_refused(precision: Precision, cases: &[(Spoil, &[&str])]) {
    let tiny = Tiny::new();
    let layout = layout(&tiny, precision);
    for (spoil, wanted) in cases {
        let mut bytes = packed(&tiny, precision);
        spoil(&mut bytes, &layout);
        reseal(&mut bytes);
        let message = complaint(&tiny, &bytes, precision);
        for part in *wanted {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }
}

#[test]
fn header_and_directory_break_their_rules_by_name() {
    let cases: &[(Spoil, &[&str])] = &[
        (|bytes, _| bytes.truncate(127), &["WGT-01", "127 bytes"]),
        (|bytes, _| bytes.clear(), &["WGT-01", "0 bytes"]),
        (|bytes, _| bytes[0] = b'X', &["WGT-01", "magic"]),
        (|bytes, _| bytes[at::READ_VERSION] = 2, &["WGT-03", "read_version", "found 2"]),
        (|bytes, _| bytes[at::READ_VERSION] = 0, &["WGT-03", "found 0"]),
        (|bytes, _| bytes[at::WRITE_VERSION] = 0, &["WGT-03", "write_version"]),
        (|bytes, _| bytes[at::PACKING] = 9, &["WGT-04", "found 9, wanted 1"]),
        (|bytes, _| bytes[at::PRECISION] = 1, &["WGT-05", "precision", "f16, wanted f32"]),
        (|bytes, _| bytes[at::PRECISION] = 9, &["WGT-05", "found 9, wanted f32"]),
        (|bytes, _| bytes[at::HIDDEN] = 9, &["WGT-05", "hidden", "found 9, wanted 8"]),
        (|bytes, _| bytes[at::HEADS] = 1, &["WGT-05", "heads"]),
        (|bytes, _| bytes[at::LAYERS] = 2, &["WGT-05", "layers"]),
        (|bytes, _| bytes[at::INNER] = 2, &["WGT-05", "inner"]),
        (|bytes, _| bytes[at::POSITIONS] = 2, &["WGT-05", "positions"]),
        (|bytes, _| bytes[at::VOCABULARY] = 2, &["WGT-05", "vocabulary"]),
        (|bytes, _| bytes[at::EPSILON] ^= 1, &["WGT-05", "epsilon", "wanted 1e-12"]),
        (|bytes, _| bytes[at::SECTIONS] -= 1, &["WGT-05", "sections"]),
        (|bytes, _| bytes.truncate(bytes.len() - 1), &["WGT-06", "file_bytes"]),
        (|bytes, _| bytes.push(0), &["WGT-06"]),
        (
            |bytes, _| {
                bytes.push(0);
                let length = bytes.len() as u64;
                put(bytes, at::FILE_BYTES, length.to_le_bytes());
            },
            &["WGT-06", "by its shape"],
        ),
        (|bytes, _| bytes[at::RESERVED + 3] = 1, &["WGT-07", "byte 107, in the header"]),
        (
            |bytes, _| bytes[HEADER_BYTES + ENTRY_BYTES + entry::RESERVED] = 1,
            &["WGT-07", "byte 184, in the directory"],
        ),
        (
            |bytes, _| bytes[HEADER_BYTES] = 2,
            &["WGT-09", "entry 0", "words (embeddings.word_embeddings.weight", "found kind 2"],
        ),
        (|bytes, _| bytes[HEADER_BYTES + entry::LAYER] = 2, &["WGT-09", "layer 65282"]),
        (|bytes, _| bytes[HEADER_BYTES + entry::OFFSET + 7] = 0xFF, &["WGT-09", "offset"]),
        (|bytes, _| bytes[HEADER_BYTES + entry::BYTES] ^= 4, &["WGT-09"]),
        (|bytes, layout| bytes[layout.words.range().end] = 1, &["WGT-11", "between sections"]),
        (|bytes, _| bytes[at::SOURCE_SHA256 + 5] ^= 1, &["WGT-15", "source_sha256"]),
    ];
    assert_refused(Precision::F32, cases);
}

#[test]
fn sections_break_their_rules_by_name() {
    let of_floats: &[(Spoil, &[&str])] = &[
        (
            |bytes, layout| {
                let at = section(layout, "feed_in_cells").offset + 4;
                put(bytes, at, f32::NAN.to_le_bytes());
            },
            &["WGT-12", "encoder.layer.0.intermediate.dense.weight", "finite"],
        ),
        (
            |bytes, layout| put(bytes, layout.words.range().end - 4, f32::INFINITY.to_le_bytes()),
            &["WGT-12", "embeddings.word_embeddings.weight"],
        ),
        (
            |bytes, layout| put(bytes, layout.blocks[2].fed.bias.offset, f32::NAN.to_le_bytes()),
            &["WGT-12", "encoder.layer.2.output.LayerNorm.bias"],
        ),
        (
            // The ninth column of a panel's first depth is padding: the model is eight wide.
            |bytes, layout| bytes[section(layout, "attention_out_cells").offset + 8 * 4] = 1,
            &["WGT-14", "attention.output.dense.weight"],
        ),
        (
            |bytes, layout| bytes[section(layout, "attention_out_bias").offset + 8 * 4] = 1,
            &["WGT-14", "attention.output.dense.bias"],
        ),
    ];
    assert_refused(Precision::F32, of_floats);
    let of_halves: &[(Spoil, &[&str])] = &[
        (
            |bytes, layout| put(bytes, layout.words.offset + 2, f16::NAN.to_le_bytes()),
            &["WGT-12", "embeddings.word_embeddings.weight"],
        ),
        (
            |bytes, layout| {
                let at = section(layout, "feed_out_cells").offset;
                put(bytes, at, f16::NEG_INFINITY.to_le_bytes());
            },
            &["WGT-12", "encoder.layer.0.output.dense.weight"],
        ),
        (
            |bytes, layout| bytes[section(layout, "feed_out_cells").range().end - 1] = 1,
            &["WGT-14", "encoder.layer.0.output.dense.weight"],
        ),
    ];
    assert_refused(Precision::F16, of_halves);
    let of_codes: &[(Spoil, &[&str])] = &[
        (
            |bytes, layout| bytes[section(layout, "feed_in_cells").offset] = 0x80,
            &["WGT-13", "intermediate.dense.weight", "a code of -128"],
        ),
        (
            |bytes, layout| bytes[section(layout, "feed_in_cells").offset] ^= 1,
            &["WGT-13", "feed_in_offsets", "-128 times the sum"],
        ),
        (
            |bytes, layout| bytes[section(layout, "feed_out_offsets").offset] ^= 1,
            &["WGT-13", "number 0 of feed_out_offsets"],
        ),
        (
            |bytes, layout| bytes[section(layout, "feed_in_cells").range().end - 1] = 1,
            &["WGT-14", "feed_in_cells"],
        ),
        (
            |bytes, layout| {
                let at = section(layout, "query_key_value_scales").offset;
                put(bytes, at, (-1.0_f32).to_le_bytes());
            },
            &["WGT-12", "not negative", "query_key_value_scales"],
        ),
        (
            |bytes, layout| {
                let at = section(layout, "attention_out_scales").offset + 8 * 4;
                put(bytes, at, 1.0_f32.to_le_bytes());
            },
            &["WGT-14", "attention_out_scales"],
        ),
    ];
    assert_refused(Precision::Int8, of_codes);
}

#[test]
fn weights_of_another_model_precision_or_source_are_refused_by_name() {
    let tiny = Tiny::new();
    let bytes = packed(&tiny, Precision::F16);
    let message = complaint(&tiny, &bytes, Precision::Int8);
    assert!(message.contains("WGT-05: precision"), "{message}");
    assert!(message.contains("found f16, wanted int8"), "{message}");
    let mut other = Tiny::new();
    other.config["num_hidden_layers"] = json!(LAYERS - 1);
    let message = complaint(&other, &bytes, Precision::F16);
    assert!(message.contains("WGT-05: layers"), "{message}");
    let mut other = Tiny::new();
    other.halves = true;
    let message = complaint(&other, &bytes, Precision::F16);
    assert!(message.contains("WGT-15: source_sha256"), "{message}");
}

#[test]
fn what_a_precision_cannot_hold_is_refused_by_tensor_and_value() {
    let with = |name: &str, value: f32| {
        let mut tiny = Tiny::new();
        tiny.tensors.get_mut(name).unwrap().1[3] = value;
        tiny
    };
    let refused = |tiny: &Tiny, precision, parts: &[&str]| {
        let error = pack(&tiny.files().borrowed(), precision).map(|_| ()).unwrap_err();
        assert_eq!(error.remedy(), Remedy::ChoosePrecision);
        for part in parts {
            assert!(error.to_string().contains(part), "{error} lacks {part:?}");
        }
        pack(&tiny.files().borrowed(), Precision::F32).unwrap();
    };
    let word = "embeddings.word_embeddings.weight";
    let cells = "encoder.layer.1.attention.self.key.weight";
    refused(&with(cells, -65_520.0), Precision::F16, &[cells, "65520", "f16", "f32 holds it"]);
    refused(&with(word, 1e6), Precision::F16, &[word, "1000000"]);
    refused(&with(word, 1e6), Precision::Int8, &[word, "below 65520"]);
    refused(&with(cells, 3e37), Precision::Int8, &[cells, "below"]);
    pack(&with(cells, 65_519.0).files().borrowed(), Precision::F16).unwrap();
    pack(&with(cells, 1e6).files().borrowed(), Precision::Int8).unwrap();

    let mut sums = with("embeddings.position_embeddings.weight", f32::MAX);
    sums.tensors.get_mut("embeddings.token_type_embeddings.weight").unwrap().1[3] = f32::MAX;
    let error = pack(&sums.files().borrowed(), Precision::F32).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("first segment's row"), "{error}");
}

/// Decodes a packed layer as `format-spec/weights.md` says, without the kernels: `[output][depth]`.
fn unpacked(bytes: &[u8], layout: &Layout, name: &str, depth: usize, width: usize) -> Vec<f64> {
    let cells = &bytes[section(layout, &format!("{name}_cells")).range()];
    let deep = padded_depth(depth);
    let mut values = vec![0.0; depth * width];
    for (n, column) in values.chunks_exact_mut(depth).enumerate() {
        for (k, value) in column.iter_mut().enumerate() {
            let (panel, c) = (n / COLUMNS, n % COLUMNS);
            let plain = (panel * deep + k) * COLUMNS + c;
            *value = match layout.precision {
                Precision::F32 => {
                    f64::from(f32::from_le_bytes(*cells[4 * plain..].first_chunk().unwrap()))
                }
                Precision::F16 => {
                    f64::from(f16::from_le_bytes(*cells[2 * plain..].first_chunk().unwrap()))
                }
                Precision::Int8 => {
                    let quads = deep / QUAD;
                    let at = ((panel * quads + k / QUAD) * COLUMNS + c) * QUAD + k % QUAD;
                    let scales = &bytes[section(layout, &format!("{name}_scales")).range()];
                    let scale = f32::from_le_bytes(*scales[4 * n..].first_chunk().unwrap());
                    f64::from(i8::from_le_bytes([cells[at]])) * f64::from(scale)
                }
            };
        }
        if layout.precision == Precision::Int8 {
            let block = 1 << depth.trailing_zeros().min(7);
            for turned in column.chunks_exact_mut(block) {
                let codes = turned.to_vec();
                for (i, value) in turned.iter_mut().enumerate() {
                    let sign = |j: usize| if (i & j).count_ones() & 1 == 0 { 1.0 } else { -1.0 };
                    *value = codes.iter().enumerate().map(|(j, code)| sign(j) * code).sum();
                }
            }
        }
    }
    values
}

#[test]
fn the_page_describes_the_layers_well_enough_to_read_them() {
    let tiny = Tiny::new();
    for &precision in Precision::ALL {
        let (bytes, layout) = (packed(&tiny, precision), layout(&tiny, precision));
        for (section, tensor, depth, width) in [
            ("attention_out", "attention.output.dense", HIDDEN, HIDDEN),
            ("feed_in", "intermediate.dense", HIDDEN, INNER),
            ("feed_out", "output.dense", INNER, HIDDEN),
        ] {
            let wanted = &tiny.tensors[&format!("encoder.layer.0.{tensor}.weight")].1;
            let found = unpacked(&bytes, &layout, section, depth, width);
            for (found, wanted) in found.iter().zip(wanted) {
                // The error is half a code for each of at most 8 values below 1, and each code is worth that / 127; the
                // sum over a block of codes adds up the rounding errors.
                let bound = if precision == Precision::Int8 { 8.0 * 0.5 / 127.0 } else { 0.0 };
                let off = (found - f64::from(*wanted)).abs();
                assert!(off <= bound, "{precision:?} {section}: {found} is not {wanted}");
            }
        }
    }
}

#[test]
fn tables_lie_where_the_page_says() {
    let tiny = Tiny::new();
    let words = &tiny.tensors["embeddings.word_embeddings.weight"].1;
    let (bytes, layout) = (packed(&tiny, Precision::Int8), layout(&tiny, Precision::Int8));
    assert_eq!(layout.words.bytes, WORDS.len() * HIDDEN * 2);
    let halves = bytes[layout.words.range()].as_chunks::<2>().0;
    assert!(halves.iter().map(|half| f16::from_le_bytes(*half).to_f32()).eq(words.iter().copied()));
    let segment = &tiny.tensors["embeddings.token_type_embeddings.weight"].1[..HIDDEN];
    let positions = &tiny.tensors["embeddings.position_embeddings.weight"].1;
    let floats = bytes[layout.positions.range()].as_chunks::<4>().0.iter();
    let sums = positions.iter().zip(segment.iter().cycle()).map(|(x, y)| x + y);
    assert!(floats.map(|float| f32::from_le_bytes(*float)).eq(sums));
    for section in &layout.sections {
        let align = if section.bytes < 4096 { 64 } else { 4096 };
        assert_eq!(section.offset % align, 0, "{}", section.named());
    }
}

proptest! {
    /// A flip without recomputed checksums is always detected.
    #[test]
    fn a_flipped_bit_is_found(place: prop::sample::Index, bit in 0..8_u8, which in 0..3_usize) {
        let (tiny, precision) = (Tiny::new(), Precision::ALL[which]);
        let mut bytes = packed(&tiny, precision);
        bytes[place.index(HEADER_BYTES + 60 * ENTRY_BYTES)] ^= 1_u8 << bit;
        prop_assert!(open(&tiny, &bytes, precision).is_err());
        let mut bytes = packed(&tiny, precision);
        let place = place.index(bytes.len());
        bytes[place] ^= 1_u8 << bit;
        prop_assert!(open(&tiny, &bytes, precision).is_err());
    }

    /// With recomputed checksums, a corrupt file is rejected or encodes; opening never panics.
    #[test]
    fn bent_weights_are_an_error_or_a_model(
        places: [(prop::sample::Index, u8, bool); 3],
        cut in prop::option::of(any::<prop::sample::Index>()),
        which in 0..3_usize,
    ) {
        let (tiny, precision) = (Tiny::new(), Precision::ALL[which]);
        let mut bytes = packed(&tiny, precision);
        for (place, value, in_head) in places {
            let end = if in_head { HEADER_BYTES + 60 * ENTRY_BYTES } else { bytes.len() };
            bytes[place.index(end)] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        reseal(&mut bytes);
        if let Ok(encoder) = open(&tiny, &bytes, precision) {
            vectors(&encoder);
        }
    }
}
