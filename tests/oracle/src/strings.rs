//! Random texts of every kind that was ever tokenized wrongly.

use crate::dice::Dice;

/// Blocks that share a script, or are similar in appearance.
const SCRIPTS: [(u32, u32); 40] = [
    (0x20, 0x7E),
    (0xA0, 0x17F),
    (0x180, 0x24F),
    (0x250, 0x2FF),
    (0x370, 0x3FF),
    (0x400, 0x52F),
    (0x530, 0x58F),
    (0x590, 0x5FF),
    (0x600, 0x6FF),
    (0x700, 0x74F),
    (0x780, 0x7FF),
    (0x840, 0x8FF),
    (0x900, 0x97F),
    (0x980, 0xAFF),
    (0xB00, 0xDFF),
    (0xE00, 0xEFF),
    (0xF00, 0xFFF),
    (0x1000, 0x10FF),
    (0x1100, 0x11FF),
    (0x1200, 0x139F),
    (0x13A0, 0x13FF),
    (0x1700, 0x18AF),
    (0x1A00, 0x1C7F),
    (0x1C80, 0x1CFF),
    (0x1D00, 0x1DBF),
    (0x1E00, 0x1FFF),
    (0x2000, 0x2BFF),
    (0x2C00, 0x2DFF),
    (0x3000, 0x30FF),
    (0xA640, 0xA7FF),
    (0xA800, 0xAAFF),
    (0xAB30, 0xABFF),
    (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF),
    (0xFB00, 0xFDFF),
    (0xFE00, 0xFFFF),
    (0x10000, 0x10FFF),
    (0x11000, 0x119FF),
    (0x1D000, 0x1D7FF),
    (0x1E000, 0x1F0FF),
];
/// Marks: of class 0 and above, dropped and retained, known to the reference and younger.
const MARKS: [(u32, u32); 22] = [
    (0x300, 0x36F),
    (0x300, 0x36F),
    (0x300, 0x36F),
    (0x483, 0x489),
    (0x591, 0x5C7),
    (0x610, 0x65F),
    (0x6D6, 0x6ED),
    (0x897, 0x8E1),
    (0x93A, 0x954),
    (0xE38, 0xE4B),
    (0xF71, 0xF87),
    (0x1AB0, 0x1AF0),
    (0x1B34, 0x1B44),
    (0x1DC0, 0x1DFF),
    (0x20D0, 0x20F0),
    (0x302A, 0x302F),
    (0x3099, 0x309A),
    (0xA953, 0xA953),
    (0xFE00, 0xFE2F),
    (0x1D165, 0x1D172),
    (0x1E000, 0x1E02A),
    (0x1E944, 0x1E94A),
];
const SPACES: [char; 25] = [
    ' ', ' ', ' ', '\t', '\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1f}', '\u{85}', '\u{a0}',
    '\u{1680}', '\u{180e}', '\u{2000}', '\u{2001}', '\u{2007}', '\u{200a}', '\u{200b}', '\u{2028}',
    '\u{2029}', '\u{202f}', '\u{205f}', '\u{2060}', '\u{3000}',
];
/// Letters that change in number, class or kind when normalized.
const LETTERS: [&str; 44] = [
    "I",
    "i",
    "\u{130}",
    "\u{131}",
    "i\u{307}",
    "\u{3a3}",
    "\u{3c3}",
    "\u{3c2}",
    "\u{39f}\u{3a3}",
    "\u{df}",
    "\u{1e9e}",
    "SS",
    "\u{fb00}",
    "\u{fb03}",
    "\u{fb05}",
    "\u{1c4}",
    "\u{1c5}",
    "\u{345}",
    "\u{1f80}",
    "\u{1fbe}",
    "\u{1fef}",
    "\u{37e}",
    "\u{387}",
    "\u{2126}",
    "\u{212a}",
    "\u{212b}",
    "\u{e9}",
    "e\u{301}",
    "\u{1ec7}",
    "\u{344}",
    "\u{f73}",
    "\u{f81}",
    "\u{958}",
    "\u{9cb}",
    "\u{e33}",
    "\u{fb1d}",
    "\u{fb4b}",
    "\u{1100}\u{1161}\u{11a8}",
    "\u{ac01}",
    "\u{304c}",
    "\u{304b}\u{3099}",
    "\u{1d15e}",
    "\u{1d160}",
    "\u{13a0}",
];
const SPECIAL: [&str; 16] = [
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "[PAD]",
    "[UNK]",
    "[cls]",
    "[Sep]",
    "[SEP",
    "SEP]",
    "[[SEP]]",
    "[UNK",
    "[ SEP]",
    "[S\u{301}EP]",
    "[SE\u{200b}P]",
    "[unused1]",
    "\u{ff3b}SEP\u{ff3d}",
];
const EMOJI: [&str; 14] = [
    "\u{1f600}",
    "\u{1f469}\u{200d}\u{1f4bb}",
    "\u{1f44d}\u{1f3fd}",
    "\u{1f1eb}\u{1f1f7}",
    "\u{2764}\u{fe0f}",
    "1\u{fe0f}\u{20e3}",
    "\u{200d}",
    "\u{fe0e}",
    "\u{1f3f4}\u{e0067}\u{e007f}",
    "\u{1f9d1}\u{1f3fb}\u{200d}\u{1f91d}\u{200d}\u{1f9d1}",
    "\u{2640}",
    "\u{1faf6}",
    "\u{a9}",
    "\u{2122}",
];
const LIMITS: [usize; 10] = [2, 3, 4, 8, 16, 32, 64, 128, 256, 512];
/// Most pieces of a random text of each kind.
const PIECES_MAX: usize = 24;
/// Most bytes of a part of a document.
const PART_BYTES_MAX: usize = 3000;

/// Returns a text of any kind, or several in a row.
pub fn any(dice: &mut Dice, words: &[String], documents: &[String]) -> String {
    let mut text = String::new();
    for _ in 0..*dice.pick(&[1, 1, 1, 2, 3]) {
        text.push_str(&match dice.below(13) {
            0 => scalars(dice),
            1 => script(dice),
            2 => glued(dice, words),
            3 => marks(dice),
            4 => japanese(dice),
            5 => strung(dice, &EMOJI),
            6 => controls(dice),
            7 => strung(dice, &SPECIAL),
            8 => strung(dice, &LETTERS),
            9 => spaced(dice, words),
            10 => long_word(dice, words),
            11 => part(dice, documents).to_owned(),
            _ => punctuated(dice, words),
        });
    }
    text
}

/// Returns a token limit, or none in half of the cases.
pub fn limit(dice: &mut Dice) -> Option<usize> {
    let limit = *dice.pick(&LIMITS);
    (dice.below(2) == 0).then_some(limit)
}

/// Returns a part of a text, cut between any two characters.
pub fn cut<'a>(dice: &mut Dice, text: &'a str) -> &'a str {
    let start = text.ceil_char_boundary(dice.below(text.len() + 1));
    let length = dice.below(PART_BYTES_MAX);
    &text[start..text.ceil_char_boundary((start + length).min(text.len()))]
}

fn part<'a>(dice: &mut Dice, documents: &'a [String]) -> &'a str {
    let document = dice.pick(documents);
    cut(dice, document)
}

/// Returns scalar values from all ranges.
pub fn scalars(dice: &mut Dice) -> String {
    let last = *dice.pick(&[0x7F, 0x2FF, 0xFFFF, 0x1FFFF, 0x10_FFFF]);
    (0..dice.within(1, PIECES_MAX)).map(|_| dice.scalar(0, last)).collect()
}

/// Returns letters of one script, with occasional spaces.
fn script(dice: &mut Dice) -> String {
    let &(first, last) = dice.pick(&SCRIPTS);
    let one = |_| if dice.below(8) == 0 { ' ' } else { dice.scalar(first, last) };
    (0..4 * PIECES_MAX).map(one).collect()
}

/// Returns words of the vocabulary without spaces, so that the tokenizer has to find their ends.
pub fn glued(dice: &mut Dice, words: &[String]) -> String {
    let count = dice.within(1, PIECES_MAX);
    let glue = *dice.pick(&["", "", " ", "-", "\u{301}", "\u{200b}"]);
    let mut chosen = Vec::with_capacity(count);
    for _ in 0..count {
        let word = dice.pick(words);
        chosen.push(if dice.below(6) == 0 { word.to_uppercase() } else { word.clone() });
    }
    chosen.join(glue)
}

fn mark(dice: &mut Dice) -> char {
    let &(first, last) = dice.pick(&MARKS);
    dice.scalar(first, last)
}

/// Returns letters with marks of all classes in any order: a few, or hundreds.
pub fn marks(dice: &mut Dice) -> String {
    let mut text = String::new();
    for _ in 0..dice.within(1, 6) {
        text.push_str(dice.piece(&LETTERS));
        let most = *dice.pick(&[2, 6, 80, 300, 1100]);
        for _ in 0..dice.below(most) {
            text.push(mark(dice));
        }
        // A retained mark, many times, so that the rest of a run is long, too.
        let stays = *dice.pick(&['\u{302e}', '\u{1b44}', '\u{1d16d}', '\u{f71}']);
        if dice.below(4) == 0 {
            text.extend(
                (0..dice.below(90)).map(|_| if dice.below(3) == 0 { mark(dice) } else { stays }),
            );
        }
    }
    text
}

/// Returns alternating ideographs, kana and Latin, as in Japanese.
fn japanese(dice: &mut Dice) -> String {
    let blocks =
        [(0x4E00, 0x9FFF), (0x3041, 0x30FF), (0x61, 0x7A), (0xFF01, 0xFF9F), (0x3001, 0x303F)];
    let rare = [(0xF900, 0xFAFF), (0x20000, 0x2FA1F), (0x3400, 0x4DBF), (0x2E80, 0x2FDF)];
    let mut text = String::new();
    for _ in 0..dice.within(1, PIECES_MAX) {
        let list = if dice.below(8) == 0 { &rare[..] } else { &blocks[..] };
        let &(first, last) = dice.pick(list);
        text.extend((0..dice.within(1, 4)).map(|_| dice.scalar(first, last)));
    }
    text
}

/// Returns the pieces one after the other, with occasional separators.
fn strung(dice: &mut Dice, pieces: &[&'static str]) -> String {
    let mut text = String::new();
    for _ in 0..dice.within(1, PIECES_MAX) {
        text.push_str(dice.piece(pieces));
        match dice.below(10) {
            0 => text.push(' '),
            1 => text.push(mark(dice)),
            2 => text.push(dice.scalar(0x21, 0x7E)),
            _ => {}
        }
    }
    text
}

/// Returns controls and formats among letters.
fn controls(dice: &mut Dice) -> String {
    let blocks = [
        (0x0, 0x1F),
        (0x7F, 0x9F),
        (0x200B, 0x200F),
        (0x2028, 0x202E),
        (0x2060, 0x206F),
        (0xFFF0, 0xFFFF),
        (0xFEFF, 0xFEFF),
        (0xE0000, 0xE007F),
        (0xE000, 0xE010),
        (0x61, 0x7A),
        (0x61, 0x7A),
        (0xAD, 0xAD),
        (0x600, 0x605),
        (0x300, 0x303),
        (0x1D173, 0x1D17A),
    ];
    let mut text = String::new();
    for _ in 0..dice.within(1, 2 * PIECES_MAX) {
        let &(first, last) = dice.pick(&blocks);
        text.push(dice.scalar(first, last));
    }
    text
}

/// Returns words between spaces of all kinds.
fn spaced(dice: &mut Dice, words: &[String]) -> String {
    let mut text = String::new();
    for _ in 0..dice.within(1, PIECES_MAX) {
        text.push_str(dice.pick::<String>(words));
        text.extend((0..dice.within(1, 3)).map(|_| *dice.pick(&SPACES)));
    }
    text
}

/// Returns a word of about the length limit, by each way of counting.
fn long_word(dice: &mut Dice, words: &[String]) -> String {
    let length = dice.within(97, 103) * *dice.pick(&[1, 1, 1, 10]);
    let unit =
        *dice.pick(&["a", "\u{e9}", "e\u{301}", "\u{d55c}", "\u{130}", "\u{3b1}", "\u{302e}"]);
    let mut text = match dice.below(3) {
        0 => dice.pick(words).repeat(length),
        1 => unit.repeat(length),
        _ => (0..length).map(|_| dice.scalar(0x61, 0x7A)).collect(),
    };
    let end = text.char_indices().nth(length).map_or(text.len(), |(at, _)| at);
    text.truncate(end);
    let within = text.ceil_char_boundary(dice.below(text.len() + 1));
    text.insert_str(within, dice.piece(&["", "", "\u{301}", "\u{0}", "-", "\u{4e2d}", " "]));
    text
}

/// Returns words between punctuation of all blocks that have punctuation.
fn punctuated(dice: &mut Dice, words: &[String]) -> String {
    let blocks = [
        (0x21, 0x2F),
        (0x3A, 0x40),
        (0x5B, 0x60),
        (0x7B, 0x7E),
        (0xA1, 0xBF),
        (0x2010, 0x205E),
        (0x2300, 0x232A),
        (0x2768, 0x2775),
        (0x2983, 0x2998),
        (0x2E00, 0x2E5D),
        (0x3001, 0x303D),
        (0xFE10, 0xFE6B),
        (0xFF01, 0xFF65),
        (0x1B5A, 0x1B7F),
        (0x10100, 0x10102),
    ];
    let mut text = String::new();
    for _ in 0..dice.within(1, PIECES_MAX) {
        text.push_str(dice.pick::<String>(words));
        for _ in 0..dice.within(0, 3) {
            let &(first, last) = dice.pick(&blocks);
            text.push(dice.scalar(first, last));
        }
    }
    text
}
