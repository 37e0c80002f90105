//! (tests) A tiny model: its files as bytes, and its reference vectors by plain f64 loops.

use std::collections::BTreeMap;

use kernels::f16;
use serde_json::{Value, json};

use crate::ModelFiles;

pub(crate) const HIDDEN: usize = 8;
pub(crate) const HEADS: usize = 2;
pub(crate) const LAYERS: usize = 3;
pub(crate) const INNER: usize = 20;
pub(crate) const POSITIONS: usize = 24;

/// The vocabulary, in order of ids.
pub(crate) const WORDS: &[&str] = &[
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "b",
    "un",
    "##aff",
    "##able",
    "cafe",
    "!",
    ".",
    "-",
    "\u{4e2d}",
    "\u{6587}",
    "##a",
    "##b",
    "caf\u{e9}",
    "[",
    "]",
    "sep",
    "\u{43c}\u{438}\u{440}",
];

/// Shape and values of a tensor.
type Tensor = (Vec<usize>, Vec<f32>);

/// A model that a test may modify before opening it.
pub(crate) struct Tiny {
    pub(crate) config: Value,
    pub(crate) tokenizer: Value,
    pub(crate) pooling: Option<Value>,
    pub(crate) sentence: Option<Value>,
    pub(crate) tensors: BTreeMap<String, Tensor>,
    /// Weights are written as F16.
    pub(crate) halves: bool,
}

pub(crate) struct TinyFiles {
    pub(crate) config: Vec<u8>,
    pub(crate) tokenizer: Vec<u8>,
    pub(crate) weights: Vec<u8>,
    pub(crate) pooling: Option<Vec<u8>>,
    pub(crate) sentence: Option<Vec<u8>>,
}

impl Tiny {
    pub(crate) fn new() -> Tiny {
        let config = json!({
            "model_type": "bert", "hidden_act": "gelu", "hidden_size": HIDDEN,
            "num_attention_heads": HEADS, "num_hidden_layers": LAYERS, "intermediate_size": INNER,
            "max_position_embeddings": POSITIONS, "vocab_size": WORDS.len(), "type_vocab_size": 2,
            "layer_norm_eps": 1e-12,
        });
        Tiny {
            config,
            tokenizer: tokenizer(),
            pooling: None,
            sentence: None,
            tensors: tensors(),
            halves: false,
        }
    }

    pub(crate) fn files(&self) -> TinyFiles {
        let bytes = |value: &Value| value.to_string().into_bytes();
        TinyFiles {
            config: bytes(&self.config),
            tokenizer: bytes(&self.tokenizer),
            weights: safetensors(&self.tensors, self.halves),
            pooling: self.pooling.as_ref().map(bytes),
            sentence: self.sentence.as_ref().map(bytes),
        }
    }

    /// Computes the vector of a text with these ids in f64, line by line as in the paper.
    pub(crate) fn meaning(&self, ids: &[u32], first_only: bool) -> Vec<f64> {
        let word = self.table("embeddings.word_embeddings.weight");
        let position = self.table("embeddings.position_embeddings.weight");
        let segment = self.table("embeddings.token_type_embeddings.weight");
        let mut state: Vec<Vec<f64>> = Vec::new();
        for (at, &id) in ids.iter().enumerate() {
            let sum = (0..HIDDEN).map(|i| word[id as usize][i] + position[at][i] + segment[0][i]);
            state.push(self.norm("embeddings.LayerNorm", &sum.collect::<Vec<_>>()));
        }
        for layer in 0..LAYERS {
            let name = |part: &str| format!("encoder.layer.{layer}.{part}");
            let project = |part: &str, rows: &[Vec<f64>]| -> Vec<Vec<f64>> {
                rows.iter().map(|row| self.dense(&name(part), row)).collect()
            };
            let q = project("attention.self.query", &state);
            let k = project("attention.self.key", &state);
            let v = project("attention.self.value", &state);
            for (at, row) in state.iter_mut().enumerate() {
                let gathered = attention(&q[at], &k, &v);
                let change = self.dense(&name("attention.output.dense"), &gathered);
                let sum: Vec<f64> = row.iter().zip(change).map(|(x, y)| x + y).collect();
                let row_now = self.norm(&name("attention.output.LayerNorm"), &sum);
                let opened = self.dense(&name("intermediate.dense"), &row_now);
                let inner: Vec<f64> = opened.iter().map(|&x| gelu(x)).collect();
                let change = self.dense(&name("output.dense"), &inner);
                let sum: Vec<f64> = row_now.iter().zip(change).map(|(x, y)| x + y).collect();
                *row = self.norm(&name("output.LayerNorm"), &sum);
            }
        }
        let kept = if first_only { &state[..1] } else { &state[..] };
        let pooled: Vec<f64> = (0..HIDDEN).map(|i| kept.iter().map(|row| row[i]).sum()).collect();
        let length = pooled.iter().map(|x| x * x).sum::<f64>().sqrt();
        pooled.iter().map(|x| x / length).collect()
    }

    fn table(&self, name: &str) -> Vec<Vec<f64>> {
        let (shape, values) = &self.tensors[name];
        let width = *shape.last().unwrap();
        values.chunks(width).map(|row| row.iter().map(|&x| f64::from(x)).collect()).collect()
    }

    fn dense(&self, name: &str, row: &[f64]) -> Vec<f64> {
        let bias = &self.table(&format!("{name}.bias"))[0];
        let weights = self.table(&format!("{name}.weight"));
        let sum = |w: &Vec<f64>| w.iter().zip(row).map(|(w, x)| w * x).sum::<f64>();
        weights.iter().zip(bias).map(|(w, b)| sum(w) + b).collect()
    }

    fn norm(&self, name: &str, row: &[f64]) -> Vec<f64> {
        let n = row.len() as f64;
        let mean = row.iter().sum::<f64>() / n;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let gain = &self.table(&format!("{name}.weight"))[0];
        let bias = &self.table(&format!("{name}.bias"))[0];
        let unit = row.iter().map(|x| (x - mean) / (variance + 1e-12).sqrt());
        unit.zip(gain).zip(bias).map(|((x, gain), bias)| x * gain + bias).collect()
    }
}

impl TinyFiles {
    pub(crate) fn borrowed(&self) -> ModelFiles<'_> {
        ModelFiles {
            config: &self.config,
            tokenizer: &self.tokenizer,
            weights: &self.weights,
            pooling: self.pooling.as_deref(),
            sentence: self.sentence.as_deref(),
            weights_sha256: None,
        }
    }
}

/// Softmax of one row's scores, times the values, for each head.
fn attention(q: &[f64], k: &[Vec<f64>], v: &[Vec<f64>]) -> Vec<f64> {
    let width = HIDDEN / HEADS;
    let mut gathered = vec![0.0; HIDDEN];
    for head in 0..HEADS {
        let part = head * width..(head + 1) * width;
        let score = |k: &Vec<f64>| {
            let dot: f64 = part.clone().map(|i| q[i] * k[i]).sum();
            (dot / (width as f64).sqrt()).exp()
        };
        let scores: Vec<f64> = k.iter().map(score).collect();
        let total: f64 = scores.iter().sum();
        for (score, v) in scores.iter().zip(v) {
            for i in part.clone() {
                gathered[i] += score / total * v[i];
            }
        }
    }
    gathered
}

/// `x` times the normal distribution's probability below `x`, by the power series.
fn gelu(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..100 {
        term *= x * x / f64::from(2 * n + 1);
        sum += term;
    }
    let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    x * (0.5 + density * sum)
}

fn tokenizer() -> Value {
    let vocabulary: BTreeMap<&str, usize> =
        WORDS.iter().enumerate().map(|(id, word)| (*word, id)).collect();
    let special: Vec<Value> = (0..5).map(|id| json!({"id": id, "content": WORDS[id]})).collect();
    json!({
        "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]"}}, {"Sequence": {"id": "A"}},
                {"SpecialToken": {"id": "[SEP]"}}],
            "special_tokens": {"[CLS]": {"ids": [2]}, "[SEP]": {"ids": [3]}}},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 10, "vocab": vocabulary},
    })
}

fn tensors() -> BTreeMap<String, Tensor> {
    let mut tensors = BTreeMap::new();
    let mut state = 0x5EED_u32;
    let mut add = |name: String, shape: &[usize]| {
        let count: usize = shape.iter().product();
        let values = (0..count).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let unit = f32::from(u16::try_from(state >> 16).unwrap()) / 32_768.0 - 1.0;
            // Exactly representable as f16, so that F16 files give the same vectors.
            f16::from_f32(unit).to_f32()
        });
        tensors.insert(name, (shape.to_vec(), values.collect()));
    };
    add("embeddings.word_embeddings.weight".into(), &[WORDS.len(), HIDDEN]);
    add("embeddings.position_embeddings.weight".into(), &[POSITIONS, HIDDEN]);
    add("embeddings.token_type_embeddings.weight".into(), &[2, HIDDEN]);
    let dense = ["attention.self.query", "attention.self.key", "attention.self.value"];
    let dense = dense.map(|part| (part, HIDDEN, HIDDEN)).into_iter().chain([
        ("attention.output.dense", HIDDEN, HIDDEN),
        ("intermediate.dense", INNER, HIDDEN),
        ("output.dense", HIDDEN, INNER),
    ]);
    let mut norms = vec!["embeddings.LayerNorm".to_owned()];
    for layer in 0..LAYERS {
        for (part, out, width) in dense.clone() {
            add(format!("encoder.layer.{layer}.{part}.weight"), &[out, width]);
            add(format!("encoder.layer.{layer}.{part}.bias"), &[out]);
        }
        norms.push(format!("encoder.layer.{layer}.attention.output.LayerNorm"));
        norms.push(format!("encoder.layer.{layer}.output.LayerNorm"));
    }
    for norm in norms {
        add(format!("{norm}.weight"), &[HIDDEN]);
        add(format!("{norm}.bias"), &[HIDDEN]);
    }
    tensors
}

/// Serializes a weights file by the description of the format.
pub(crate) fn safetensors(tensors: &BTreeMap<String, Tensor>, halves: bool) -> Vec<u8> {
    let mut header = json!({"__metadata__": {"format": "pt"}});
    let mut data: Vec<u8> = Vec::new();
    for (name, (shape, values)) in tensors {
        let start = data.len();
        for value in values {
            if halves {
                data.extend(f16::from_f32(*value).to_le_bytes());
            } else {
                data.extend(value.to_le_bytes());
            }
        }
        let dtype = if halves { "F16" } else { "F32" };
        let offsets = [start, data.len()];
        header[name] = json!({"dtype": dtype, "shape": shape, "data_offsets": offsets});
    }
    with_header(header.to_string().as_bytes(), &data)
}

/// Builds a weights file with any header and any data.
pub(crate) fn with_header(header: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend(data);
    bytes
}
