//! How one sentence, which is claimed, stands to another one, which is known.
//!
//! Owns the rules by which they support, differ or tell nothing of each other. Whatever is not covered by a rule is
//! nothing: a word too many on one side may make it another subject.

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

/// In what two texts differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One denies what the other says.
    Negation,
    /// How much, how many, which version.
    Number,
    /// When.
    Date,
    /// What it is, or which of two states.
    Value,
}

impl Kind {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Negation => "negation",
            Self::Number => "number",
            Self::Date => "date",
            Self::Value => "value",
        }
    }
}

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// In what.
    pub kind: Kind,
    /// What the claim says there.
    pub claimed: String,
    /// What is known.
    pub known: String,
}

impl Difference {
    pub(super) fn of(kind: Kind, claimed: &str, known: &str) -> Self {
        let told = |said: &str| said.chars().take(TOLD_CHARS_MAX).collect();
        Self { kind, claimed: told(claimed), known: told(known) }
    }
}

/// How a claim stands to what is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation {
    /// It says the same, or more.
    Supports,
    /// It speaks of the same and says something else.
    Differs(Difference),
    /// It does not tell.
    Silent,
}

/// A relation, and how much of the claim it rests on: 0 to 1.
#[derive(Debug, Clone)]
pub(super) struct Related {
    pub(super) relation: Relation,
    pub(super) score: f32,
}

/// Share of a claim's weight that what supports it must have.
const COVERED_MIN: f32 = 0.78;

/// The same where the caller's vectors say that both are about the same.
const COVERED_MIN_NEAR: f32 = 0.7;

/// Cosine from which on they do.
const NEAR: f32 = 0.85;

/// Stems of what goes by a timetable.
const GOING: [&str; 4] = ["leav", "depart", "arriv", "sail"];

/// Stems of what has one date only.
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

/// Holds a claim against a sentence. `context` has the words that the sentence leans on, `near` is the cosine of the
/// two texts where it is known.
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

/// Where a difference was found.
enum Found {
    /// Facts of the claim and of the other.
    Fact(usize, usize),
    /// Words of both that name a state.
    State(usize, usize),
    /// A word of the claim that one of them denies.
    Denied(usize),
}

/// In what the two differ as far as facts, states and negations go, and whether the claim has a fact or a state of
/// which the other tells nothing.
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

/// Whether the other sentence says what the claim does: all its words of weight stand in one statement there, and what
/// both leave open is left open by the other alone. Where the vectors are near, one word may be another.
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

/// The state of this pair, and which of the two it is.
fn state_of(sentence: &Sentence, pair: u8) -> Option<(usize, bool)> {
    sentence.words.iter().enumerate().find_map(|(at, word)| match word.role {
        Role::State(of, is) if of == pair => Some((at, is != word.is_denied)),
        _ => None,
    })
}

/// The word by which one denies what the other says.
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

/// Whether it tells when something goes that goes more than once: `The train leaves at 8:15.`
fn is_timetabled(claim: &Sentence) -> bool {
    let goes = |word: &Word| word.fact.is_none() && GOING.contains(&word.stem.as_str());
    claim.words.iter().any(goes)
}

/// What the difference is, where both speak of the same.
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
