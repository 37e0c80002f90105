//! Whether anything answers a question at all.
//!
//! A store always has a nearest item; that one answers only if it is near. The threshold is one for all
//! stores, set on questions that were held out (docs/recall.md). Must not know what is left out where
//! nothing answers.

use super::lane::Lane;
use super::located;
use crate::recalled::Recalled;

/// What half the best share of the question's words and the cosine must come to together.
const LIKENESS_MIN: f32 = 0.5;
/// What the share of the question's words counts for beside the cosine.
const SHARE_WEIGHT: f32 = 0.5;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Items that are given, marked as no answer, where nothing answers: what comes nearest may still show
    /// how to ask.
    pub(super) const NEAREST_GIVEN_MAX: usize = 3;
}

/// Why a question is not answered that has in quotes what no item has.
pub(super) const NOTHING_QUOTED: &str =
    "no item has what stands in quotes; what is given comes nearest without it";

/// The same where more items have all of its words than were looked through, and nothing is given.
pub(super) const NONE_LOOKED_THROUGH: &str =
    "none of the items that were looked through has what stands in quotes";

/// Why nothing answers, for whoever asked; `None` if something does.
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

/// An item that the question names is an answer however little the rest of it fits, and so is what lies
/// at a place that it names. That something was recorded at the time that it names makes nothing an answer.
fn is_sure(item: &Recalled) -> bool {
    let lies_there =
        |&(lane, score): &(Lane, f32)| lane == Lane::Place && located::lies_there(score);
    item.is_meant || item.found_by.iter().any(lies_there)
}
