//! Claim verification: relates a claim to a text, and finds the differences of two texts, without a language model.
//!
//! The rules are about words, amounts, dates, states and negations, so each verdict can be explained. Texts must be
//! English; for others, only names and amounts are comparable. Anything beyond the rules is unrelated: no verdict is
//! better than a false one. The crate depends on no store and no vectors; callers may supply the cosine of two texts.
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

    /// Sentences of a claim; a longer claim is unrelated.
    const CLAIM_SENTENCES_MAX: usize = 8;
    /// Pairs of sentences compared for two texts.
    const PAIRS_MAX: usize = 1_024;
    /// Characters of an excerpt in a difference.
    const TOLD_CHARS_MAX: usize = 60;
}

/// Verdict on a claim against a text.
#[derive(Debug, Clone)]
pub struct Judged {
    /// Relation of the claim to the text.
    pub relation: Relation,
    /// Share of the claim that the text covers, 0 to 1.
    pub score: f32,
    /// Sentence of the text that covers the claim best; empty if there is none.
    pub sentence: String,
}

/// Relates a claim to a text. `near` is their cosine, if known; a high cosine lowers the required share of common
/// words. A claim of several sentences is supported if all sentences are, and differs if one does.
pub fn judge(claim: &Prose, text: &Prose, near: Option<f32>) -> Judged {
    let mut whole = Judged { relation: Relation::Silent, score: 0.0, sentence: String::new() };
    let sentences = claim.sentences.len();
    if sentences == 0 || sentences > CLAIM_SENTENCES_MAX {
        return whole;
    }
    let mut supported = 0;
    let mut least = 1.0_f32;
    for (at, one) in claim.sentences.iter().enumerate() {
        // The subject of `It runs nightly`, after another sentence, is in that sentence.
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

/// Returns the best relation of the claim to a sentence of the text, and that sentence. A supporting sentence takes
/// precedence over a differing one, which may be about another time or place.
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

/// Words that a sentence may omit: those of the title. If the sentence begins with a pronoun, the content words of the
/// previous sentence are included.
fn context_of(text: &Prose, at: usize) -> Vec<Word> {
    let mut context = text.title.clone();
    if text.sentences[at].leans
        && let Some(before) = at.checked_sub(1).and_then(|before| text.sentences.get(before))
    {
        context.extend(before.words.iter().filter(|word| word.is_heavy()).cloned());
    }
    context
}

/// Returns the first difference of two texts on the same subject, with its confidence, 0 to 1. The difference must
/// follow from both directions.
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
