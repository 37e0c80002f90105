//! Vector retriever: embeds the question and finds the nearest stored vectors.
//!
//! A question is answered from the result cache, or embedded in a batch with others and scanned in a shared scan. The
//! hits are not gated here.

use std::sync::Arc;
use std::time::Instant;

use engine::{RowAddress, SearchError};
use kernels::Kernels;

use super::answers::{Answer, Answers, Encoded, Key, Vectors};
use super::lane::Ran;
use super::passes::{Passes, Threads};
use crate::means::Means;
use crate::route::Plan;

/// State that the vector retrievers of one store share.
pub struct Meaning {
    passes: Passes,
    answers: Answers,
    vectors: Vectors,
}

impl Meaning {
    /// Makes the state for scans on these threads.
    pub fn new(kernels: Kernels, threads: Threads) -> Self {
        let passes = Passes::new(kernels, threads);
        Self { passes, answers: Answers::default(), vectors: Vectors::default() }
    }
}

/// Returns the row addresses of the nearest vectors with their cosines, best first. Sets the question's vector in
/// `ran`, and the embedding time if the question was embedded.
pub(super) fn meaning(
    means: &Means<'_>,
    plan: &Plan,
    ran: &mut Ran<'_>,
) -> Result<Vec<(RowAddress, f32)>, SearchError> {
    let Meaning { passes, answers, .. } = means.meaning;
    let snapshot = means.snapshot;
    let (edition, limit) = (snapshot.version(), plan.bounds.candidate_limit);
    let key = Key::of(&plan.text, limit, &plan.filter, snapshot.as_of());
    let answer = if let Some(answer) = key.as_ref().and_then(|key| answers.get(edition, key)) {
        answer
    } else {
        let coming = passes.announce();
        let query = vector(means, &plan.text, ran)?;
        let hits = coming.nearest(snapshot, &query, limit, &plan.filter, &means.call)?;
        let answer = Answer { query, hits: hits.into() };
        if let Some(key) = key {
            answers.put(edition, key, &answer);
        }
        answer
    };
    ran.question = Some(answer.query);
    Ok(answer.hits.iter().map(|hit| (hit.address, hit.score)).collect())
}

/// Returns the question's vector. Sets the embedding time in `ran` if the question was embedded.
fn vector(means: &Means<'_>, text: &str, ran: &mut Ran<'_>) -> Result<Arc<[f32]>, SearchError> {
    let vectors = &means.meaning.vectors;
    let key = Encoded { model: means.embedder.model().fingerprint, text: text.to_owned() };
    if let Some(vector) = vectors.get(&key) {
        return Ok(vector);
    }
    let began = Instant::now();
    let company = means.meaning.passes.company();
    let vector = means.embedder.embed_question(text, company, &means.call);
    let vector: Arc<[f32]> = vector.ok_or(SearchError::Interrupted)?.into();
    ran.encode = Some(began.elapsed());
    vectors.put(key, &vector);
    Ok(vector)
}
