//! Any text under any settings: valid ids between the template tokens, cut off at the limit, and words independent of
//! the text on the other side of a space.

use std::sync::OnceLock;

use encoder::Encoder;
use serde_json::{Map, Value, json};

const CLS: u32 = 2;
const SEP: u32 = 3;
/// The first words are the special tokens of the model; some settings add more.
const WORDS: [&str; 36] = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "[SEP]]",
    "[S",
    "\u{e9}",
    "a",
    "b",
    "c",
    "ab",
    "abc",
    "##a",
    "##b",
    "##bc",
    "e",
    "##e",
    "##\u{e9}",
    "\u{4e2d}",
    "\u{1100}",
    "##\u{1161}",
    "##\u{302e}",
    "##\u{1b44}",
    "##\u{1d16d}",
    "\u{302e}",
    "\u{1b44}\u{302e}",
    "i",
    "##\u{307}",
    "\u{3c3}",
    "##\u{df}",
    "[",
    "]",
    "sep",
    "!",
];
const MORE_SPECIAL: std::ops::Range<usize> = 5..9;
/// Number of settings: one bit each for case, cleaning, ideographs, more special tokens and short words, two bits for
/// accents.
const SETTINGS: usize = 1 << 7;

fn model(settings: usize) -> &'static Encoder {
    static MODELS: [OnceLock<Encoder>; SETTINGS] = [const { OnceLock::new() }; SETTINGS];
    MODELS[settings].get_or_init(|| {
        let mut tokenizer = crate::model::tokenizer();
        let on = |bit: usize| settings >> bit & 1 == 1;
        let strip = [Value::Null, json!(false), json!(true), Value::Null][settings >> 5].clone();
        tokenizer["normalizer"] = json!({"type": "BertNormalizer", "clean_text": !on(1),
            "handle_chinese_chars": !on(2), "strip_accents": strip, "lowercase": !on(0)});
        let words: Map<String, Value> =
            WORDS.iter().enumerate().map(|(id, word)| ((*word).to_owned(), json!(id))).collect();
        tokenizer["model"]["vocab"] = Value::Object(words);
        tokenizer["model"]["max_input_chars_per_word"] = json!(if on(4) { 3 } else { 100 });
        if let (true, Some(special)) = (on(3), tokenizer["added_tokens"].as_array_mut()) {
            special.extend(MORE_SPECIAL.map(|id| json!({"id": id, "content": WORDS[id]})));
        }
        crate::model::with(&tokenizer, WORDS.len()).open().expect("a good model")
    })
}

/// Returns the ids of a text without its template tokens.
fn ids(model: &Encoder, text: &str) -> Vec<u32> {
    let ids = model.ids(text, usize::MAX);
    assert!(ids.len() >= 2 && ids[0] == CLS && ids[ids.len() - 1] == SEP, "{ids:?}");
    assert!(ids.iter().all(|id| (*id as usize) < WORDS.len()), "{ids:?}");
    assert_eq!(model.tokens(text), ids.len());
    ids[1..ids.len() - 1].to_vec()
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let [settings, limit, place, bytes @ ..] = data else { return };
    let text = String::from_utf8_lossy(bytes);
    let model = model(usize::from(*settings) % SETTINGS);
    let whole = ids(model, &text);

    let limit = usize::from(*limit);
    let cut = model.ids(&text, limit + 2);
    let wanted = whole.iter().take(limit).copied();
    let wanted: Vec<u32> = [CLS].into_iter().chain(wanted).chain([SEP]).collect();
    assert_eq!(cut, wanted, "cut off at {}", limit + 2);

    let mut place = usize::from(*place) * text.len() / 255;
    while !text.is_char_boundary(place) {
        place -= 1;
    }
    let (before, after) = text.split_at(place);
    let apart = [ids(model, before), ids(model, after)].concat();
    assert_eq!(ids(model, &format!("{before} {after}")), apart, "with a space at {place}");
}
