//! Text to token ids: BERT normalization, then WordPiece (Devlin et al. 2018, section 3; Wu et al. 2016), exactly as
//! the published `tokenizer.json` configures them.
//!
//! The tokenizer makes one pass over the characters, with memory for a single word. Special tokens are found in the raw
//! text. The text between them is cleaned, decomposed, stripped of accents, lowercased and split into words, and each
//! word into the longest pieces of the vocabulary. The token limit ends the pass, so the cost of a long text is that of
//! its first tokens.

use unicode_normalization::char::{canonical_combining_class, decompose_canonical};

use crate::OpenError;
use crate::classes::{Class, Classes};
use crate::config::Settings;
use crate::files::TOKENIZER;
use crate::tokenizer_file::{read_frame, read_special, read_vocabulary};
use crate::vocabulary::{Node, ROOT, Vocabulary};

/// Largest word limit that a tokenizer may set, in characters.
pub(crate) const WORD_CHARS_MAX: usize = 1000;

pub(crate) struct Tokenizer {
    vocabulary: Vocabulary,
    /// Trie node at which the second and later pieces of a word start; none if no entry has the continuation prefix.
    continuation: Option<Node>,
    /// Special tokens, which are found in the raw text.
    special: Vocabulary,
    /// ASCII bytes that are always part of a word, in any context.
    joining: [bool; 256],
    classes: &'static Classes,
    /// Template tokens before and after the text: `[CLS]` and `[SEP]`.
    before: Vec<u32>,
    after: Vec<u32>,
    unknown: u32,
    word_chars_max: usize,
    clean: bool,
    split_ideographs: bool,
    strip_accents: bool,
    lowercase: bool,
}

/// The memory of one pass, reused between passes.
pub(crate) struct Buffers {
    /// The word in progress, normalized.
    word: String,
    /// Combining marks that stay, not yet in canonical order, each with its combining class.
    run: Vec<(u8, char)>,
}

impl Buffers {
    pub(crate) fn new() -> Buffers {
        // A word stops growing at its limit, in characters of at most four bytes.
        Buffers {
            word: String::with_capacity(4 * (WORD_CHARS_MAX + 1)),
            run: Vec::with_capacity(WORD_CHARS_MAX + 1),
        }
    }
}

impl Tokenizer {
    /// Reads `tokenizer.json`. `ids_max` is the number of rows of the model's word table.
    pub(crate) fn open(
        bytes: &[u8],
        ids_max: usize,
        lowercase: bool,
    ) -> Result<Tokenizer, OpenError> {
        let settings = Settings::parse(TOKENIZER, bytes)?;
        settings.text("model.type", None, &["WordPiece"])?;
        settings.text("normalizer.type", None, &["BertNormalizer"])?;
        settings.text("pre_tokenizer.type", None, &["BertPreTokenizer"])?;
        let vocabulary = read_vocabulary(&settings, ids_max)?;
        let prefix = settings.at("model.continuing_subword_prefix").as_str().unwrap_or("##");
        let unknown = settings.at("model.unk_token").as_str().unwrap_or("[UNK]");
        let Some(unknown) = vocabulary.find(unknown.as_bytes()) else {
            let wanted = "a word of the vocabulary".into();
            return Err(settings.unsupported("model.unk_token", unknown, wanted));
        };
        let special = read_special(&settings, &vocabulary, ids_max)?;
        let (before, after) = read_frame(&settings, ids_max)?;
        let classes = Classes::all();
        let mut joining = [false; 256];
        for byte in 0..=0x7F {
            let class = classes.of(char::from(byte));
            let joins = !class.has(Class::SPACE) && !class.has(Class::PUNCTUATION);
            let is_special = special.walk(&[byte]).is_some();
            joining[usize::from(byte)] = joins && !class.has(Class::DROPPED) && !is_special;
        }
        let lowers = settings.flag_if_present("normalizer.lowercase")?.unwrap_or(true);
        Ok(Tokenizer {
            continuation: vocabulary.walk(prefix.as_bytes()),
            vocabulary,
            special,
            joining,
            classes,
            before,
            after,
            unknown,
            word_chars_max: settings.count(
                "model.max_input_chars_per_word",
                Some(100),
                1..=WORD_CHARS_MAX,
            )?,
            clean: settings.flag_if_present("normalizer.clean_text")?.unwrap_or(true),
            split_ideographs: settings
                .flag_if_present("normalizer.handle_chinese_chars")?
                .unwrap_or(true),
            strip_accents: settings.flag_if_present("normalizer.strip_accents")?.unwrap_or(lowers),
            lowercase: lowers || lowercase,
        })
    }

    /// Number of template tokens, which is the fewest tokens of a text.
    pub(crate) fn frame(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Replaces `ids` by the ids of `text` with template tokens, cut off at `tokens_max`. Reads no more of the text
    /// than that needs.
    pub(crate) fn encode(
        &self,
        text: &str,
        tokens_max: usize,
        buffers: &mut Buffers,
        ids: &mut Vec<u32>,
    ) {
        ids.clear();
        ids.extend_from_slice(&self.before);
        let room = tokens_max.saturating_sub(self.after.len()).max(ids.len());
        Pass { tokenizer: self, limit: room, buffers, ids }.run(text);
        ids.truncate(room);
        ids.extend_from_slice(&self.after);
    }

    /// Byte length above which a word has too many characters in any case.
    fn word_bytes_max(&self) -> usize {
        4 * self.word_chars_max
    }
}

/// State of tokenizing one text.
struct Pass<'a> {
    tokenizer: &'a Tokenizer,
    /// The pass ends once there are this many ids.
    limit: usize,
    buffers: &'a mut Buffers,
    ids: &'a mut Vec<u32>,
}

impl Pass<'_> {
    fn run(&mut self, text: &str) {
        self.buffers.word.clear();
        self.buffers.run.clear();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if self.ids.len() >= self.limit {
                return;
            }
            let joining =
                rest.bytes().take_while(|&byte| self.tokenizer.joining[usize::from(byte)]);
            let joining = joining.count();
            if joining > 0 {
                self.join(&rest[..joining]);
                rest = &rest[joining..];
            } else if let Some((taken, id)) = self.tokenizer.special.longest(ROOT, rest.as_bytes())
            {
                self.end_word();
                self.ids.push(id);
                rest = &rest[taken..];
            } else {
                self.one(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        self.end_word();
    }

    /// Appends ASCII characters to the word.
    fn join(&mut self, letters: &str) {
        self.end_run();
        let word = &mut self.buffers.word;
        let start = word.len();
        let room = (self.tokenizer.word_bytes_max() + 1).saturating_sub(start);
        word.push_str(&letters[..letters.len().min(room)]);
        if self.tokenizer.lowercase {
            word[start..].make_ascii_lowercase();
        }
    }

    /// Handles the next character of the raw text.
    fn one(&mut self, c: char) {
        let class = self.tokenizer.classes.of(c);
        if self.tokenizer.clean && class.has(Class::DROPPED) {
            // Removed without a trace: "a\0b" is the word "ab".
        } else if class.has(Class::SPACE) {
            self.end_word();
        } else if self.tokenizer.split_ideographs && class.has(Class::IDEOGRAPH) {
            self.end_word();
            self.decomposed(c, class);
            self.end_word();
        } else {
            self.decomposed(c, class);
        }
    }

    /// Canonical decomposition, as far as it is visible after accents are stripped.
    fn decomposed(&mut self, c: char, class: Class) {
        if !self.tokenizer.strip_accents {
            self.lowered(c, class);
        } else if !class.has(Class::NORMALISED) {
            self.starter(c, class);
        } else {
            decompose_canonical(c, |part| {
                let class = self.tokenizer.classes.of(part);
                if class.has(Class::NORMALISED) {
                    self.mark(part, class);
                } else {
                    self.starter(part, class);
                }
            });
        }
    }

    /// Handles a character of combining class zero, which marks do not move across.
    fn starter(&mut self, c: char, class: Class) {
        self.end_run();
        if !class.has(Class::ACCENT) {
            self.lowered(c, class);
        }
    }

    /// A mark of another class is reordered with the marks around it. An accent is dropped before its order matters.
    /// Other marks are buffered, up to the length limit of a word: none of them ends a word, so a longer run makes the
    /// word unknown in any order.
    fn mark(&mut self, c: char, class: Class) {
        let run = &mut self.buffers.run;
        if !class.has(Class::ACCENT) && run.len() <= self.tokenizer.word_chars_max {
            run.push((canonical_combining_class(c), c));
        }
    }

    /// Flushes the marks by ascending class, and in text order within a class.
    fn end_run(&mut self) {
        if self.buffers.run.is_empty() {
            return;
        }
        let run = std::mem::take(&mut self.buffers.run);
        let mut done = 0;
        // The loop runs once for each class present: the marks that stay have six classes.
        while let Some(next) = run.iter().map(|mark| mark.0).filter(|&class| class > done).min() {
            for &(_, c) in run.iter().filter(|mark| mark.0 == next) {
                self.lowered(c, self.tokenizer.classes.of(c));
            }
            done = next;
        }
        // Returns the buffer, for the next run.
        self.buffers.run = run;
        self.buffers.run.clear();
    }

    fn lowered(&mut self, c: char, class: Class) {
        if self.tokenizer.lowercase && class.has(Class::CASED) {
            c.to_lowercase().for_each(|c| self.letter(c, self.tokenizer.classes.of(c)));
        } else {
            self.letter(c, class);
        }
    }

    /// Handles a normalized character: it ends the word, is a word of its own, or extends the word.
    fn letter(&mut self, c: char, class: Class) {
        if class.has(Class::SPACE) {
            self.end_letters();
        } else if class.has(Class::PUNCTUATION) {
            self.end_letters();
            self.buffers.word.push(c);
            self.end_letters();
        } else if self.buffers.word.len() <= self.tokenizer.word_bytes_max() {
            self.buffers.word.push(c);
        }
    }

    fn end_word(&mut self) {
        self.end_run();
        self.end_letters();
    }

    /// Splits the word into the longest pieces from left to right; if any rest has no piece, the whole word is unknown.
    fn end_letters(&mut self) {
        if self.buffers.word.is_empty() {
            return;
        }
        let before = self.ids.len();
        if !self.pieces() {
            self.ids.truncate(before);
            self.ids.push(self.tokenizer.unknown);
        }
        self.buffers.word.clear();
    }

    /// Pushes the pieces of the word; returns false if the word is too long or a rest has no piece.
    fn pieces(&mut self) -> bool {
        let word = &self.buffers.word;
        if word.chars().count() > self.tokenizer.word_chars_max {
            return false;
        }
        let mut rest = word.as_bytes();
        let mut from = Some(ROOT);
        while !rest.is_empty() {
            let found = from.and_then(|node| self.tokenizer.vocabulary.longest(node, rest));
            let Some((taken, id)) = found else { return false };
            self.ids.push(id);
            rest = &rest[taken..];
            from = self.tokenizer.continuation;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::Remedy;
    use crate::tiny::{Tiny, WORDS};

    fn open(tiny: &Tiny) -> Result<Tokenizer, OpenError> {
        Tokenizer::open(tiny.tokenizer.to_string().as_bytes(), WORDS.len(), false)
    }

    fn tokenizer(tiny: &Tiny) -> Tokenizer {
        open(tiny).unwrap()
    }

    /// Corrupts one setting.
    type Bend = fn(&mut Value);

    #[test]
    fn what_is_not_supported_is_named() {
        let cases: &[(Bend, &str)] = &[
            (
                |t| t["model"]["type"] = json!("BPE"),
                "model.type to \"BPE\"; supported is WordPiece",
            ),
            (|t| t["normalizer"] = json!(null), "normalizer.type to nothing"),
            (|t| t["pre_tokenizer"]["type"] = json!("ByteLevel"), "pre_tokenizer.type"),
            (|t| t["model"]["vocab"] = json!([]), "model.vocab to a list of 0 items"),
            (|t| t["model"]["vocab"]["a"] = json!(99), "ids below the model's vocab_size 23"),
            (|t| t["model"]["vocab"]["a"] = json!(-1), "model.vocab to -1"),
            (|t| t["model"]["unk_token"] = json!("nope"), "a word of the vocabulary"),
            (|t| t["model"]["max_input_chars_per_word"] = json!(0), "from 1 to 1000"),
            (|t| t["added_tokens"][0]["lstrip"] = json!(true), "lstrip for \"[PAD]\""),
            (|t| t["added_tokens"][0]["content"] = json!(""), "tokens with a content"),
            (|t| t["added_tokens"] = json!(vec![1; 1025]), "at most 1024 tokens"),
            (|t| t["post_processor"]["single"] = json!([]), "the text once"),
            (|t| t["post_processor"]["special_tokens"] = json!({}), "post_processor.single"),
            (|t| t["post_processor"]["type"] = json!("Roberta"), "BertProcessing"),
        ];
        for (bend, wanted) in cases {
            let mut tiny = Tiny::new();
            bend(&mut tiny.tokenizer);
            let error = open(&tiny).map(|_| ()).unwrap_err();
            assert_eq!(error.remedy(), Remedy::ChooseAnother);
            assert!(error.to_string().contains(wanted), "{error} lacks {wanted:?}");
        }
    }

    /// Returns the ids of a text between `[CLS]` and `[SEP]`.
    fn ids(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        tokenizer.encode(text, usize::MAX, &mut Buffers::new(), &mut ids);
        assert_eq!((ids.first(), ids.last()), (Some(&2), Some(&3)));
        ids[1..ids.len() - 1].to_vec()
    }

    fn words(ids: &[u32]) -> Vec<&'static str> {
        ids.iter().map(|&id| WORDS[id as usize]).collect()
    }

    #[test]
    fn text_is_cut_up_by_the_rules() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            (" \t\r\n\u{a0}\u{2028}", &[]),
            ("unaffable", &["un", "##aff", "##able"]),
            ("UNaffABLE un", &["un", "##aff", "##able", "un"]),
            ("unknown", &["[UNK]"]),
            ("a!b..", &["a", "!", "b", ".", "."]),
            ("a\u{0}b c\u{7}", &["a", "##b", "[UNK]"]),
            ("a\u{200b}b", &["a", "##b"]),
            ("a\u{b}b", &["a", "##b"]),
            ("Caf\u{e9} CAFE\u{301}", &["cafe", "cafe"]),
            ("a\u{4e2d}\u{6587}b", &["a", "\u{4e2d}", "\u{6587}", "b"]),
            ("\u{41c}\u{418}\u{420}", &["\u{43c}\u{438}\u{440}"]),
            ("a[SEP]b", &["a", "[SEP]", "b"]),
            ("[SEP[MASK]", &["[", "sep", "[MASK]"]),
            ("[sep]", &["[", "sep", "]"]),
            ("caf[SEP]\u{301}e", &["[UNK]", "[SEP]", "[UNK]"]),
            ("abababababa", &["[UNK]"]),
            ("ababababab", &["a", "##b", "##a", "##b", "##a", "##b", "##a", "##b", "##a", "##b"]),
        ];
        let tokenizer = tokenizer(&Tiny::new());
        for (text, wanted) in cases {
            assert_eq!(words(&ids(&tokenizer, text)), *wanted, "{text:?}");
        }
    }

    #[test]
    fn each_normalisation_can_be_switched_off() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("lowercase", "A a", &["[UNK]", "a"]),
            ("strip_accents", "CAF\u{c9}", &["caf\u{e9}"]),
            ("clean_text", "a\u{200b}b a\u{b}b", &["[UNK]", "a", "b"]),
            ("handle_chinese_chars", "\u{4e2d}\u{6587}", &["[UNK]"]),
        ];
        for (setting, text, wanted) in cases {
            let mut tiny = Tiny::new();
            tiny.tokenizer["normalizer"][*setting] = json!(false);
            assert_eq!(words(&ids(&tokenizer(&tiny), text)), *wanted, "{setting} off");
        }
    }

    #[test]
    fn the_older_frame_is_read_too() {
        let mut tiny = Tiny::new();
        let frame = json!({"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]});
        tiny.tokenizer["post_processor"] = frame;
        assert_eq!(words(&ids(&tokenizer(&tiny), "a")), ["a"]);
    }

    /// U+302E and U+1D16D have classes 224 and 226 and stay, U+1B44 has class 9 and stays, U+301 has class 230 and is
    /// dropped, U+34F has class 0 and is dropped.
    #[test]
    fn marks_are_put_in_order_as_the_reference_knows_them() {
        const WORD: &str = "\u{1b44}\u{302e}\u{1d16d}";
        let many = "\u{301}".repeat(1000);
        let cases: &[(&str, &str)] = &[
            (WORD, WORD),
            ("\u{1d16d}\u{302e}\u{1b44}", WORD),
            ("\u{302e}\u{301}\u{1d16d}\u{200b}\u{1b44}\u{0}", WORD),
            (&format!("\u{302e}{many}\u{1d16d}{many}\u{1b44}"), WORD),
            ("\u{302e}\u{34f}\u{1b44}", "\u{302e}\u{1b44}"),
            ("\u{302e} \u{1b44}", "\u{302e}|\u{1b44}"),
            ("\u{302e}[SEP]\u{1b44}", "\u{302e}|[SEP]|\u{1b44}"),
            ("\u{302e}a\u{1b44}", "\u{302e}a\u{1b44}"),
            // Marks of a later Unicode version: to the reference they are letters.
            ("\u{302e}\u{897}\u{1b44}", "\u{302e}\u{897}\u{1b44}"),
            ("\u{1d16d}\u{5c9}", "\u{1d16d}\u{5c9}"),
            // A letter that a later Unicode version decomposes.
            ("\u{105c9}", "\u{105c9}"),
        ];
        for (text, wanted) in cases {
            let mut tiny = Tiny::new();
            let words: Vec<&str> = wanted.split('|').collect();
            let vocabulary = &mut tiny.tokenizer["model"]["vocab"];
            *vocabulary = json!({"[UNK]": 1, "[SEP]": 3});
            for (id, word) in (5..).zip(words.iter().filter(|word| **word != "[SEP]")) {
                vocabulary[*word] = json!(id);
            }
            let wanted: Vec<u32> = words
                .iter()
                .map(|word| u32::try_from(vocabulary[*word].as_u64().unwrap()).unwrap())
                .collect();
            let start: String = text.chars().take(8).collect();
            let ids = ids(&tokenizer(&tiny), text);
            assert_eq!(ids, wanted, "{} ...", start.escape_default());
        }
    }

    #[test]
    fn a_longer_run_of_marks_than_a_word_is_one_unknown_word() {
        let tokenizer = tokenizer(&Tiny::new());
        for marks in [1, 10, 11, 12, 2000] {
            let text = format!("a {}b a", "\u{302e}\u{1b44}".repeat(marks));
            assert_eq!(words(&ids(&tokenizer, &text)), ["a", "[UNK]", "a"], "{marks} pairs");
        }
    }

    #[test]
    fn special_tokens_may_be_of_anything_and_the_longest_wins() {
        let mut tiny = Tiny::new();
        let more = [
            json!({"id": 20, "content": "[SEP]]"}),
            json!({"id": 20, "content": "aff"}),
            json!({"id": 21, "content": "\u{e9}\u{0}"}),
            // A special token that is also a word, with a different id: the word's id counts.
            json!({"id": 0, "content": "cafe"}),
        ];
        tiny.tokenizer["added_tokens"].as_array_mut().unwrap().extend(more);
        let tokenizer = tokenizer(&tiny);
        assert_eq!(ids(&tokenizer, "[SEP]]["), [20, 19]);
        assert_eq!(ids(&tokenizer, "unaffable"), [7, 20, 1]);
        assert_eq!(ids(&tokenizer, "a\u{e9}\u{0}a\u{e9}"), [5, 21, 1]);
        assert_eq!(ids(&tokenizer, "acafea"), [5, 10, 5]);
    }

    #[test]
    fn a_run_of_marks_does_not_grow_the_buffers() {
        let tokenizer = tokenizer(&Tiny::new());
        let mut buffers = Buffers::new();
        let before = (buffers.run.as_ptr(), buffers.word.as_ptr());
        let mut ids = Vec::new();
        // Spacing marks stay in the word, non-spacing marks are dropped; both belong to the run.
        for mark in ["\u{301}", "\u{302e}", "\u{1b44}"] {
            tokenizer.encode(&mark.repeat(10_000), 16, &mut buffers, &mut ids);
            assert_eq!((buffers.run.as_ptr(), buffers.word.as_ptr()), before);
        }
    }

    fn texts() -> impl Strategy<Value = String> {
        let pieces = prop::sample::select(vec![
            "a",
            "b",
            "un",
            "aff",
            "able",
            "[SEP]",
            "[",
            "\u{301}",
            "\u{4e2d}",
            "\u{0}",
            " ",
            "!",
            "\u{344}",
            "\u{f73}",
            "\u{ac00}",
            "\u{130}",
            "\u{fffd}",
            "\u{1d165}",
        ]);
        let mixed = prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat());
        prop_oneof![any::<String>(), mixed]
    }

    proptest! {
        #[test]
        fn any_text_gives_known_ids_and_a_limit_cuts_them_short(
            text in texts(),
            limit in 2_usize..20,
        ) {
            let tokenizer = tokenizer(&Tiny::new());
            let whole = ids(&tokenizer, &text);
            prop_assert!(whole.iter().all(|&id| (id as usize) < WORDS.len()));
            let mut cut = Vec::new();
            tokenizer.encode(&text, limit, &mut Buffers::new(), &mut cut);
            prop_assert_eq!(&cut[1..cut.len() - 1], &whole[..whole.len().min(limit - 2)]);
        }

        #[test]
        fn a_bent_tokenizer_is_an_error_or_a_tokenizer(places: [prop::sample::Index; 2], byte: u8) {
            let mut bytes = Tiny::new().tokenizer.to_string().into_bytes();
            for place in places {
                let at = place.index(bytes.len());
                bytes[at] = byte;
            }
            if let Ok(tokenizer) = Tokenizer::open(&bytes, WORDS.len(), false) {
                let mut ids = Vec::new();
                tokenizer.encode("unaffable [SEP]", 8, &mut Buffers::new(), &mut ids);
                prop_assert!(ids.iter().all(|&id| (id as usize) < WORDS.len()));
            }
        }
    }
}
