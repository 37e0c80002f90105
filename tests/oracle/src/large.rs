//! Long texts, each as hard to tokenize as one kind of content can be.

use crate::dice::Dice;
use crate::strings;

/// Length of the long texts, and for a short run, which still shows superlinear cost.
pub const BYTES: usize = 1 << 20;
pub const SHORT_BYTES: usize = 1 << 18;

/// Returns the texts by name, each of at least `bytes` bytes.
pub fn all(seed: u64, words: &[String], bytes: usize) -> Vec<(&'static str, String)> {
    let mut dice = Dice::new(seed, "large", 0);
    let mut texts: Vec<(&'static str, String)> = [
        ("one word", "a"),
        ("one word with accents", "\u{e9}"),
        ("one word of capitals", "\u{130}\u{1e9e}Q"),
        ("words", "the quick brown fox "),
        ("short words", "a "),
        ("marks that go", "\u{301}"),
        ("marks in disorder", "\u{301}\u{323}\u{334}"),
        ("marks that stay", "\u{302e}"),
        ("marks that stay, in disorder", "\u{302e}\u{1b44}\u{1d16d}"),
        ("runs of marks", "a\u{302e}\u{1b44}\u{302e}\u{1b44}\u{302e}\u{1b44}\u{302e}\u{1b44} "),
        ("CJK", "\u{4e2d}\u{6587}"),
        ("compatibility CJK", "\u{f900}\u{2f800}"),
        ("kana", "\u{304c}\u{30d1}"),
        ("Hangul", "\u{d55c}\u{ae00} "),
        ("Cyrillic", "\u{41c}\u{438}\u{439} "),
        ("emoji", "\u{1f469}\u{200d}\u{1f4bb}\u{2764}\u{fe0f}"),
        ("special tokens", "[SEP]"),
        ("nearly special tokens", "[SEP[MASK"),
        ("brackets", "["),
        ("punctuation", "...!"),
        ("spaces", " "),
        ("wide spaces", "\u{3000}\u{2028}"),
        ("controls", "\u{0}\u{7}\u{7f}"),
        ("formats", "\u{200b}\u{feff}\u{ad}"),
    ]
    .map(|(name, piece)| (name, piece.repeat(bytes.div_ceil(piece.len()))))
    .into();
    let grown = |dice: &mut Dice, piece: &dyn Fn(&mut Dice) -> String| {
        let mut text = String::with_capacity(2 * bytes);
        while text.len() < bytes {
            text.push_str(&piece(dice));
        }
        text
    };
    texts.push(("random scalars", grown(&mut dice, &strings::scalars)));
    texts.push(("random words", grown(&mut dice, &|dice| strings::glued(dice, words))));
    texts.push(("random marks", grown(&mut dice, &strings::marks)));
    texts
}
