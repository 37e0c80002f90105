//! Judging: how a claim stands to a text, and in what two texts differ, without a language model.
//!
//! Owns the rules; they are words, amounts, dates, states and negations, so that each verdict can say why. Texts are
//! English; of others only names and amounts can be compared. What the rules do not cover is silence: better nothing
//! said than something made up. Knows no store, no items and no vectors; a caller may say how near two texts are.
#![forbid(unsafe_code)]

mod dates;
mod facts;
mod matched;
mod prose;
mod relate;
mod statement;
mod subject;
mod tokens;
mod units;
mod value;
mod words;

pub use prose::Prose;
use prose::{Sentence, Word};
pub use relate::{Difference, Kind, Relation};
use relate::{Related, relate};

limit_table::limits! {
    pub const LIMITS = [facts, prose, tokens];

    /// Sentences of a claim that are judged.
    const CLAIM_SENTENCES_MAX: usize = 8;
    /// Pairs of sentences of two texts that are compared.
    const PAIRS_MAX: usize = 1_024;
    /// Characters of what differs that are told.
    const TOLD_CHARS_MAX: usize = 60;
}

/// How a claim stands to a text.
#[derive(Debug, Clone)]
pub struct Judged {
    /// Which way.
    pub relation: Relation,
    /// How much of the claim the text covers, 0 to 1.
    pub score: f32,
    /// The sentence that says most of it; empty where none says anything.
    pub sentence: String,
}

/// Judges a claim by a text. `near` is the cosine of the two where it is known: of texts that are near, fewer words
/// have to be the same. A claim of several sentences is supported where all are, and differs where one does.
pub fn judge(claim: &Prose, text: &Prose, near: Option<f32>) -> Judged {
    let mut whole = Judged { relation: Relation::Silent, score: 0.0, sentence: String::new() };
    let sentences = claim.sentences.len();
    if sentences == 0 || sentences > CLAIM_SENTENCES_MAX {
        return whole;
    }
    let mut supported = 0;
    let mut least = 1.0_f32;
    for (at, one) in claim.sentences.iter().enumerate() {
        // `It runs nightly` behind another sentence of the claim speaks of what that one does.
        let (related, sentence) = best(one, text, near, at > 0 && one.leans);
        match related.relation {
            Relation::Differs(_) => {
                return Judged { relation: related.relation, score: related.score, sentence };
            }
            Relation::Supports => supported += 1,
            Relation::Silent => {}
        }
        least = least.min(related.score);
        if whole.sentence.is_empty() {
            whole.sentence = sentence;
        }
    }
    whole.score = least;
    if supported == sentences {
        whole.relation = Relation::Supports;
    }
    whole
}

/// What the sentence of a text that says most of a claim says of it. One that supports it stands before one that
/// differs: that may speak of another time or place.
fn best(claim: &Sentence, text: &Prose, near: Option<f32>, leans: bool) -> (Related, String) {
    let mut best = Related { relation: Relation::Silent, score: 0.0 };
    let mut said = String::new();
    if leans {
        return (best, said);
    }
    for (at, known) in text.sentences.iter().enumerate() {
        let context = context_of(text, at);
        let related = relate(claim, known, &context, near);
        let rank = |related: &Related| match related.relation {
            Relation::Supports => 2,
            Relation::Differs(_) => 1,
            Relation::Silent => 0,
        };
        let is_better = (rank(&related), related.score) > (rank(&best), best.score);
        if is_better {
            said.clone_from(&known.said);
            best = related;
        }
    }
    (best, said)
}

/// The words that a sentence may leave out: those of the title, and of the sentence before one that begins with `it`.
fn context_of(text: &Prose, at: usize) -> Vec<Word> {
    let mut context = text.title.clone();
    if text.sentences[at].leans
        && let Some(before) = at.checked_sub(1).and_then(|before| text.sentences.get(before))
    {
        context.extend(before.words.iter().filter(|word| word.is_heavy()).cloned());
    }
    context
}

/// In what two texts differ, where they speak of the same, and how sure that is, 0 to 1. It must follow from either
/// side.
pub fn difference(one: &Prose, other: &Prose, near: Option<f32>) -> Option<(Difference, f32)> {
    let mut compared = 0;
    let contexts = |text: &Prose| -> Vec<Vec<Word>> {
        (0..text.sentences.len()).map(|at| context_of(text, at)).collect()
    };
    let (of_one, of_other) = (contexts(one), contexts(other));
    for (at, a) in one.sentences.iter().enumerate() {
        for (there, b) in other.sentences.iter().enumerate() {
            let is_apart = a.bits & b.bits == 0 && !a.leans && !b.leans;
            if is_apart {
                continue;
            }
            compared += 1;
            if compared > PAIRS_MAX {
                return None;
            }
            let to = relate(a, b, &of_other[there], near);
            let Relation::Differs(difference) = to.relation else { continue };
            let back = relate(b, a, &of_one[at], near);
            if matches!(back.relation, Relation::Differs(_)) {
                return Some((difference, to.score.min(back.score)));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
