//! The meaning lane: a question becomes a vector, and the nearest stored ones are its candidates.
//!
//! Owns the way of one question: answered before, or encoded together with others and compared in a
//! pass that is shared. What it finds is not yet gated.

use std::time::Instant;

use engine::{Place, SearchError};
use kernels::Kernels;

use super::answers::{Answer, Answers, Key};
use super::lanes::Ran;
use super::passes::Passes;
use super::{Means, Plan};

/// What the meaning lanes of one store share.
pub struct Meaning {
    passes: Passes,
    answers: Answers,
}

impl Meaning {
    /// For work on so many threads at most.
    pub fn new(kernels: Kernels, threads: usize) -> Self {
        Self { passes: Passes::new(kernels, threads), answers: Answers::default() }
    }
}

/// The places of the nearest vectors and their cosines, best first. `ran` has then the question's vector,
/// and how long encoding took, where it was necessary.
pub(super) fn meaning(
    means: &Means<'_>,
    plan: &Plan,
    ran: &mut Ran,
) -> Result<Vec<(Place, f32)>, SearchError> {
    let Meaning { passes, answers } = means.meaning;
    let snapshot = means.snapshot;
    let (edition, limit) = (snapshot.edition(), plan.bounds.candidate_limit);
    let key = Key {
        text: plan.text.clone(),
        limit,
        filter: plan.filter.clone(),
        moment: snapshot.moment(),
    };
    let answer = if let Some(answer) = answers.get(edition, &key) {
        answer
    } else {
        let coming = passes.announce();
        let began = Instant::now();
        let query = means.embedder.embed_question(&plan.text, &|| snapshot.check().is_err());
        let Some(query) = query else { return Err(SearchError::Interrupted) };
        ran.encode = Some(began.elapsed());
        let hits = coming.nearest(snapshot, &query, limit, &plan.filter)?;
        let answer = Answer { query: query.into(), hits: hits.into() };
        // What stands in quotes is chosen anew for each question, so nobody would find this again.
        if plan.filter.among.is_none() {
            answers.put(edition, key, &answer);
        }
        answer
    };
    ran.question = Some(answer.query);
    Ok(answer.hits.iter().map(|hit| (hit.place, hit.score)).collect())
}
