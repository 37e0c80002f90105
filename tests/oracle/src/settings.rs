//! The settings of the comparison: the published `tokenizer.json`, and variants with other switches and another
//! vocabulary.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

/// A tokenizer to compare.
pub struct Setting {
    /// Names of the changed switches.
    pub name: String,
    /// The file without the normalizer.
    base: Arc<Value>,
    normalizer: Value,
    /// Bound of all ids.
    pub ids: usize,
    /// Scalar values to test in their contexts.
    pub scalars: Scalars,
    /// True if documents are tested.
    pub documents: bool,
    /// True if long texts are tested.
    pub large: bool,
}

impl Setting {
    /// Returns the whole file.
    pub fn tokenizer(&self) -> Value {
        let mut tokenizer = Value::clone(&self.base);
        tokenizer["normalizer"] = self.normalizer.clone();
        tokenizer
    }
}

/// Selection of scalar values.
#[derive(Clone, Copy)]
pub enum Scalars {
    /// No scalar values.
    None,
    /// All assigned values unlike their neighbours, and the edges of unassigned ranges.
    Assigned,
    /// All scalar values.
    All,
}

/// Switch settings of a short run besides the published ones: each switch is changed in one of them.
const FEW: [usize; 4] = [1, 6, 15, 16];
/// Longest word of the letter vocabulary, in characters: the largest limit of our tokenizer.
const WORD_CHARS_MAX: usize = 1000;

/// Returns all settings, or a few for a short run.
pub fn all(published: &Value, short: bool) -> Vec<Setting> {
    let mut settings = Vec::new();
    let letters = Arc::new(of_letters(published));
    let published = Arc::new(published.clone());
    for switches in 0..24_usize {
        let on = |bit: usize| switches >> bit & 1 == 1;
        let strip = [Value::Null, json!(false), json!(true)][switches / 8].clone();
        let (lowercase, clean, split) = (!on(0), !on(1), !on(2));
        for (kind, base) in [("published", &published), ("letters", &letters)] {
            let few = switches == 0 || kind == "letters" && FEW.contains(&switches);
            if short && !few {
                continue;
            }
            let scalars = match kind {
                _ if switches == 0 && !short => Scalars::All,
                _ if switches == 0 => Scalars::Assigned,
                "letters" if !short => Scalars::Assigned,
                _ => Scalars::None,
            };
            settings.push(Setting {
                name: format!(
                    "{kind} lowercase={lowercase} strip_accents={strip} clean_text={clean} \
                     handle_chinese_chars={split}"
                ),
                ids: words(base),
                base: Arc::clone(base),
                normalizer: json!({
                    "type": "BertNormalizer", "lowercase": lowercase, "clean_text": clean,
                    "handle_chinese_chars": split, "strip_accents": strip,
                }),
                scalars,
                documents: switches == 0,
                large: switches == 0 && (kind == "published" || !short),
            });
        }
    }
    settings.push(with_odd_tokens(&published));
    settings
}

/// Number of words of a tokenizer.
fn words(tokenizer: &Value) -> usize {
    tokenizer["model"]["vocab"].as_object().map_or(0, Map::len)
}

/// Returns the published tokenizer with more special tokens. Some consist of letters, or of characters that are
/// otherwise dropped or normalized; one is a prefix of another; one has another id than its word. The word limit is
/// short.
fn with_odd_tokens(published: &Value) -> Setting {
    let mut tokenizer = published.clone();
    tokenizer["model"]["max_input_chars_per_word"] = json!(7);
    let mut ids = words(published);
    if let Some(tokens) = tokenizer["added_tokens"].as_array_mut() {
        let mut add = |content: &str, id: usize| {
            let mut token = tokens[0].clone();
            token["content"] = json!(content);
            token["id"] = json!(id);
            tokens.push(token);
        };
        add("the", 7);
        for new in [
            "[SEP]]",
            "[S",
            "[SE",
            "\u{e9}",
            "e\u{301}",
            "\u{4e2d}",
            "a\u{0}",
            "\u{200b}",
            " \u{ff3b}",
        ] {
            // The reference itself numbers the tokens that are no words, in file order.
            add(new, ids);
            ids += usize::from(published["model"]["vocab"][new].is_null());
        }
    }
    let name = "published with odd special tokens and short words".to_owned();
    let normalizer = tokenizer["normalizer"].clone();
    let base = Arc::new(tokenizer);
    let scalars = Scalars::None;
    Setting { name, base, normalizer, ids, scalars, documents: true, large: false }
}

/// The published words, without continuation prefixes.
pub fn plain_words(published: &Value) -> Vec<String> {
    let vocabulary = published["model"]["vocab"].as_object();
    let words = vocabulary.into_iter().flatten();
    words.map(|(word, _)| word.trim_start_matches("##").to_owned()).collect()
}

/// Returns the published tokenizer with another vocabulary: nearly every scalar value is a word, at the start and as a
/// continuation, so that no difference of normalization is hidden by `[UNK]`.
fn of_letters(published: &Value) -> Value {
    let mut tokenizer = published.clone();
    let mut words: BTreeSet<String> = BTreeSet::new();
    let blocks: [(u32, u32); 9] = [
        (0x20, 0x33FF),
        (0x4E00, 0x4FFF),
        (0xA000, 0xABFF),
        (0xAC00, 0xACFF),
        (0xE000, 0xE010),
        (0xF900, 0xFFFF),
        (0x10000, 0x1FFFF),
        (0x2F800, 0x2FA1F),
        (0xE0000, 0xE01FF),
    ];
    for c in blocks.into_iter().flat_map(|(first, last)| first..=last).filter_map(char::from_u32) {
        words.insert(c.to_string());
        words.insert(format!("##{c}"));
    }
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    let words = special.into_iter().map(str::to_owned).chain(words);
    let vocabulary: Map<String, Value> =
        words.enumerate().map(|(id, word)| (word, json!(id))).collect();
    for token in tokenizer["added_tokens"].as_array_mut().into_iter().flatten() {
        token["id"] = vocabulary[token["content"].as_str().unwrap_or("[UNK]")].clone();
    }
    for name in ["[CLS]", "[SEP]"] {
        tokenizer["post_processor"]["special_tokens"][name]["ids"] = json!([vocabulary[name]]);
    }
    tokenizer["model"]["max_input_chars_per_word"] = json!(WORD_CHARS_MAX);
    tokenizer["model"]["vocab"] = Value::Object(vocabulary);
    tokenizer
}
