//! The encoder against the original model: the same token ids, and vectors of nearly the same direction.
//!
//! Golden data and their generation: tests/golden/make.py.

use std::fs;
use std::path::Path;

use encoder::{Encoder, Kernels, Level, Precision};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::original_model;

/// The scalar level encodes every fourth sentence.
const SCALAR_EACH: usize = 4;

/// Least cosine with the original for each vector, and least mean. Sums in another order, and weights rounded to f16,
/// stay far above the first.
fn cosines_min(precision: Precision) -> (f64, f64) {
    match precision {
        Precision::F32 | Precision::F16 => (0.99999, 0.99999),
        Precision::Int8 => (0.995, 0.999),
    }
}

/// The original model at every level of this CPU.
fn levels(precision: Precision) -> impl Iterator<Item = Encoder> {
    Level::ALL.iter().filter_map(move |&level| {
        let kernels = Kernels::for_level(level)?;
        Some(Encoder::open_as(&original_model::borrowed(), kernels, precision).unwrap())
    })
}

fn open() -> Encoder {
    Encoder::open(&original_model::borrowed()).unwrap()
}

fn golden(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name);
    let lines = fs::read_to_string(path).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(row: &Value) -> Vec<u32> {
    let ids = row["ids"].as_array().unwrap();
    ids.iter().map(|id| u32::try_from(id.as_u64().unwrap()).unwrap()).collect()
}

fn cosine(left: &[f32], right: &Value) -> f64 {
    let right: Vec<f64> = right.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    assert_eq!(left.len(), right.len());
    let dot: f64 = left.iter().zip(&right).map(|(l, r)| f64::from(*l) * r).sum();
    let left: f64 = left.iter().map(|x| f64::from(*x).powi(2)).sum();
    let right: f64 = right.iter().map(|x| x.powi(2)).sum();
    assert!((left.sqrt() - 1.0).abs() < 1e-6, "length {}", left.sqrt());
    dot / (left * right).sqrt()
}

#[test]
fn ids_are_those_of_the_original_tokenizer() {
    let encoder = open();
    for row in golden("tokens.jsonl").iter().chain(&golden("minilm.jsonl")) {
        let text = row["text"].as_str().unwrap();
        assert_eq!(encoder.ids(text, 256), ids(row), "{text:?}");
    }
}

#[test]
fn every_character_is_cut_up_as_by_the_original_tokenizer() {
    let encoder = open();
    for row in golden("characters.jsonl") {
        let first = u32::try_from(row["first"].as_u64().unwrap()).unwrap();
        let mut digest = Sha256::new();
        for c in (first..first + 256).filter_map(char::from_u32) {
            let ids = encoder.ids(&format!("x{c}y {c}"), usize::MAX);
            for id in &ids[1..ids.len() - 1] {
                digest.update(id.to_le_bytes());
            }
        }
        let digest: [u8; 32] = digest.finalize().into();
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, row["sha256"], "characters from U+{first:04X}");
    }
}

#[test]
fn vectors_are_those_of_the_original_model_at_every_level_and_precision() {
    let rows = golden("minilm.jsonl");
    for &precision in Precision::ALL {
        let (least, mean) = cosines_min(precision);
        for encoder in levels(precision) {
            let mut scratch = encoder.scratch();
            let mut vector = vec![0.0; encoder.dimensions()];
            // A sentence takes ten times as long, and the arithmetic is the same for all sentences.
            let each = if encoder.level() == Level::Scalar { SCALAR_EACH } else { 1 };
            let rows: Vec<&Value> = rows.iter().step_by(each).collect();
            let cosines: Vec<f64> = rows
                .iter()
                .map(|row| {
                    encoder.encode(&mut scratch, row["text"].as_str().unwrap(), &mut vector);
                    cosine(&vector, &row["vector"])
                })
                .collect();
            let (at, worst) =
                cosines.iter().enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap();
            let average = cosines.iter().sum::<f64>() / cosines.len() as f64;
            let what = format!("{:?} {precision:?}", encoder.level());
            println!("{what}: 1 - cosine {:.1e} at most, {:.1e} mean", 1.0 - worst, 1.0 - average);
            assert!(*worst >= least, "{what}: {worst} for {}", rows[at]["text"]);
            assert!(average >= mean, "{what}: {average} on average");
        }
    }
}

#[test]
fn a_vector_has_the_same_bits_in_any_company_and_with_any_number_of_threads() {
    let rows = golden("minilm.jsonl");
    let texts: Vec<&str> = rows.iter().map(|row| row["text"].as_str().unwrap()).collect();
    for &precision in Precision::ALL {
        let kernels = Kernels::detect();
        let encoder = Encoder::open_as(&original_model::borrowed(), kernels, precision).unwrap();
        let width = encoder.dimensions();
        let mut alone = vec![0.0; texts.len() * width];
        let mut scratch = encoder.scratch();
        for (text, vector) in texts.iter().zip(alone.chunks_exact_mut(width)) {
            encoder.encode(&mut scratch, text, vector);
        }
        let mut together = vec![0.0; texts.len() * width];
        for threads in [1, 2, 3] {
            encoder.encode_batch(&mut encoder.scratch_with(threads), &texts, &mut together);
            let same = alone.iter().zip(&together).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{precision:?} on {threads} threads");
        }
    }
}
