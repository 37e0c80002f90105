//! The encoder against the original model: the same token ids, and vectors that point the same way.
//!
//! Golden data and how they were made: golden/make.py.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use encoder::{Encoder, Kernels, Level};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tests::original_model;

/// How close to the original a vector must be. f32 sums in another order stay far above this.
const COSINE_MIN: f64 = 0.99999;

fn open(level: Level) -> Option<Encoder> {
    let kernels = Kernels::for_level(level)?;
    Some(Encoder::open_with(&original_model::borrowed(), kernels).unwrap())
}

fn golden(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
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
    let encoder = open(Level::Scalar).unwrap();
    for row in golden("tokens.jsonl").iter().chain(&golden("minilm.jsonl")) {
        let text = row["text"].as_str().unwrap();
        assert_eq!(encoder.ids(text, 256), ids(row), "{text:?}");
    }
}

#[test]
fn every_character_is_cut_up_as_by_the_original_tokenizer() {
    let encoder = open(Level::Scalar).unwrap();
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
fn vectors_are_those_of_the_original_model_at_every_level() {
    for level in Level::ALL {
        let Some(encoder) = open(*level) else { continue };
        let mut scratch = encoder.scratch();
        let mut vector = vec![0.0; encoder.dimensions()];
        let mut worst = (1.0, String::new());
        for row in golden("minilm.jsonl") {
            let text = row["text"].as_str().unwrap();
            encoder.encode(&mut scratch, text, &mut vector);
            let cosine = cosine(&vector, &row["vector"]);
            assert!(cosine >= COSINE_MIN, "{level:?} {text:?}: cosine {cosine}");
            if cosine < worst.0 {
                worst = (cosine, text.chars().take(40).collect());
            }
        }
        println!("{level:?}: worst cosine 1 - {:.1e} for {:?}", 1.0 - worst.0, worst.1);
    }
}

#[test]
fn a_vector_has_the_same_bits_in_any_company() {
    let rows = golden("minilm.jsonl");
    let texts: Vec<&str> = rows.iter().map(|row| row["text"].as_str().unwrap()).collect();
    let encoder = open(Level::ALL[0]).unwrap_or_else(|| open(Level::Scalar).unwrap());
    let width = encoder.dimensions();
    let mut scratch = encoder.scratch();
    let mut together = vec![0.0; texts.len() * width];
    encoder.encode_batch(&mut scratch, &texts, &mut together);
    let mut alone = vec![0.0; width];
    for (text, batched) in texts.iter().zip(together.chunks(width)) {
        encoder.encode(&mut scratch, text, &mut alone);
        let same = alone.iter().zip(batched).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{text:?} differs in a batch");
    }
}
