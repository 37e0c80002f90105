//! Subject comparison: decides whether two sentences have the same subject.
//!
//! Other qualifiers, modifiers, prepositions, verbs or swapped roles make another subject.

use super::matched::{Facts, Matched, core};
use super::prose::{Sentence, Word};
use super::words::Role;

/// Index of the qualifier set for environments.
const ENVIRONMENTS: u8 = 0;

/// Asymmetric words: swapping the words on both sides changes the meaning.
const DIRECTED: [&str; 28] = [
    "more-than",
    "less-than",
    "before",
    "after",
    "than",
    "review",
    "call",
    "own",
    "block",
    "trust",
    "report",
    "depend",
    "replac",
    "from",
    "to",
    "over",
    "beat",
    "pay",
    "send",
    "ask",
    "help",
    "follow",
    "import",
    "mentor",
    "train",
    "manag",
    "back",
    "hir",
];

/// Verbs and signs that link a subject to its predicate.
const LINKS: [&str; 9] = ["is", "are", "was", "were", ":", "=", "has", "have", "be"];

/// Returns true if one sentence has a qualifier that the other lacks or replaces.
pub(super) fn qualifiers_differ(
    claim: &Sentence,
    known: &Sentence,
    matched: &Matched,
    facts: &Facts,
    context: &[Word],
) -> bool {
    let is_qualifier = |word: &Word| matches!(word.role, Role::Qualifier(_)) && word.fact.is_none();
    let missing =
        claim.words.iter().enumerate().any(|(at, word)| is_qualifier(word) && !matched.has(at));
    if missing {
        return true;
    }
    let core = core(known, matched, facts);
    let words = known.words.iter().enumerate();
    let extra = words.filter(|(at, word)| is_qualifier(word) && !matched.of_known[*at]);
    let in_context = |word: &Word| context.iter().any(|other| other.stem == word.stem);
    // `the old box`, about an unmatched box, does not qualify the claim; an environment qualifies the whole sentence.
    let of_another = |at: usize| {
        known.words[at].role != Role::Qualifier(ENVIRONMENTS)
            && known
                .words
                .get(at + 1)
                .is_some_and(|next| next.is_joined && next.is_heavy() && !matched.of_known[at + 1])
    };
    extra
        .into_iter()
        .any(|(at, word)| core.contains(&word.clause) && !in_context(word) && !of_another(at))
}

/// Returns true if the words before and after an asymmetric word are swapped in the other sentence.
pub(super) fn is_swapped(claim: &Sentence, known: &Sentence, matched: &Matched) -> bool {
    let is_directed = |word: &Word| word.fact.is_none() && DIRECTED.contains(&word.stem.as_str());
    for at in (0..claim.words.len()).filter(|&at| is_directed(&claim.words[at])) {
        let other = match matched.of_claim[at] {
            Some(other) => Some(other),
            None => known.words.iter().position(|word| word.stem == claim.words[at].stem),
        };
        let Some(other) = other else { continue };
        let crosses = |words: std::ops::Range<usize>, is_behind: bool| {
            words.into_iter().any(|n| {
                claim.words[n].is_heavy()
                    && matched.of_claim[n]
                        .is_some_and(|there| (there > other) == is_behind && there != other)
            })
        };
        let left = crosses(0..at, true);
        let right = crosses(at + 1..claim.words.len(), false);
        let turned = claim.is_passive != known.is_passive;
        if left && right && !turned && claim.words[at].stem != "own" {
            return true;
        }
    }
    false
}

/// Returns true if neither sentence has a content word that the other lacks, in the clauses with common words: each
/// could change the subject.
pub(super) fn is_same_subject(
    claim: &Sentence,
    known: &Sentence,
    matched: &Matched,
    facts: &Facts,
) -> bool {
    let own: Vec<u8> = (0..claim.words.len())
        .filter(|&at| {
            claim.words[at].fact.is_some() || claim.words[at].is_heavy() && matched.has(at)
        })
        .map(|at| claim.words[at].clause)
        .collect();
    let missing = claim
        .words
        .iter()
        .enumerate()
        .any(|(at, word)| word.is_heavy() && !matched.has(at) && own.contains(&word.clause));
    let core = core(known, matched, facts);
    let extra = known.words.iter().enumerate().any(|(at, word)| {
        word.is_heavy() && !word.is_agent && !matched.of_known[at] && core.contains(&word.clause)
    });
    let shared: usize =
        (0..claim.words.len()).filter(|&at| claim.words[at].is_heavy() && matched.has(at)).count();
    !missing && !extra && shared >= 1
}

/// Returns true if a common word has incompatible prepositions: `to Frankfurt` and `from Frankfurt`, `in room 12` and
/// `about room 12`.
pub(super) fn leads_elsewhere(claim: &Sentence, known: &Sentence, matched: &Matched) -> bool {
    let place = |led_by: &'static str| if matches!(led_by, "on" | "at") { "in" } else { led_by };
    let is_open = |led_by: &str| matches!(led_by, "" | "of");
    claim.words.iter().enumerate().any(|(at, word)| {
        let Some(other) = matched.of_claim[at].filter(|_| word.is_heavy()) else { return false };
        let (one, two) = (place(word.led_by), place(known.words[other].led_by));
        one != two && !is_open(one) && !is_open(two)
    })
}

/// Returns true if the known sentence has another verb: `payments are handled by` and `we evaluated`. The claim's verb
/// has little meaning and no counterpart, and an unmatched word of the known sentence may be a verb.
pub(super) fn has_other_verb(claim: &Sentence, known: &Sentence, matched: &Matched) -> bool {
    let links =
        |sentence: &Sentence| sentence.words.iter().any(|word| LINKS.contains(&word.stem.as_str()));
    let lacks_light = claim
        .words
        .iter()
        .enumerate()
        .any(|(at, word)| word.role == Role::Light && word.fact.is_none() && !matched.has(at));
    let lacks_link = links(claim) && !links(known);
    let opens = |at: usize| known.words.get(at + 1).is_some_and(|next| next.stem == ":");
    let core = core(known, matched, &Vec::new());
    let has_own = known.words.iter().enumerate().any(|(at, word)| {
        word.is_heavy()
            && !word.is_name
            && !matched.of_known[at]
            && word.led_by.is_empty()
            && !word.is_joined
            && !opens(at)
            && core.contains(&word.clause)
    });
    (lacks_light || lacks_link) && has_own
}

/// Returns true if the known sentence is about a part of the claim's subject: an additional word modifies a common one,
/// as in `database backups`.
pub(super) fn is_narrower(claim: &Sentence, known: &Sentence, matched: &Matched) -> bool {
    known.words.windows(2).enumerate().any(|(at, pair)| {
        let is_modifier = pair[0].is_heavy() && !matched.of_known[at] && pair[1].is_joined;
        let joined_in_claim =
            || claim.words.iter().any(|word| word.stem == pair[1].stem && word.is_joined);
        is_modifier && matched.of_known[at + 1] && pair[1].is_heavy() && !joined_in_claim()
    })
}
