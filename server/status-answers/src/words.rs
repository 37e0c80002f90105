//! Normalizes the words of a question: parts, stems and misspellings, and the words without a topic.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::topics::TOPICS;

/// Stop words: words of any question, whatever its topic, and no names of possible topics.
const EVERYDAY: &str = include_str!("everyday.txt");

/// Words about statements or acts of people: a part with one of these words is about stored memories.
const MEMORY: &str = "who whom whose why decide decided agreed said say says";

/// First words of a command, with the tool that executes it.
pub(crate) const ORDERS: [(&str, &str); 14] = [
    ("delete", "forget_item_tool"),
    ("remove", "forget_item_tool"),
    ("forget", "forget_item_tool"),
    ("erase", "forget_item_tool"),
    ("remember", "brain_remember"),
    ("note", "brain_remember"),
    ("record", "brain_remember"),
    ("schedule", "schedule_followup_tool"),
    ("remind", "schedule_followup_tool"),
    ("find", "retrieval_arbitrate_tool"),
    ("recall", "retrieval_arbitrate_tool"),
    ("summarize", "retrieval_arbitrate_tool"),
    ("summarise", "retrieval_arbitrate_tool"),
    ("export", "export_memory_tool"),
];

/// Compounds: variants of several words, with the single word that replaces them. Applied in this order to a part in
/// lower case.
const JOINED: [(&str, &str); 19] = [
    ("right now", "now"),
    ("date and time", "currenttime"),
    ("back up the", "backup"),
    ("back up my", "backup"),
    ("my rights", "my permissions"),
    ("up and running", "upandrunning"),
    ("follow up", "followup"),
    ("read only", "readonly"),
    ("e mail", "email"),
    ("agent state", "agentstate"),
    ("backed up", "backedup"),
    ("recall at 10", "recallat10"),
    ("50th", "p50"),
    ("95th", "p95"),
    ("99th", "p99"),
    ("p 95", "p95"),
    ("p 99", "p99"),
    ("at once", "once"),
    ("doc store", "docstore"),
];

/// Fewest letters of an intended word with a typo: two letters swapped, a letter added, or one of a double letter
/// omitted; any other letter omitted; a letter substituted.
const SWAPPED_CHARS_MIN: usize = 5;
const ADDED_CHARS_MIN: usize = 6;
const OTHER_CHARS_MIN: usize = 7;

/// Word of a part of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// Lower case, as written.
    pub(crate) written: String,
    /// Stem, with misspellings corrected.
    pub(crate) stem: String,
    /// True if the word is known.
    pub(crate) is_known: bool,
}

/// Splits a question into parts, each with its words.
pub(crate) fn parts(question: &str, kinds: &[String]) -> Vec<(String, Vec<Word>)> {
    let mut parts = Vec::new();
    for piece in question.split(['?', ';', ',', '!', '\n', '&', '|']) {
        let mut words: Vec<String> = Vec::new();
        for word in plain(piece).split(' ').filter(|word| !word.is_empty()) {
            if !["and", "plus", "also"].contains(&word) {
                words.push(word.to_owned());
            } else if !words.is_empty() {
                parts.push(std::mem::take(&mut words));
            }
        }
        if !words.is_empty() {
            parts.push(words);
        }
    }
    let known = |words: Vec<String>| {
        let text = words.join(" ");
        (text, words.into_iter().map(|word| read(word, kinds)).collect())
    };
    parts.into_iter().map(known).collect()
}

/// Normalizes a text to lower case, with only letters, digits and single spaces.
fn plain(piece: &str) -> String {
    let mut text = String::with_capacity(piece.len() + 2);
    text.push(' ');
    for letter in piece.chars().flat_map(char::to_lowercase) {
        match letter {
            '\'' | '\u{2019}' => {}
            letter if letter.is_alphanumeric() => text.push(letter),
            _ if !text.ends_with(' ') => text.push(' '),
            _ => {}
        }
    }
    for (apart, joined) in JOINED {
        text = text.replace(&format!(" {apart}"), &format!(" {joined}"));
    }
    text.trim().to_owned()
}

/// Strips a plural ending from a word.
pub fn stem(word: &str) -> String {
    let is_plural = word.len() > 3 && word.ends_with('s');
    if !is_plural || ["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        return word.to_owned();
    }
    match word.strip_suffix("ies") {
        Some(stem) if stem.len() > 1 => format!("{stem}y"),
        _ => word[..word.len() - 1].to_owned(),
    }
}

/// Classifies a word, and corrects a misspelling.
fn read(written: String, kinds: &[String]) -> Word {
    let stem = stem(&written);
    let cues = cues();
    let is_kind = kinds.iter().any(|kind| *kind == stem || *kind == written);
    if is_kind || cues.contains(stem.as_str()) || is_everyday(&written) || is_everyday(&stem) {
        return Word { written, stem, is_known: true };
    }
    let meant = cues.iter().find(|cue| is_misspelt(&stem, cue));
    match meant {
        Some(cue) => Word { written, stem: (*cue).to_owned(), is_known: true },
        None => {
            Word { is_known: written.chars().all(|letter| letter.is_ascii_digit()), written, stem }
        }
    }
}

/// Returns true for a stop word, or a word of a pattern.
pub fn is_of_service(word: &str) -> bool {
    is_everyday(word) || cues().contains(word)
}

fn cues() -> &'static BTreeSet<&'static str> {
    static CUES: OnceLock<BTreeSet<&'static str>> = OnceLock::new();
    CUES.get_or_init(|| {
        let cues = TOPICS.iter().flat_map(|row| row.cues);
        cues.flat_map(|(words, _)| words.split(' ')).collect()
    })
}

/// Returns true if the word, or the verb that the word is a form of, is a stop word.
pub fn is_everyday(word: &str) -> bool {
    static SET: OnceLock<BTreeSet<&'static str>> = OnceLock::new();
    let set = SET.get_or_init(|| EVERYDAY.split_whitespace().collect());
    let base = ["ing", "ed"].iter().find_map(|end| word.strip_suffix(end));
    let of_base = |base: &str| {
        let last = base.chars().next_back();
        let once = base.strip_suffix(|letter| Some(letter) == last).unwrap_or(base);
        let ends_twice = once.chars().next_back() == last;
        let y = base.strip_suffix('i').map(|base| format!("{base}y"));
        set.contains(base)
            || set.contains(format!("{base}e").as_str())
            || (ends_twice && set.contains(once))
            || y.is_some_and(|verb| set.contains(verb.as_str()))
    };
    set.contains(word) || base.is_some_and(of_base)
}

/// Returns true if a word of the part is about statements or acts of people.
pub(crate) fn is_of_memory(words: &[Word]) -> bool {
    words.iter().any(|word| MEMORY.split(' ').any(|of| of == word.written))
}

/// Returns true if `word` is `meant` with a single typo that leaves the first letter.
pub fn is_misspelt(word: &str, meant: &str) -> bool {
    // Fast rejection of most words: one letter changes the length by at most the bytes of a character.
    let is_near = word.len().abs_diff(meant.len()) <= '\u{10FFFF}'.len_utf8();
    if !is_near || word.chars().next() != meant.chars().next() {
        return false;
    }
    let (word, meant): (Vec<char>, Vec<char>) = (word.chars().collect(), meant.chars().collect());
    if word.len().abs_diff(meant.len()) > 1 {
        return false;
    }
    let same = word.iter().zip(&meant).take_while(|(one, other)| one == other).count();
    let (rest, wanted) = (&word[same..], &meant[same..]);
    match word.len().cmp(&meant.len()) {
        std::cmp::Ordering::Equal => {
            let is_swapped = rest.len() >= 2
                && (rest[0], rest[1]) == (wanted[1], wanted[0])
                && rest[2..] == wanted[2..];
            let is_other = rest.len() > 1 && rest[1..] == wanted[1..];
            (is_swapped && meant.len() >= SWAPPED_CHARS_MIN)
                || (is_other && meant.len() >= OTHER_CHARS_MIN)
        }
        std::cmp::Ordering::Less => {
            let is_doubled = same > 0 && wanted.first() == meant.get(same - 1);
            let least = if is_doubled { SWAPPED_CHARS_MIN } else { ADDED_CHARS_MIN };
            *rest == wanted[1..] && meant.len() >= least
        }
        std::cmp::Ordering::Greater => rest[1..] == *wanted && meant.len() >= SWAPPED_CHARS_MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_understood_and_another_word_is_not() {
        for (word, meant) in
            [("qouta", "quota"), ("latncy", "latency"), ("latancy", "latency"), ("recal", "recall")]
        {
            assert!(is_misspelt(word, meant), "{word}");
        }
        for (word, meant) in [
            ("quote", "quota"),
            ("leader", "ledger"),
            ("planet", "plan"),
            ("rater", "rate"),
            ("ledge", "edge"),
        ] {
            assert!(!is_misspelt(word, meant), "{word}");
        }
    }

    #[test]
    fn questions_fall_into_parts_and_words() {
        let parts = parts("What's the Follow-up count, and is it READ-ONLY?", &[]);
        let texts: Vec<&str> = parts.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["whats the followup count", "is it readonly"]);
        assert_eq!(
            ["entries", "bytes", "status", "class", "is"].map(stem),
            ["entry", "byte", "status", "class", "is"]
        );
        let (_, words) = &super::parts("the zephyr latncy", &[])[0];
        assert_eq!(words[2].stem, "latency");
        assert_eq!(words.iter().map(|word| word.is_known).collect::<Vec<_>>(), [true, false, true]);
    }
}
