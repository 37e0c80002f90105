//! Tiny models made at run time, as folders that the program accepts: letters in, vectors of any width out. The vectors
//! are meaningless, but equal texts always have equal vectors.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::service::write;

/// Special tokens before the letters: `[PAD]`, `[UNK]`, `[CLS]`, `[SEP]`, `[MASK]`.
const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const POSITIONS: usize = 128;
const HEADS: usize = 2;

/// Parameters of a model: different parameters give different models.
#[derive(Debug, Clone, Copy)]
pub struct Tiny {
    /// Seed of the weights.
    pub seed: u32,
    /// Width of the vectors; even.
    pub width: usize,
    /// Number of layers, which decides the speed.
    pub layers: usize,
    /// Token limit, at most [`Tiny::TOKENS_MAX`]. Part of the fingerprint, though vectors of shorter texts do not
    /// depend on it.
    pub tokens: usize,
}

impl Tiny {
    /// Largest token limit of a model.
    pub const TOKENS_MAX: usize = POSITIONS;

    /// Makes a model of one layer with the largest token limit.
    pub fn new(seed: u32, width: usize) -> Self {
        Self { seed, width, layers: 1, tokens: POSITIONS }
    }

    /// Writes the model's files into a folder of this name, and returns its path.
    pub fn write(self, folder: &Path, name: &str) -> PathBuf {
        let folder = folder.join(name);
        write(&folder, "config.json", self.config().to_string());
        write(&folder, "tokenizer.json", tokenizer().to_string());
        write(&folder, "model.safetensors", self.weights());
        let sentence = json!({"max_seq_length": self.tokens, "do_lower_case": false});
        write(&folder, "sentence_bert_config.json", sentence.to_string());
        folder
    }

    fn config(self) -> Value {
        json!({
            "model_type": "bert", "hidden_act": "gelu", "hidden_size": self.width,
            "num_attention_heads": HEADS, "num_hidden_layers": self.layers,
            "intermediate_size": 2 * self.width, "max_position_embeddings": POSITIONS,
            "vocab_size": words().len(), "type_vocab_size": 2, "layer_norm_eps": 1e-12,
        })
    }

    fn weights(self) -> Vec<u8> {
        let (mut header, mut data, mut state) = (json!({}), Vec::new(), self.seed);
        let mut add = |name: String, shape: &[usize]| {
            let start = data.len();
            for _ in 0..shape.iter().product::<usize>() {
                // A linear congruential generator (Numerical Recipes): any numbers will do.
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let high = u16::try_from(state >> 16).expect("16 bits are left");
                data.extend((f32::from(high) / 32_768.0 - 1.0).to_le_bytes());
            }
            header[name] =
                json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        };
        let width = self.width;
        add("embeddings.word_embeddings.weight".to_owned(), &[words().len(), width]);
        add("embeddings.position_embeddings.weight".to_owned(), &[POSITIONS, width]);
        add("embeddings.token_type_embeddings.weight".to_owned(), &[2, width]);
        let mut norms = vec!["embeddings.LayerNorm".to_owned()];
        for layer in 0..self.layers {
            let name = |part: &str| format!("encoder.layer.{layer}.{part}");
            for (part, out, of) in [
                ("attention.self.query", width, width),
                ("attention.self.key", width, width),
                ("attention.self.value", width, width),
                ("attention.output.dense", width, width),
                ("intermediate.dense", 2 * width, width),
                ("output.dense", width, 2 * width),
            ] {
                add(name(&format!("{part}.weight")), &[out, of]);
                add(name(&format!("{part}.bias")), &[out]);
            }
            norms.extend(["attention.output.LayerNorm", "output.LayerNorm"].map(name));
        }
        for norm in norms {
            add(format!("{norm}.weight"), &[width]);
            add(format!("{norm}.bias"), &[width]);
        }
        let header = header.to_string();
        let length = (header.len() as u64).to_le_bytes();
        [&length[..], header.as_bytes(), &data].concat()
    }
}

fn words() -> Vec<String> {
    let first = LETTERS.chars().map(String::from);
    let later = LETTERS.chars().map(|letter| format!("##{letter}"));
    SPECIAL.iter().map(|word| (*word).to_owned()).chain(first).chain(later).collect()
}

fn tokenizer() -> Value {
    let vocabulary: Map<String, Value> =
        words().into_iter().enumerate().map(|(id, word)| (word, json!(id))).collect();
    let special = (0..).zip(SPECIAL).map(|(id, word): (u32, _)| json!({"id": id, "content": word}));
    json!({
        "added_tokens": special.collect::<Vec<_>>(),
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]"}}, {"Sequence": {"id": "A"}},
                {"SpecialToken": {"id": "[SEP]"}}],
            "special_tokens": {"[CLS]": {"ids": [2]}, "[SEP]": {"ids": [3]}}},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary},
    })
}
