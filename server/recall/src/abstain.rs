//! Abstention: decides that nothing on record is near enough to the question.
//!
//! A store always has a nearest item, which is an answer only if it is near. All stores share one threshold, set on
//! held-out questions (docs/recall.md).

use super::lane::Lane;
use super::located;
use crate::recalled::Recalled;

/// Lowest confidence of an answer: cosine plus half the item's share of the best possible BM25 score.
const LIKENESS_MIN: f32 = 0.5;
/// Weight of the BM25 share; the cosine has weight 1.
const SHARE_WEIGHT: f32 = 0.5;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Items returned with an abstention, marked as no answer: the nearest items may show how to rephrase the question.
    pub(super) const NEAREST_GIVEN_MAX: usize = 3;
}

/// Reason for an abstention if no item contains the quoted phrases.
pub(super) const NOTHING_QUOTED: &str =
    "no item has what stands in quotes; what is given comes nearest without it";

/// Reason for an abstention if no scanned item contains the quoted phrases. More items had all words of the phrases
/// than were scanned, and nothing is returned.
pub(super) const NONE_LOOKED_THROUGH: &str =
    "none of the items that were looked through has what stands in quotes";

/// Returns the reason for an abstention, shown to the caller, or `None` if some item is an answer.
pub(super) fn abstains(found: &[Recalled]) -> Option<String> {
    if found.iter().any(is_sure) {
        return None;
    }
    let best = found.iter().map(likeness).max_by(f32::total_cmp);
    match best {
        None => Some("no item was found".to_owned()),
        Some(best) if best >= LIKENESS_MIN => None,
        Some(best) => Some(format!(
            "nothing is near: the best of cosine and half the share of the question's words is \
             {best:.3}, an answer has {LIKENESS_MIN} or more; no item has all of its words, nor a name in it"
        )),
    }
}

fn likeness(item: &Recalled) -> f32 {
    item.cosine.unwrap_or(0.0) + SHARE_WEIGHT * item.share
}

/// An item that is named in the question, or located at a path named there, is an answer regardless of its other
/// scores. An item recorded in a period named in the question is not, by that alone.
fn is_sure(item: &Recalled) -> bool {
    let lies_there =
        |&(lane, score): &(Lane, f32)| lane == Lane::Place && located::lies_there(score);
    item.is_meant || item.found_by.iter().any(lies_there)
}
