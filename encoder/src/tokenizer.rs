//! Text to token ids: BERT normalisation, then WordPiece (Devlin et al. 2018, section 3; Wu et al.
//! 2016), exactly as the published `tokenizer.json` sets it.
//!
//! One pass over the characters, with no more memory than a word: special tokens are found in the
//! raw text; what lies between is cleaned, decomposed, stripped of accents, lowercased and split
//! into words, and each word into the longest pieces the vocabulary has. A limit ends the pass, so
//! a long text costs what its first tokens cost.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

use crate::OpenError;
use crate::config::Settings;
use crate::files::TOKENIZER;
use crate::tokenizer_file::{read_frame, read_special, read_vocabulary};
use crate::unicode::{ACCENTS, DROPPED, IDEOGRAPHS, PUNCTUATION};
use crate::vocabulary::{Node, ROOT, Vocabulary};

/// Longest word a tokenizer may ask to look up, in characters.
pub(crate) const WORD_CHARS_MAX: usize = 1000;
/// A letter and its marks are put in canonical order together, at most this many at a time. The
/// longest such run in any orthography is below ten.
const RUN_CHARS_MAX: usize = 64;

/// Cuts text into the ids of one vocabulary.
pub(crate) struct Tokenizer {
    vocabulary: Vocabulary,
    /// Where the walk for the second and later pieces of a word starts; none if no entry has the
    /// prefix that marks them.
    continuation: Option<Node>,
    /// Special tokens, longest first, so that the first that matches is the longest.
    special: Vec<(String, u32)>,
    /// Which bytes a special token starts with.
    special_starts: [bool; 256],
    /// What goes before and after the text: `[CLS]` and `[SEP]`.
    before: Vec<u32>,
    after: Vec<u32>,
    unknown: u32,
    word_chars_max: usize,
    clean: bool,
    split_ideographs: bool,
    strip_accents: bool,
    lowercase: bool,
}

/// The memory one pass needs, kept between passes.
pub(crate) struct Buffers {
    /// The word under way, normalised.
    word: String,
    /// A letter and its marks, not yet in canonical order.
    run: Vec<char>,
}

impl Buffers {
    pub(crate) fn new() -> Buffers {
        // A word stops growing at its limit, in characters of at most four bytes.
        Buffers {
            word: String::with_capacity(4 * (WORD_CHARS_MAX + 1)),
            run: Vec::with_capacity(RUN_CHARS_MAX),
        }
    }
}

impl Tokenizer {
    /// Reads `tokenizer.json`. `ids_max` is how many rows the model's word table has.
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
        let special = read_special(&settings, ids_max)?;
        let mut special_starts = [false; 256];
        for (content, _) in &special {
            special_starts[usize::from(content.as_bytes()[0])] = true;
        }
        let (before, after) = read_frame(&settings, ids_max)?;
        let lowers = settings.flag_if_present("normalizer.lowercase")?.unwrap_or(true);
        Ok(Tokenizer {
            continuation: vocabulary.walk(prefix.as_bytes()),
            vocabulary,
            special,
            special_starts,
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

    /// The fewest tokens a text may have: what goes around it.
    pub(crate) fn frame(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Replaces `ids` by those of `text`, framed, cut off at `tokens_max`. Looks at no more of the
    /// text than that takes.
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

    fn special_at(&self, rest: &str) -> Option<&(String, u32)> {
        let first = *rest.as_bytes().first()?;
        if !self.special_starts[usize::from(first)] {
            return None;
        }
        self.special.iter().find(|(content, _)| rest.starts_with(content.as_str()))
    }
}

/// One text on its way through.
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
            if let Some((content, id)) = self.tokenizer.special_at(rest) {
                self.end_word();
                self.ids.push(*id);
                rest = &rest[content.len()..];
                continue;
            }
            rest = &rest[c.len_utf8()..];
            if c.is_ascii() { self.ascii(c) } else { self.wide(c) }
        }
        self.end_word();
    }

    fn ascii(&mut self, c: char) {
        if matches!(c, ' ' | '\t' | '\n' | '\r') {
            self.end_word();
        } else if c.is_ascii_control() && self.tokenizer.clean {
            // Dropped without a trace: "a\0b" is the word "ab".
        } else {
            self.end_run();
            let c = if self.tokenizer.lowercase { c.to_ascii_lowercase() } else { c };
            self.letter(c);
        }
    }

    /// Any character past ASCII.
    fn wide(&mut self, c: char) {
        if self.tokenizer.clean && listed(DROPPED, c) {
            return;
        }
        if c.is_whitespace() {
            self.end_word();
        } else if self.tokenizer.split_ideographs && listed(IDEOGRAPHS, c) {
            self.end_word();
            self.normal(c);
            self.end_word();
        } else {
            self.normal(c);
        }
    }

    /// Decomposition needs the marks that follow a letter, since they are put in order together; so
    /// a run is kept until a character comes that no mark before it can pass.
    fn normal(&mut self, c: char) {
        if !self.tokenizer.strip_accents {
            self.lowered(c);
            return;
        }
        let starts = canonical_combining_class(c) == 0 && !listed(ACCENTS, c);
        if starts || self.buffers.run.len() == RUN_CHARS_MAX {
            self.end_run();
        }
        self.buffers.run.push(c);
    }

    fn end_run(&mut self) {
        if self.buffers.run.is_empty() {
            return;
        }
        let run = std::mem::take(&mut self.buffers.run);
        for c in run.iter().copied().nfd() {
            if !listed(ACCENTS, c) {
                self.lowered(c);
            }
        }
        // Back with its memory, for the next run.
        self.buffers.run = run;
        self.buffers.run.clear();
    }

    fn lowered(&mut self, c: char) {
        if self.tokenizer.lowercase {
            c.to_lowercase().for_each(|c| self.letter(c));
        } else {
            self.letter(c);
        }
    }

    /// A normalised character: ends the word, is one of its own, or joins it.
    fn letter(&mut self, c: char) {
        if c.is_whitespace() {
            self.end_letters();
        } else if is_punctuation(c) {
            self.end_letters();
            self.buffers.word.push(c);
            self.end_letters();
        } else if self.buffers.word.len() <= 4 * self.tokenizer.word_chars_max {
            // Past that many bytes a word has too many characters, whatever else comes.
            self.buffers.word.push(c);
        }
    }

    fn end_word(&mut self) {
        self.end_run();
        self.end_letters();
    }

    /// Cuts the word into the longest pieces from left to right; if any rest has none, the whole
    /// word is unknown.
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

    /// Pushes the pieces of the word; false if it is too long or a rest of it has none.
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

fn is_punctuation(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_punctuation() } else { listed(PUNCTUATION, c) }
}

/// Whether `c` lies in one of the rising, disjoint ranges of `table`.
fn listed(table: &[(u32, u32)], c: char) -> bool {
    let point = u32::from(c);
    let after = table.partition_point(|&(first, _)| first <= point);
    after > 0 && point <= table[after - 1].1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::tiny::{Tiny, WORDS};

    fn tokenizer(tiny: &Tiny) -> Tokenizer {
        Tokenizer::open(tiny.tokenizer.to_string().as_bytes(), WORDS.len(), false).unwrap()
    }

    /// The ids of a text between `[CLS]` and `[SEP]`.
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

    #[test]
    fn tables_rise_and_do_not_overlap() {
        for table in [ACCENTS, DROPPED, IDEOGRAPHS, PUNCTUATION] {
            assert!(table.iter().all(|(first, last)| first <= last));
            assert!(table.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
        assert!(listed(PUNCTUATION, '\u{a1}') && !listed(PUNCTUATION, '\u{a2}'));
        assert!(!listed(PUNCTUATION, '\u{0}') && !listed(PUNCTUATION, '\u{10FFFF}'));
    }

    #[test]
    fn a_run_of_marks_does_not_grow_the_buffers() {
        let tokenizer = tokenizer(&Tiny::new());
        let mut buffers = Buffers::new();
        let before = (buffers.run.as_ptr(), buffers.word.as_ptr());
        let mut ids = Vec::new();
        // Spacing marks stay in the word, non-spacing ones go; both belong to the run.
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
