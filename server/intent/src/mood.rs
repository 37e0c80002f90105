//! Modality of a command: imperative, question or hedged.
//!
//! Recognizes polite prefixes, and the words that make a command non-imperative: negations, conditions, questions. A
//! question never leads to a write.

use crate::said::{Said, Sort};

/// Modality of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Imperative, or a plain statement or name.
    Order,
    /// Question.
    Question,
    /// Hedged: a prohibition or a hypothetical, which has no effect. The text is the reason.
    Held(&'static str),
}

/// Result of parsing the beginning of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begins {
    /// First token after the polite prefixes.
    pub(crate) head: usize,
    pub(crate) mood: Mood,
}

/// Polite prefixes of a command, the longer first. A prefix of the second list turns a question into an imperative.
const POLITE: &[&str] = &[
    "i would like you to",
    "i like you to",
    "i want you to",
    "i need you to",
    "i ask you to",
    "i would like to",
    "i like to",
    "i want to",
    "i need to",
    "we need to",
    "we want to",
    "we should",
    "you should",
    "you must",
    "you have to",
    "you need to",
    "i need a",
    "i need an",
    "i need the",
    "i need my",
    "i need",
    "i want a",
    "i want an",
    "i want the",
    "i want my",
    "we need a",
    "we need the",
    "how about a",
    "how about the",
    "how about",
    "let me",
    "let us",
    "go ahead and",
    "go and",
    "be so kind and",
    "be so kind to",
    "be so good and",
    "make sure to",
    "make sure you",
    "make sure that you",
    "try to",
    "help me to",
    "help me",
    "permanently",
    "immediately",
    "completely",
    "double",
    "re",
    "really",
    "merk dir",
    "merke dir",
    "would be nice to",
    "please",
    "pls",
    "plz",
    "kindly",
    "hey",
    "hi",
    "ok",
    "okay",
    "so",
    "now",
    "then",
    "well",
    "also",
    "and",
    "just",
    "quickly",
    "yes",
    "let",
    "bitte",
    "brain",
];
const ASKED_POLITELY: [&str; 12] = [
    "would you be so kind to",
    "would you be so kind and",
    "would you mind",
    "would you please",
    "can you",
    "can u",
    "could you",
    "could u",
    "would you",
    "will you",
    "may i ask you to",
    "can i ask you to",
];

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Polite prefixes that are skipped.
    const POLITE_MAX: usize = 8;
}

/// First words of a question.
const ASKING: &str = "what which who whom whose when where why how is are was were am doe did had could can should \
                      shall may might will would has wonder know whether";
/// Subjects after `do` and `have` in a question.
const ASKED_OF: &str =
    "you we i they he she it the our these those any anyone anybody someone somebody";
/// First words of a prohibition or a hypothetical, with the reason.
const HOLDING: [(&str, &str); 27] = [
    ("dont", "it says what is not to be done"),
    ("do not", "it says what is not to be done"),
    ("not", "it says what is not to be done"),
    ("never", "it says what is not to be done"),
    ("no", "it says no"),
    ("stop", "it says what is not to be done"),
    ("avoid", "it says what is not to be done"),
    ("refrain", "it says what is not to be done"),
    ("cancel", "it calls something off"),
    ("undo", "nothing is undone here; a new version can supersede"),
    ("nobody", "it says what is not to be done"),
    ("it is forbidden", "it says what is not to be done"),
    ("under no", "it says what is not to be done"),
    ("if", "it is about what might be"),
    ("unless", "it is about what might be"),
    ("suppose", "it is about what might be"),
    ("supposing", "it is about what might be"),
    ("imagine", "it is about what might be"),
    ("assume", "it is about what might be"),
    ("assuming", "it is about what might be"),
    ("maybe", "it is about what might be"),
    ("perhap", "it is about what might be"),
    ("possibly", "it is about what might be"),
    ("before", "it is about what comes before something"),
    ("once", "it waits for something"),
    ("as soon", "it waits for something"),
    ("in case", "it is about what might be"),
];
/// Phrases that make a question hypothetical, at any position.
const MIGHT_BE: [&str; 7] = [
    "what if",
    "would happen",
    "happen if",
    "happen when",
    "happen after",
    "i wonder if we",
    "thinking about",
];
/// Idioms for `remember`.
const IDIOMS: [&str; 4] =
    ["dont forget that", "dont forget to", "do not forget that", "do not forget to"];
/// Words that make a command uncertain.
const DOUBTS: [&str; 8] =
    ["if", "unless", "maybe", "perhap", "possibly", "eventually", "someday", "whether"];

/// Verbs that `dont` retracts; `dont` alone, at the end, retracts any.
const TAKEN_BACK: &str = "do delete remove forget erase hide";

/// Returns the number of the phrase's words if the phrase is at this token.
pub(crate) fn stands(words: &[String], at: usize, phrase: &str) -> Option<usize> {
    let mut count = 0;
    for wanted in phrase.split(' ') {
        if words.get(at + count).is_none_or(|word| word != wanted) {
            return None;
        }
        count += 1;
    }
    Some(count)
}

/// Parses the beginning of a command, and its modality.
pub(crate) fn begins(said: &Said<'_>, words: &[String]) -> Begins {
    let mut head = 0;
    let mut is_asked_politely = false;
    let mark = |at: usize| said.pieces.get(at).is_some_and(|piece| piece.sort == Sort::Mark);
    for _ in 0..POLITE_MAX {
        while mark(head) {
            head += 1;
        }
        // `no, that is wrong` answers an earlier message.
        if words.get(head).is_some_and(|word| word == "no") && mark(head + 1) {
            head += 2;
        }
        let at = |phrases: &[&str]| phrases.iter().find_map(|phrase| stands(words, head, phrase));
        if let Some(count) = at(&ASKED_POLITELY) {
            // `could you tell me how` is a question nevertheless.
            is_asked_politely = true;
            head += count;
        } else if let Some(count) = at(POLITE) {
            head += count;
        } else {
            break;
        }
    }
    Begins { head, mood: mood(said, words, head, is_asked_politely) }
}

fn mood(said: &Said<'_>, words: &[String], head: usize, is_asked_politely: bool) -> Mood {
    let at = |phrase: &str| stands(words, head, phrase).is_some();
    let is_called_out = stands(words, head, "dont forget").is_some_and(|count| {
        said.pieces.get(head + count).is_some_and(|piece| piece.sort == Sort::Mark)
    });
    if is_called_out || IDIOMS.into_iter().any(at) {
        return Mood::Order;
    }
    if let Some((_, why)) = HOLDING.into_iter().find(|(phrase, _)| at(phrase)) {
        return Mood::Held(why);
    }
    let within = |phrase: &&str| (head..words.len()).any(|at| stands(words, at, phrase).is_some());
    if MIGHT_BE.iter().any(within) || at("i wonder if") || at("wonder if") {
        return Mood::Held("it is about what might be");
    }
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let asks =
        |list: &str, word: &str| !word.is_empty() && list.split_whitespace().any(|of| of == word);
    let first = word(head);
    let leads = matches!(
        first,
        "in" | "on" | "at" | "from" | "for" | "with" | "to" | "by" | "of" | "about"
    );
    if leads && matches!(word(head + 1), "what" | "which" | "whom" | "whose" | "where") {
        return Mood::Question;
    }
    // `tell me how to` and `explain why` are questions.
    let tells = matches!(first, "tell" | "explain" | "show" | "say" | "describe" | "i");
    let next = head + 1 + usize::from(matches!(word(head + 1), "me" | "us" | "wonder"));
    if asks(ASKING, first)
        || (matches!(first, "do" | "have") && asks(ASKED_OF, word(head + 1)))
        || (tells && asks("how why whether what when where who which if", word(next)))
    {
        return Mood::Question;
    }
    // `I don't recall who` is a question.
    let of_me =
        first == "i" && matches!(word(head + 1), "cant" | "dont" | "cannot" | "forgot" | "forget");
    if of_me
        && (head..head + 4)
            .any(|at| asks("how why whether what when where who which", word(at + 1)))
    {
        return Mood::Question;
    }
    let is_asked = said.text.trim_end().ends_with('?');
    if is_asked && !is_asked_politely { Mood::Question } else { Mood::Order }
}

/// Returns true if the command has a word of doubt from `head` on.
pub(crate) fn is_doubted(words: &[String], head: usize) -> bool {
    words.iter().skip(head).any(|word| DOUBTS.contains(&word.as_str()))
}

/// Returns true if the command is retracted at its end: `forget it, no wait, don't`.
pub(crate) fn is_taken_back(words: &[String], head: usize) -> bool {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    (head..words.len()).any(|at| {
        let next = word(at + 1);
        match word(at) {
            "nevermind" => true,
            "never" => next == "mind",
            "wait" => next.is_empty(),
            "dont" => next.is_empty() || TAKEN_BACK.split_whitespace().any(|order| order == next),
            _ => false,
        }
    })
}

/// Returns true if a negation is between two tokens, other than the tokens at `places`.
pub(crate) fn is_denied(words: &[String], from: usize, to: usize, places: &[usize]) -> bool {
    let denies = |word: &String| {
        matches!(
            word.as_str(),
            "not" | "dont" | "never" | "without" | "cannot" | "shouldnt" | "mustnt" | "nothing"
        )
    };
    let mut between = words.iter().enumerate().take(to.saturating_add(1)).skip(from);
    between.any(|(at, word)| denies(word) && !places.contains(&at))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cues::understood;

    fn read(text: &str) -> (usize, Mood) {
        let said = Said::of(text);
        let Begins { head, mood } = begins(&said, &understood(&said, &BTreeSet::new()));
        (head, mood)
    }

    #[test]
    fn what_is_polite_is_set_aside() {
        for text in [
            "please could you delete it?",
            "hey, would you please delete it",
            "I'd like you to delete it",
            "delete it",
        ] {
            let (head, mood) = read(text);
            assert_eq!((Said::of(text).pieces[head].word.as_str(), mood), ("delete", Mood::Order));
        }
    }

    #[test]
    fn what_is_taken_back_is_no_order() {
        let is = |text: &str| is_taken_back(&understood(&Said::of(text), &BTreeSet::new()), 0);
        for text in [
            "delete it, no wait, it is right",
            "delete it because it is old; never mind",
            "delete it, or rather don't",
            "delete it, but don't do it now",
        ] {
            assert!(is(text), "{text}");
        }
        for text in ["delete it, we don't need it", "delete it because users wait for it"] {
            assert!(!is(text), "{text}");
        }
    }

    #[test]
    fn questions_and_what_is_held_back_are_no_orders() {
        for text in [
            "did anyone delete it",
            "how do I delete it",
            "delete it?",
            "tell me how to delete it",
            "should we go",
        ] {
            assert_eq!(read(text).1, Mood::Question, "{text}");
        }
        for text in [
            "don't delete it",
            "please do not delete it",
            "what would happen if we deleted it?",
            "you should never delete it",
            "maybe delete it",
            "if it is full, delete it",
        ] {
            assert!(matches!(read(text).1, Mood::Held(_)), "{text}");
        }
        assert_eq!(read("don't forget that it is red").1, Mood::Order);
        assert_eq!(read("do a benchmark").1, Mood::Order);
    }
}
