//! How one sentence, which is claimed, stands to another one, which is known.
//!
//! Owns the rules by which they support, differ or tell nothing of each other. Whatever is not covered by a rule is
//! nothing: a word too many on one side may make it another subject.

use super::TOLD_CHARS_MAX;
use super::facts::Compared;
use super::prose::{Sentence, Word};
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
    fn of(kind: Kind, claimed: &str, known: &str) -> Self {
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
/// The set of qualifiers that are environments.
const ENVIRONMENTS: u8 = 0;
const WEIGHT: f32 = 1.0;
const WEIGHT_OF_NAMES: f32 = 1.5;
const WEIGHT_OF_LIGHT: f32 = 0.2;

/// Stems of what can have one value only.
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
/// Verbs and words that stand between two who cannot change places.
const DIRECTED: [&str; 26] = [
    "before", "after", "than", "review", "call", "own", "block", "trust", "report", "depend",
    "replac", "from", "to", "over", "beat", "pay", "send", "ask", "help", "follow", "import",
    "mentor", "train", "manag", "back", "hir",
];

/// Pairs of words that both sentences have.
struct Matched {
    /// For each word of the claim its place in the other.
    of_claim: Vec<Option<usize>>,
    /// Whether each word of the other has one.
    of_known: Vec<bool>,
    /// Words of the claim that stand in the title or the sentence before.
    by_context: Vec<bool>,
}

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
    if let Some(at) = denied(claim, known, &matched, &facts) {
        differences.push(Found::Denied(at));
    }
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
    let wanted = if near.is_some_and(|near| near >= NEAR) { COVERED_MIN_NEAR } else { COVERED_MIN };
    let in_one = statement_has(claim, known, &matched, &facts, context);
    let may_support = !unknown
        && in_one.is_some_and(|missing| missing == 0 || wanted < COVERED_MIN && missing == 1)
        && covered >= wanted
        && !misses_name(claim, &matched)
        && !leads_elsewhere(claim, known, &matched)
        && !has_other_verb(claim, known, &matched)
        && (!claim.of_all || known.of_all)
        && (!claim.has_only || known.has_only)
        && (!known.of_some || claim.of_some)
        && !is_narrower(claim, known, &matched)
        && weight_of_matched(claim, &matched, &facts) >= 2.0 * WEIGHT;
    let relation = if may_support { Relation::Supports } else { Relation::Silent };
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

impl Matched {
    fn of(claim: &Sentence, known: &Sentence, context: &[Word]) -> Self {
        let mut of_known = vec![false; known.words.len()];
        let mut of_claim = Vec::with_capacity(claim.words.len());
        let mut by_context = Vec::with_capacity(claim.words.len());
        for word in &claim.words {
            if word.fact.is_some() || word.role == Role::Filler {
                of_claim.push(None);
                by_context.push(false);
                continue;
            }
            let mut same = (0..known.words.len())
                .filter(|&at| known.words[at].fact.is_none() && known.words[at].stem == word.stem);
            let first = same.clone().next();
            let alike =
                same.find(|&at| known.words[at].is_denied == word.is_denied && !of_known[at]);
            let found = alike.or(first);
            if let Some(at) = found {
                for other in (0..known.words.len()).filter(|&at| known.words[at].stem == word.stem)
                {
                    of_known[other] = true;
                }
                of_known[at] = true;
            }
            by_context.push(found.is_none() && context.iter().any(|other| other.stem == word.stem));
            of_claim.push(found);
        }
        Self { of_claim, of_known, by_context }
    }

    fn has(&self, at: usize) -> bool {
        self.of_claim[at].is_some() || self.by_context[at]
    }
}

type Facts = Vec<Option<(usize, Compared)>>;

/// For each fact of the claim the one of the other sentence that is the same amount of the same, and what follows.
/// Of several it is the one whose clause has most of the claim's words.
fn facts_of(claim: &Sentence, known: &Sentence, matched: &Matched) -> Facts {
    let clause_of = |sentence: &Sentence, fact: usize| {
        sentence.words.iter().find(|word| word.fact == Some(fact)).map_or(0, |word| word.clause)
    };
    let shared_in = |clause: u8| {
        let words = known.words.iter().zip(&matched.of_known);
        words
            .filter(|(word, is_shared)| **is_shared && word.clause == clause && word.is_heavy())
            .count()
    };
    let of = |one: &super::facts::Fact| {
        let meeting = known.facts.iter().enumerate().filter(|(_, other)| one.meets(other));
        let ranked = meeting.map(|(at, other)| {
            let compared = one.against(other);
            let rank = (
                shared_in(clause_of(known, at)),
                one.is_same_kind(other),
                compared == Compared::Agree,
                usize::MAX - at,
            );
            (rank, at, compared)
        });
        ranked.max_by_key(|(rank, ..)| *rank).map(|(_, at, compared)| (at, compared))
    };
    claim.facts.iter().map(of).collect()
}

fn weight(word: &Word) -> f32 {
    match word.role {
        _ if word.fact.is_some() => WEIGHT,
        Role::Content if word.is_name => WEIGHT_OF_NAMES,
        Role::Content | Role::Qualifier(_) | Role::State(..) => WEIGHT,
        Role::Light => WEIGHT_OF_LIGHT,
        _ => 0.0,
    }
}

/// Whether a word of the claim is in the other, be it as a fact or a state of the same pair.
fn is_covered(claim: &Sentence, at: usize, matched: &Matched, facts: &Facts) -> bool {
    match claim.words[at].fact {
        Some(fact) => facts[fact].is_some(),
        None => matched.has(at) || matches!(claim.words[at].role, Role::State(..)),
    }
}

fn covered(claim: &Sentence, matched: &Matched, facts: &Facts) -> f32 {
    let all: f32 = claim.words.iter().map(weight).sum();
    let has = weight_of_matched(claim, matched, facts);
    if all > 0.0 { has / all } else { 0.0 }
}

fn weight_of_matched(claim: &Sentence, matched: &Matched, facts: &Facts) -> f32 {
    let words = claim.words.iter().enumerate();
    words
        .filter(|(at, _)| is_covered(claim, *at, matched, facts))
        .map(|(_, word)| weight(word))
        .sum()
}

/// Whether the claim has a name that the other lacks: nothing of it can be told then.
fn misses_name(claim: &Sentence, matched: &Matched) -> bool {
    let mut words = claim.words.iter().enumerate();
    words.any(|(at, word)| (word.is_name && word.is_heavy()) && !matched.has(at))
}

/// The state of this pair, and which of the two it is.
fn state_of(sentence: &Sentence, pair: u8) -> Option<(usize, bool)> {
    sentence.words.iter().enumerate().find_map(|(at, word)| match word.role {
        Role::State(of, is) if of == pair => Some((at, is != word.is_denied)),
        _ => None,
    })
}

/// Clauses of the known sentence that have something of the claim.
fn core(known: &Sentence, matched: &Matched, facts: &Facts) -> Vec<u8> {
    let words = known.words.iter().enumerate();
    let is_in = |at: usize, word: &Word| {
        let fact =
            word.fact.is_some_and(|fact| facts.iter().flatten().any(|(other, _)| *other == fact));
        fact || matched.of_known[at] && word.is_heavy()
    };
    let mut clauses: Vec<u8> =
        words.filter(|(at, word)| is_in(*at, word)).map(|(_, word)| word.clause).collect();
    clauses.dedup();
    clauses
}

/// Whether one side has a word that tells things of one kind apart, and the other another one or none.
fn qualifiers_differ(
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
    // `the old box` tells of a box that the claim does not speak of; an environment is one of the whole sentence.
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

/// Whether what stands before a directed word in one stands behind it in the other.
fn is_swapped(claim: &Sentence, known: &Sentence, matched: &Matched) -> bool {
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

/// Words of the claim that the other lacks, and of the clauses of the other that speak of the same those that the
/// claim lacks: each may make it another subject.
fn is_same_subject(claim: &Sentence, known: &Sentence, matched: &Matched, facts: &Facts) -> bool {
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
                && (one.key == "day" || is_event)
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

/// The difference of two sentences that are the same but for the value: `the default branch is main`.
fn other_value(claim: &Sentence, known: &Sentence, matched: &Matched) -> Option<Difference> {
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

/// How many words of weight the claim has beyond that statement of the other sentence which has most of them. A
/// statement is what stands around one subject: another begins with a clause that has a subject of its own, and in
/// `Wei, who owns the parser` it is the word before.
fn statement_has(
    claim: &Sentence,
    known: &Sentence,
    matched: &Matched,
    facts: &Facts,
    context: &[Word],
) -> Option<usize> {
    let statements = statements(known, matched);
    let last = statements.iter().map(|(statement, _)| *statement).max()?;
    let weighty = |at: &usize| claim.words[*at].fact.is_some() || claim.words[*at].is_heavy();
    let has = |statement: u8, at: usize| {
        let word = &claim.words[at];
        let there = |other: usize| {
            statements[other].0 == statement || statements[other].1 == Some(statement)
        };
        match word.fact {
            Some(fact) => facts[fact].is_some_and(|(fact, _)| {
                (0..known.words.len())
                    .any(|other| known.words[other].fact == Some(fact) && there(other))
            }),
            None => {
                let in_known = (0..known.words.len()).any(|other| {
                    known.words[other].fact.is_none()
                        && known.words[other].stem == word.stem
                        && there(other)
                });
                in_known
                    || matched.by_context[at] && context.iter().any(|other| other.stem == word.stem)
            }
        }
    };
    (0..=last)
        .map(|statement| {
            (0..claim.words.len()).filter(weighty).filter(|&at| !has(statement, at)).count()
        })
        .min()
}

/// For each word the statement that it belongs to, and a second one where it is the subject of that.
fn statements(known: &Sentence, matched: &Matched) -> Vec<(u8, Option<u8>)> {
    let mut found: Vec<(u8, Option<u8>)> = Vec::with_capacity(known.words.len());
    let (mut statement, mut clause) = (0_u8, 0_u8);
    let mut last_heavy: Option<usize> = None;
    let mut returns: Option<u8> = None;
    for (at, word) in known.words.iter().enumerate() {
        if word.clause != clause {
            clause = word.clause;
            let inside = || known.words[at..].iter().take_while(|next| next.clause == clause);
            let is_relative = inside().take(2).any(|next| RELATIVE.contains(&next.stem.as_str()));
            let first =
                known.words[at..].iter().enumerate().take_while(|(_, next)| next.clause == clause);
            let first = first.map(|(n, next)| (at + n, next)).find(|(_, next)| {
                next.is_heavy() || next.role == Role::Light || next.fact.is_some()
            });
            let has_article = inside().take_while(|next| !next.is_heavy()).any(|next| {
                matches!(next.stem.as_str(), "the" | "a" | "an" | "our" | "we" | "they" | "it")
            });
            let is_subject = first.is_some_and(|(n, next)| {
                let is_participle = ["ed", "en", "ing"].iter().any(|end| next.said.ends_with(end));
                next.is_heavy()
                    && next.led_by.is_empty()
                    && !is_participle
                    && (next.is_name || has_article || !matched.of_known[n])
            });
            if is_relative {
                returns.get_or_insert(statement);
                statement = statement.saturating_add(1);
                if let Some(subject) = last_heavy {
                    found[subject].1 = Some(statement);
                }
            } else if is_subject {
                returns = None;
                statement = statement.saturating_add(1);
            } else if let Some(outer) = returns.take() {
                statement = outer;
            }
        }
        if word.is_heavy() {
            last_heavy = Some(at);
        }
        found.push((statement, None));
    }
    found
}

/// Words with which a clause about the word before it begins.
const RELATIVE: [&str; 5] = ["who", "which", "whose", "whom", "where"];

/// Whether a word of the claim is led to by another preposition there: `to Frankfurt` and `from Frankfurt`, `in room
/// 12` and `about room 12`.
fn leads_elsewhere(claim: &Sentence, known: &Sentence, matched: &Matched) -> bool {
    let place = |led_by: &'static str| if matches!(led_by, "on" | "at") { "in" } else { led_by };
    let is_open = |led_by: &str| matches!(led_by, "" | "of");
    claim.words.iter().enumerate().any(|(at, word)| {
        let Some(other) = matched.of_claim[at].filter(|_| word.is_heavy()) else { return false };
        let (one, two) = (place(word.led_by), place(known.words[other].led_by));
        one != two && !is_open(one) && !is_open(two)
    })
}

/// Whether the claim's verb is one that says little, and the other sentence has none of it but a word of its own that
/// may be another verb: `payments are handled by` and `we evaluated`.
fn has_other_verb(claim: &Sentence, known: &Sentence, matched: &Matched) -> bool {
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

/// Words that link a subject to what it is.
const LINKS: [&str; 9] = ["is", "are", "was", "were", ":", "=", "has", "have", "be"];

/// Whether the other sentence speaks of a part of what the claim does: a word of its own stands before one of the
/// claim's and belongs to it, as in `database backups`.
fn is_narrower(claim: &Sentence, known: &Sentence, matched: &Matched) -> bool {
    known.words.windows(2).enumerate().any(|(at, pair)| {
        let is_modifier = pair[0].is_heavy() && !matched.of_known[at] && pair[1].is_joined;
        let joined_in_claim =
            || claim.words.iter().any(|word| word.stem == pair[1].stem && word.is_joined);
        is_modifier && matched.of_known[at + 1] && pair[1].is_heavy() && !joined_in_claim()
    })
}
