//! Candidate widening: the retrievers run again, with a higher limit, if too few distinct items remain.
//!
//! Superseded versions of one item and near-duplicates of another can fill a retriever's candidate limit. They collapse
//! to a few items, and other answers to the question are not reached.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use engine::{CorruptionError, RowAddress, SearchError, Status};

use super::arbitrate::{self, Folding, Ordered};
use super::fuse::{self, Fused};
use super::lane::Ran;
use super::lanes;
use super::standing::Standing;
use super::titled;
use crate::means::Means;
use crate::recalled::{Recalled, Withheld};
use crate::route::{Bounds, Plan};
use recalld_policy::{Action, Verdict};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Factor of the candidate limit for a retry.
    const FURTHER: usize = 4;
}

/// Scopes of the retries: first all items. If too few items remain, only current ones, so that older versions do not
/// fill the limit.
const AGAIN: [OfWhat; 2] = [OfWhat::All, OfWhat::Current];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfWhat {
    All,
    Current,
}

/// Retrieved items, ranked, gated and collapsed.
pub(super) struct Found<'a> {
    /// Items, best first.
    pub(super) items: Vec<Recalled>,
    /// Items that policy withheld or redacted.
    pub(super) withheld: Vec<Withheld>,
    /// Maps each promoted successor to the superseded item that matched.
    pub(super) replaced: HashMap<RowAddress, RowAddress>,
    /// True if there are more successors or duplicates than an answer lists.
    pub(super) names_cut: bool,
    /// Collapser with the prepared texts of the items.
    pub(super) folding: Folding<'a>,
    /// Results of the retrievers.
    pub(super) ran: Ran<'a>,
    /// Effective limits.
    pub(super) bounds: Bounds,
}

/// Runs the retrievers of a plan, with retries while necessary.
///
/// # Errors
/// Corruption, or cancellation.
pub(super) fn find<'a>(
    means: &Means<'a>,
    plan: &Plan,
    began: Instant,
) -> Result<Found<'a>, SearchError> {
    let mut standing = Standing::of(means, plan);
    // Computed once for all retries.
    let words = Rc::new(means.snapshot.lexical_search(&plan.text, &plan.filter));
    let mut ran = lanes::run(means, plan, Rc::clone(&words), began)?;
    let mut bounds = plan.bounds;
    let mut given = Given::of(means, plan, &mut standing, &ran)?;
    // A semantic plan promises the nearest vectors, whatever the status of their items, and is never widened.
    let mut is_full = plan.words && ran.is_full(bounds.candidate_limit);
    for of_what in AGAIN {
        if !is_full || given.apart >= bounds.limit || began.elapsed() > bounds.deadline {
            break;
        }
        bounds.candidate_limit = plan.bounds.candidate_limit.saturating_mul(FURTHER);
        let mut again = Plan { bounds, ..plan.clone() };
        again.filter.current_only |= of_what == OfWhat::Current;
        let more = lanes::run(means, &again, Rc::clone(&words), began)?;
        is_full = more.is_full(bounds.candidate_limit);
        ran.add(more);
        given = Given::of(means, plan, &mut standing, &ran)?;
    }
    let Given { items, withheld, replaced, names_cut, folding, .. } = given;
    Ok(Found { items, withheld, replaced, names_cut, folding, ran, bounds })
}

/// Recomputes the term coverage of promoted successors from their own texts. The coverage decides which near-duplicate
/// is preferred.
fn cover_own(plan: &Plan, ran: &Ran<'_>, ordered: &mut Ordered) -> Result<(), SearchError> {
    let mut places: Vec<RowAddress> = ordered.replaced.keys().copied().collect();
    places.sort_unstable();
    let words = ran.words.score_items(&places, &plan.filter)?;
    for found in &mut ordered.candidates {
        if let Ok(at) = places.binary_search(&found.place) {
            found.covered = fuse::covered(&words.terms, &words.items[at]);
        }
    }
    Ok(())
}

/// Result of ranking, gating and collapsing the candidates.
struct Given<'a> {
    items: Vec<Recalled>,
    withheld: Vec<Withheld>,
    replaced: HashMap<RowAddress, RowAddress>,
    names_cut: bool,
    folding: Folding<'a>,
    /// Superseded items with more successors than were promoted, and the promoted ones.
    cut_short: HashSet<RowAddress>,
    /// Number of items, without the demoted older versions.
    apart: usize,
}

impl<'a> Given<'a> {
    fn of(
        means: &Means<'a>,
        plan: &Plan,
        standing: &mut Standing<'_>,
        ran: &Ran<'_>,
    ) -> Result<Self, SearchError> {
        let mut fused = fuse::fuse(means, plan, ran)?;
        if plan.words {
            titled::bring_titled(means, plan, &mut fused)?;
            fused = arbitrate::drop_copies(means, standing, fused)?;
        }
        let mut ordered = if plan.prefer_replacements {
            arbitrate::bring_replacements(means, standing, fused)?
        } else {
            Ordered { candidates: fused, ..Ordered::default() }
        };
        if plan.explains {
            cover_own(plan, ran, &mut ordered)?;
        }
        let mut given = Self {
            items: Vec::new(),
            withheld: Vec::new(),
            replaced: ordered.replaced,
            names_cut: false,
            folding: Folding::of(means.snapshot),
            cut_short: ordered.cut_short,
            apart: 0,
        };
        given.take(means, plan, ordered.candidates, standing)?;
        given.apart = given.items.len();
        given.take(means, plan, ordered.behind, standing)?;
        given.names_cut |= given.folding.cut_short;
        Ok(given)
    }

    /// Admits candidates in order, up to the item limit.
    fn take(
        &mut self,
        means: &Means<'a>,
        plan: &Plan,
        candidates: Vec<Fused>,
        standing: &mut Standing<'_>,
    ) -> Result<(), SearchError> {
        for candidate in candidates {
            if self.items.len() == plan.bounds.limit {
                break;
            }
            means.snapshot.check_cancelled()?;
            self.names_cut |= self.cut_short.contains(&candidate.place);
            self.gate(means, candidate, standing)?;
            if plan.explains {
                self.folding.fold_last(&mut self.items)?;
            }
        }
        Ok(())
    }

    /// Evaluates policy for a candidate and records the result. Retrievers skip denied items already; here items from
    /// other sources, such as promoted successors, are gated.
    fn gate(
        &mut self,
        means: &Means<'_>,
        found: Fused,
        standing: &mut Standing<'_>,
    ) -> Result<(), CorruptionError> {
        let item = means.snapshot.item(found.place)?;
        let (verdict, rule) = means.snapshot.judge(&item, Action::Read);
        match verdict {
            Verdict::Allow => {}
            Verdict::Redact => self.withheld.push(Withheld {
                is_shown: true,
                is_told: true,
                ..means.withheld(found.place)?
            }),
            Verdict::Deny => self.withheld.push(means.withheld(found.place)?),
        }
        if verdict != Verdict::Deny {
            let standing = match means.snapshot.status(found.place)? {
                Status::Superseded => Arc::clone(standing.in_place_of(item.id)?.current()),
                _ => Arc::default(),
            };
            self.items.push(Recalled {
                place: found.place,
                score: found.score,
                found_by: found.found_by,
                cosine: found.cosine,
                share: found.share,
                covered: found.covered,
                is_meant: found.is_meant || found.is_titled,
                verdict,
                rule,
                standing,
                why: None,
                duplicates: Vec::new(),
                neighbours: Vec::new(),
            });
        }
        Ok(())
    }
}
