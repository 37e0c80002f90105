//! Entailment rules: decide whether a known sentence supports or contradicts a claimed one.
//!
//! Sentences beyond the rules are unrelated, as any additional word may change the subject.

use super::TOLD_CHARS_MAX;
use super::facts::Compared;
use super::matched::{Facts, Matched, WEIGHT, covered, facts_of, misses_name, weight_of_matched};
use super::prose::{Sentence, Word};
use super::statement::statement_has;
use super::subject::{
    has_other_verb, is_narrower, is_same_subject, is_swapped, leads_elsewhere, qualifiers_differ,
};
use super::value::other_value;
use super::words::Role;

/// Kind of a difference between two texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Negation: the claim is negated by the text, or the text by the claim.
    Negation,
    /// Amounts, counts or versions differ.
    Number,
    /// Dates or times differ.
    Date,
    /// Values, or opposite states, differ.
    Value,
}

impl Kind {
    /// Name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Negation => "negation",
            Self::Number => "number",
            Self::Date => "date",
            Self::Value => "value",
        }
    }
}

/// Difference between a claim and a known text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Kind of the difference.
    pub kind: Kind,
    /// Words of the claim.
    pub claimed: String,
    /// Words of the known text.
    pub known: String,
}

impl Difference {
    pub(super) fn of(kind: Kind, claimed: &str, known: &str) -> Self {
        let told = |said: &str| said.chars().take(TOLD_CHARS_MAX).collect();
        Self { kind, claimed: told(claimed), known: told(known) }
    }
}

/// Relation of a known text to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation {
    /// The text entails the claim.
    Supports,
    /// The text contradicts the claim, on the same subject.
    Differs(Difference),
    /// The text is unrelated.
    Silent,
}

/// Relation with its score: the covered share of the claim, 0 to 1.
#[derive(Debug, Clone)]
pub(super) struct Related {
    pub(super) relation: Relation,
    pub(super) score: f32,
}

/// Lowest coverage of a supported claim.
const COVERED_MIN: f32 = 0.78;

/// Lowest coverage if the cosine reaches `NEAR`.
const COVERED_MIN_NEAR: f32 = 0.7;

/// Cosine of texts on the same subject.
const NEAR: f32 = 0.85;

/// Stems of timetable verbs.
const GOING: [&str; 4] = ["leav", "depart", "arriv", "sail"];

/// Stems of terms with a single date.
const SINGLE_DATES: [&str; 32] = [
    "due",
    "deadlin",
    "releas",
    "start",
    "end",
    "expir",
    "until",
    "finish",
    "found",
    "born",
    "valid",
    "launch",
    "freez",
    "schedul",
    "clos",
    "open",
    "join",
    "plan",
    "last",
    "rebuilt",
    "rotat",
    "sunset",
    "retir",
    "renew",
    "lease",
    "ship",
    "complet",
    "done",
    "finished",
    "completed",
    "closed",
    "opened",
];

/// Relates a claim to a known sentence. `context` has the words that the sentence may omit, `near` the cosine of the
/// two texts, if known.
pub(super) fn relate(
    claim: &Sentence,
    known: &Sentence,
    context: &[Word],
    near: Option<f32>,
) -> Related {
    let silent = |score| Related { relation: Relation::Silent, score };
    let matched = Matched::of(claim, known, context);
    let facts = facts_of(claim, known, &matched);
    let covered = covered(claim, &matched, &facts);
    if claim.is_hedged
        || known.is_hedged
        || claim.is_past != known.is_past
        || claim.is_conditional != known.is_conditional
    {
        return silent(covered.min(0.5));
    }
    if qualifiers_differ(claim, known, &matched, &facts, context)
        || is_swapped(claim, known, &matched)
    {
        return silent(covered.min(0.5));
    }
    let (differences, unknown) = differences(claim, known, &matched, &facts);
    match differences.as_slice() {
        [] => {}
        [one] => {
            let difference = differ(claim, known, &matched, one, &facts);
            return match difference {
                Some(difference) if !unknown => {
                    Related { relation: Relation::Differs(difference), score: covered.max(0.6) }
                }
                _ => silent(covered.min(0.5)),
            };
        }
        _ => return silent(covered.min(0.5)),
    }
    if let Some(difference) = other_value(claim, known, &matched) {
        let is_plain = !claim.of_some && !known.of_some && !claim.has_only;
        let relation = if is_plain { Relation::Differs(difference) } else { Relation::Silent };
        return Related { relation, score: covered.max(0.6) };
    }
    let supports = !unknown && supports(claim, known, &matched, &facts, (context, near));
    let relation = if supports { Relation::Supports } else { Relation::Silent };
    Related { relation, score: covered }
}

/// Position of a difference.
enum Found {
    /// Indices of the claimed and the known fact.
    Fact(usize, usize),
    /// Indices of the claimed and the known state word.
    State(usize, usize),
    /// Index of the claim's word that is negated in one sentence only.
    Denied(usize),
}

/// Returns the differences in facts, states and negations. The flag is true if the known sentence leaves a fact or a
/// state of the claim unknown.
fn differences(
    claim: &Sentence,
    known: &Sentence,
    matched: &Matched,
    facts: &Facts,
) -> (Vec<Found>, bool) {
    let mut differences = Vec::new();
    let mut unknown = facts.iter().any(|fact| matches!(fact, Some((_, Compared::Unknown)) | None));
    for (at, fact) in facts.iter().enumerate() {
        if let Some((other, Compared::Differ)) = fact {
            differences.push(Found::Fact(at, *other));
        }
    }
    for (at, word) in claim.words.iter().enumerate() {
        if let Role::State(pair, is) = word.role {
            match state_of(known, pair) {
                Some((other, was)) if (is != word.is_denied) != was => {
                    differences.push(Found::State(at, other))
                }
                Some(_) => {}
                None => unknown |= matched.of_claim[at].is_none(),
            }
        }
    }
    if let Some(at) = denied(claim, known, matched, facts) {
        differences.push(Found::Denied(at));
    }
    (differences, unknown)
}

/// Returns true if the known sentence entails the claim: one statement has all content words of the claim, and no word
/// or quantifier narrows the sentence. If the cosine is high, one word may be missing.
fn supports(
    claim: &Sentence,
    known: &Sentence,
    matched: &Matched,
    facts: &Facts,
    (context, near): (&[Word], Option<f32>),
) -> bool {
    let wanted = if near.is_some_and(|near| near >= NEAR) { COVERED_MIN_NEAR } else { COVERED_MIN };
    let covered = covered(claim, matched, facts);
    let in_one = statement_has(claim, known, matched, facts, context);
    in_one.is_some_and(|missing| missing == 0 || wanted < COVERED_MIN && missing == 1)
        && covered >= wanted
        && !misses_name(claim, matched)
        && !leads_elsewhere(claim, known, matched)
        && !has_other_verb(claim, known, matched)
        && (!claim.of_all || known.of_all)
        && (!claim.has_only || known.has_only)
        && (!known.of_some || claim.of_some)
        && !is_narrower(claim, known, matched)
        && weight_of_matched(claim, matched, facts) >= 2.0 * WEIGHT
}

/// Index of the word for a state of this pair, and the side after negation.
fn state_of(sentence: &Sentence, pair: u8) -> Option<(usize, bool)> {
    sentence.words.iter().enumerate().find_map(|(at, word)| match word.role {
        Role::State(of, is) if of == pair => Some((at, is != word.is_denied)),
        _ => None,
    })
}

/// Index of the claim's word that is negated in one sentence only.
fn denied(claim: &Sentence, known: &Sentence, matched: &Matched, facts: &Facts) -> Option<usize> {
    let (mut both, mut one): (bool, Option<usize>) = (false, None);
    for (at, word) in claim.words.iter().enumerate() {
        let other = match word.fact {
            Some(fact) => facts[fact]
                .filter(|(_, compared)| *compared == Compared::Agree)
                .and_then(|(fact, _)| known.words.iter().position(|word| word.fact == Some(fact))),
            None if matches!(word.role, Role::State(..)) => None,
            None => matched.of_claim[at],
        };
        let Some(other) = other else { continue };
        let known = known.words[other].is_denied;
        let is_light = word.fact.is_none() && !word.is_heavy();
        both |= word.is_denied && known && !is_light;
        if word.is_denied != known && (one.is_none() || !is_light) {
            one = Some(at);
        }
    }
    one.filter(|_| !both)
}

/// Returns true for a departure that may recur: `The train leaves at 8:15.`
fn is_timetabled(claim: &Sentence) -> bool {
    let goes = |word: &Word| word.fact.is_none() && GOING.contains(&word.stem.as_str());
    claim.words.iter().any(goes)
}

/// Describes the difference, if both sentences have the same subject.
fn differ(
    claim: &Sentence,
    known: &Sentence,
    matched: &Matched,
    found: &Found,
    facts: &Facts,
) -> Option<Difference> {
    let quantified =
        claim.of_some || known.of_some || claim.has_only != known.has_only && claim.has_only;
    if quantified || !is_same_subject(claim, known, matched, facts) {
        return None;
    }
    match *found {
        Found::Fact(one, other) => {
            let (one, other) = (&claim.facts[one], &known.facts[other]);
            let is_single = |sentence: &Sentence| {
                sentence
                    .words
                    .iter()
                    .any(|word| word.fact.is_none() && SINGLE_DATES.contains(&word.stem.as_str()))
            };
            let is_event = claim.is_event || known.is_event;
            let may_repeat = one.is_date()
                && (one.key == "day" || is_event || is_timetabled(claim))
                && !is_single(claim)
                && !is_single(known);
            let is_denied = |sentence: &Sentence, said: &str| {
                sentence
                    .words
                    .iter()
                    .any(|word| word.fact.is_some() && word.said == said && word.is_denied)
            };
            let happened = !one.is_date() && claim.is_event && known.is_event;
            if may_repeat
                || happened
                || is_denied(claim, &one.said)
                || is_denied(known, &other.said)
            {
                return None;
            }
            let kind = if one.is_date() { Kind::Date } else { Kind::Number };
            Some(Difference::of(kind, &one.said, &other.said))
        }
        Found::State(one, other) => {
            let said = |sentence: &Sentence, at: usize| {
                let not = if sentence.words[at].is_denied { "not " } else { "" };
                format!("{not}{}", sentence.words[at].said)
            };
            let is_same = claim.words[one].stem == known.words[other].stem;
            let kind = if is_same { Kind::Negation } else { Kind::Value };
            Some(Difference::of(kind, &said(claim, one), &said(known, other)))
        }
        Found::Denied(at) => {
            let lacks = known.facts.len() > claim.facts.len();
            let said = |is_denied: bool| {
                format!("{}{}", if is_denied { "not " } else { "" }, claim.words[at].said)
            };
            let is = claim.words[at].is_denied;
            (!lacks).then(|| Difference::of(Kind::Negation, &said(is), &said(!is)))
        }
    }
}
