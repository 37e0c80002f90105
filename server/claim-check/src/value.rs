//! Value differences: sentences equal except for a value, of subjects that have a single value.

use super::matched::Matched;
use super::prose::{Sentence, Word};
use super::relate::{Difference, Kind};

/// Stems of single-valued terms.
const SINGLE: [&str; 42] = [
    "default",
    "branch",
    "own",
    "maintain",
    "lead",
    "manag",
    "port",
    "databas",
    "languag",
    "region",
    "timezon",
    "licenc",
    "address",
    "format",
    "encod",
    "level",
    "stor",
    "write-in",
    "host",
    "primary",
    "nam",
    "capital",
    "keep",
    "editor",
    "deploy",
    "colour",
    "currency",
    "provid",
    "regist",
    "oncall",
    "balanc",
    "mode",
    "theme",
    "located",
    "framework",
    "queue",
    "broker",
    "locat",
    "runtim",
    "shell",
    "contact",
    "log_format",
];

/// Returns the difference of two sentences that are equal except for the value: `the default branch is main`.
pub(super) fn other_value(
    claim: &Sentence,
    known: &Sentence,
    matched: &Matched,
) -> Option<Difference> {
    let ((from, to), (from_known, to_known)) = (claim.value?, known.value?);
    let (one, other) = (claim.value_words(), known.value_words());
    let shares = one
        .iter()
        .any(|word| other.iter().any(|there| there.stem == word.stem && word.fact.is_none()));
    let in_subject = |word: &Word, sentence: &Sentence| {
        sentence.words.iter().any(|there| there.stem == word.stem && there.is_heavy())
    };
    let moved = one.iter().any(|word| in_subject(word, known))
        || other.iter().any(|word| in_subject(word, claim));
    let are_words = one.iter().chain(other).any(Word::is_heavy)
        && one.iter().any(Word::is_heavy)
        && other.iter().any(Word::is_heavy);
    if shares
        || moved
        || !are_words
        || claim.words[from].is_denied
        || known.words[from_known].is_denied
    {
        return None;
    }
    let subject = |sentence: &Sentence, value: std::ops::Range<usize>| -> Vec<usize> {
        let heavy = |at: &usize| sentence.words[*at].is_heavy() && !value.contains(at);
        (0..sentence.words.len()).filter(heavy).collect()
    };
    let mine = subject(claim, from..to);
    let clause = known.words[from_known].clause;
    let theirs: Vec<usize> = subject(known, from_known..to_known)
        .into_iter()
        .filter(|&at| known.words[at].clause <= clause)
        .collect();
    let all_mine = mine.iter().all(|&at| matched.has(at));
    let all_theirs =
        theirs.iter().all(|&at| matched.of_known[at] || known.words[at].clause != clause);
    let is_single = claim
        .words
        .iter()
        .chain(&known.words)
        .any(|word| (word.fact.is_none()) && SINGLE.contains(&word.stem.as_str()));
    let are_names = one.iter().all(|word| word.is_name)
        && other.iter().all(|word| word.is_name)
        && mine.len() > 1;
    let is_place = |sentence: &Sentence, from: usize| {
        from > 0 && matches!(sentence.words[from - 1].stem.as_str(), "in" | "on")
    };
    let are_places = is_place(claim, from) && is_place(known, from_known) && !mine.is_empty();
    if mine.is_empty() || !all_mine || !all_theirs || !(is_single || are_names || are_places) {
        return None;
    }
    let said =
        |words: &[Word]| words.iter().map(|word| word.said.as_str()).collect::<Vec<_>>().join(" ");
    Some(Difference::of(Kind::Value, &said(one), &said(other)))
}
