//! How far the lanes look: again, and further, where what they found comes down to too few items.
//!
//! Owns when that is so. Versions of one thing that do not stand any more, and copies of another, can be all
//! that a lane has room for; they come down to a few items, and what else answers the question was not
//! reached. Must not know how a lane looks.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use engine::{Damage, Place, SearchError, Status};

use super::arbitrate::{self, Folding, Ordered};
use super::fuse::{self, Fused};
use super::lane::Ran;
use super::lanes;
use super::standing::Standing;
use super::titled;
use crate::means::Means;
use crate::recalled::{Recalled, Withheld};
use crate::route::{Bounds, Plan};
use recalld_policy::Verdict;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// How many times as many candidates a lane gives when it looks again.
    const FURTHER: usize = 4;
}

/// What it may give then: first all, and where that is still too little, what stands alone, of which no number
/// of older versions takes up the room.
const AGAIN: [OfWhat; 2] = [OfWhat::All, OfWhat::Current];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfWhat {
    All,
    Current,
}

/// What was found, as it is given.
pub(super) struct Found<'a> {
    /// Best first.
    pub(super) items: Vec<Recalled>,
    /// What policy withheld or redacted of it.
    pub(super) withheld: Vec<Withheld>,
    /// Of what stands in place of another: that other.
    pub(super) replaced: HashMap<Place, Place>,
    /// Whether there are more successors or duplicates than an answer names.
    pub(super) names_cut: bool,
    /// What the items say.
    pub(super) folding: Folding<'a>,
    /// What the lanes did.
    pub(super) ran: Ran<'a>,
    /// The bounds that held.
    pub(super) bounds: Bounds,
}

/// Runs the lanes of a plan, as often as it takes.
///
/// # Errors
/// Damage, or the snapshot's stop.
pub(super) fn find<'a>(
    means: &Means<'a>,
    plan: &Plan,
    began: Instant,
) -> Result<Found<'a>, SearchError> {
    let mut standing = Standing::of(means, plan);
    // Counted once, however often the lanes look.
    let words = Rc::new(means.snapshot.words(&plan.text, &plan.filter));
    let mut ran = lanes::run(means, plan, Rc::clone(&words), began)?;
    let mut bounds = plan.bounds;
    let mut given = Given::of(means, plan, &mut standing, &ran)?;
    // The meaning lane alone promises the nearest vectors, whatever became of their items.
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

/// Gives what came in place of another what it has itself of the question's words: by that it is chosen among items
/// that say the same.
fn cover_own(plan: &Plan, ran: &Ran<'_>, ordered: &mut Ordered) -> Result<(), SearchError> {
    let mut places: Vec<Place> = ordered.replaced.keys().copied().collect();
    places.sort_unstable();
    let words = ran.words.of(&places, &plan.filter)?;
    for found in &mut ordered.candidates {
        if let Ok(at) = places.binary_search(&found.place) {
            found.covered = fuse::covered(&words.terms, &words.items[at]);
        }
    }
    Ok(())
}

/// What comes of the candidates.
struct Given<'a> {
    items: Vec<Recalled>,
    withheld: Vec<Withheld>,
    replaced: HashMap<Place, Place>,
    names_cut: bool,
    folding: Folding<'a>,
    /// What has more successors than were brought, and these.
    cut_short: HashSet<Place>,
    /// How many of the items are no older version of another.
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

    /// The first of the candidates, as far as there are places.
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
            means.snapshot.check()?;
            self.names_cut |= self.cut_short.contains(&candidate.place);
            self.gate(means, candidate, standing)?;
            if plan.explains {
                self.folding.fold_last(&mut self.items)?;
            }
        }
        Ok(())
    }

    /// Asks policy about one candidate and files it accordingly. Lanes pass over what is denied; here nothing gets
    /// by that came in another way.
    fn gate(
        &mut self,
        means: &Means<'_>,
        found: Fused,
        standing: &mut Standing<'_>,
    ) -> Result<(), Damage> {
        let item = means.snapshot.item(found.place)?;
        let (verdict, rule) = means.access.judge(&item);
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
