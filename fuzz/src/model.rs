//! A tiny model: a few words, wide enough for a forward pass.

use encoder::{Encoder, ModelFiles};
use serde_json::{Value, json};

const HIDDEN: usize = 8;
const INNER: usize = 16;
const POSITIONS: usize = 12;
const WORDS: [&str; 12] =
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "a", "b", "##c", "."];

/// The files of the model.
pub struct Files {
    /// Contents of `config.json`.
    pub config: Vec<u8>,
    /// Contents of `tokenizer.json`.
    pub tokenizer: Vec<u8>,
    /// Contents of `model.safetensors`.
    pub weights: Vec<u8>,
}

impl Files {
    /// Opens the model.
    pub fn open(&self) -> Result<Encoder, encoder::OpenError> {
        Encoder::open(&self.borrowed())
    }

    /// Borrows the files for the encoder.
    pub fn borrowed(&self) -> ModelFiles<'_> {
        ModelFiles {
            config: &self.config,
            tokenizer: &self.tokenizer,
            weights: &self.weights,
            pooling: None,
            sentence: None,
            weights_sha256: None,
        }
    }
}

/// Number of words of the vocabulary.
pub fn words() -> usize {
    WORDS.len()
}

/// Makes a valid model.
pub fn good() -> Files {
    with(&tokenizer(), WORDS.len())
}

/// Makes a valid model around a tokenizer with ids below `words`.
pub fn with(tokenizer: &Value, words: usize) -> Files {
    let config = json!({
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": HIDDEN,
        "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS, "vocab_size": words, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
    });
    Files {
        config: config.to_string().into_bytes(),
        tokenizer: tokenizer.to_string().into_bytes(),
        weights: weights(words),
    }
}

/// Contents of `tokenizer.json` as a JSON value.
pub fn tokenizer() -> Value {
    let vocabulary: serde_json::Map<String, Value> =
        WORDS.iter().enumerate().map(|(id, word)| ((*word).to_owned(), json!(id))).collect();
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

fn weights(words: usize) -> Vec<u8> {
    let mut header = json!({"__metadata__": {"format": "pt"}});
    let mut data: Vec<u8> = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        let start = data.len();
        for at in 0..shape.iter().product::<usize>() {
            let value = (at % 7) as f32 / 8.0 - 0.375;
            data.extend(value.to_le_bytes());
        }
        header[name] = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
    };
    add("embeddings.word_embeddings.weight".into(), &[words, HIDDEN]);
    add("embeddings.position_embeddings.weight".into(), &[POSITIONS, HIDDEN]);
    add("embeddings.token_type_embeddings.weight".into(), &[2, HIDDEN]);
    for (part, out, width) in [
        ("attention.self.query", HIDDEN, HIDDEN),
        ("attention.self.key", HIDDEN, HIDDEN),
        ("attention.self.value", HIDDEN, HIDDEN),
        ("attention.output.dense", HIDDEN, HIDDEN),
        ("intermediate.dense", INNER, HIDDEN),
        ("output.dense", HIDDEN, INNER),
    ] {
        add(format!("encoder.layer.0.{part}.weight"), &[out, width]);
        add(format!("encoder.layer.0.{part}.bias"), &[out]);
    }
    for norm in [
        "embeddings.LayerNorm",
        "encoder.layer.0.attention.output.LayerNorm",
        "encoder.layer.0.output.LayerNorm",
    ] {
        add(format!("{norm}.weight"), &[HIDDEN]);
        add(format!("{norm}.bias"), &[HIDDEN]);
    }
    let header = header.to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}
