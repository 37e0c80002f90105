//! Rerank: promotes successors above superseded items, and collapses near-duplicates.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use engine::{CorruptionError, RowAddress, SearchError, Snapshot, Status};

use super::conflicts::Conflict;
use super::fuse::Fused;
use super::near::Said;
use super::standing::Standing;
use crate::means::Means;
use crate::recalled::Recalled;
use recalld_policy::Verdict;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Ids in `duplicates` of one item.
    const DUPLICATES_MAX: usize = 16;
    /// Conflicts in one answer.
    const CONFLICTS_MAX: usize = 16;
}

/// Reranked candidates, and the superseded items whose successors were promoted.
#[derive(Default)]
pub(super) struct Ordered {
    pub(super) candidates: Vec<Fused>,
    /// Superseded items whose successors another item has promoted already; ranked last, if there is room.
    pub(super) behind: Vec<Fused>,
    /// Maps each promoted successor to the superseded item that matched.
    pub(super) replaced: HashMap<RowAddress, RowAddress>,
    /// Superseded items with more successors than were promoted, and the promoted ones.
    pub(super) cut_short: HashSet<RowAddress>,
}

/// Ranks the current successors of each superseded item directly above the item, by its chain rather than by word
/// overlap. Each item occurs once, at its best rank. If several superseded items have equal successors, only the best
/// keeps its rank.
pub(super) fn bring_replacements(
    means: &Means<'_>,
    standing: &mut Standing<'_>,
    ranked: Vec<Fused>,
) -> Result<Ordered, CorruptionError> {
    let mut given: HashSet<RowAddress> = HashSet::new();
    let mut stood_for: HashSet<Vec<RowAddress>> = HashSet::new();
    let mut ordered = Ordered::default();
    for found in ranked {
        if means.snapshot.status(found.place)? != Status::Superseded {
            if given.insert(found.place) {
                ordered.candidates.push(found);
            }
            continue;
        }
        let old = means.snapshot.item(found.place)?;
        let in_place = standing.in_place_of(old.id)?;
        if in_place.is_cut_short() {
            ordered.cut_short.extend(in_place.given().iter().chain([&found.place]));
        }
        for &place in in_place.given() {
            if given.insert(place) {
                ordered.candidates.push(Fused { place, ..found.clone() });
                ordered.replaced.insert(place, found.place);
            }
        }
        let has_successor = !in_place.given().is_empty();
        // Older versions of a file are history, shown by its chain; they take no rank.
        if has_successor && matches!(old.kind, "chunk" | "document") || !given.insert(found.place) {
            continue;
        }
        if has_successor && !stood_for.insert(in_place.given().to_vec()) {
            ordered.behind.push(found);
        } else {
            ordered.candidates.push(found);
        }
    }
    Ok(ordered)
}

/// Replaces a superseded item by its successor if title and text are identical, as for an unchanged chunk of a changed
/// file. The successor takes the item's rank.
pub(super) fn drop_copies(
    means: &Means<'_>,
    standing: &mut Standing<'_>,
    ranked: Vec<Fused>,
) -> Result<Vec<Fused>, CorruptionError> {
    let mut given: HashSet<RowAddress> = HashSet::new();
    let mut kept = Vec::with_capacity(ranked.len());
    for found in ranked {
        let place = match copy_that_stands(means, standing, found.place)? {
            Some(place) => place,
            None => found.place,
        };
        if given.insert(place) {
            kept.push(Fused { place, ..found });
        }
    }
    Ok(kept)
}

fn copy_that_stands(
    means: &Means<'_>,
    standing: &mut Standing<'_>,
    place: RowAddress,
) -> Result<Option<RowAddress>, CorruptionError> {
    let snapshot = means.snapshot;
    if snapshot.status(place)? != Status::Superseded {
        return Ok(None);
    }
    let old = snapshot.item(place)?;
    let current = Arc::clone(standing.in_place_of(old.id)?.current());
    for &next in current.iter() {
        // A match with content that the caller may not read would disclose that content.
        if !means.reads(next) || !standing.is_shown(next)? {
            continue;
        }
        let new = snapshot.item(next)?;
        if new.content_sha256 == old.content_sha256 && new.title == old.title {
            return Ok(Some(next));
        }
    }
    Ok(None)
}

/// Collapses near-duplicates into one item; fed with items in order, best first.
pub(super) struct Folding<'a> {
    snapshot: &'a Snapshot,
    /// Prepared text of each retained item; `None` if the caller may not read the text.
    said: Vec<Option<Said<'a>>>,
    /// True if an item has more duplicates than it lists.
    pub(super) cut_short: bool,
}

impl<'a> Folding<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, said: Vec::new(), cut_short: false }
    }

    /// Compares the last of `items`, unless compared before, with the earlier ones. If two are near-duplicates, the
    /// preferred one keeps the earlier rank and lists the other.
    pub(super) fn fold_last(&mut self, items: &mut Vec<Recalled>) -> Result<(), CorruptionError> {
        let Some(last) = items.get(self.said.len()) else { return Ok(()) };
        if last.verdict != Verdict::Allow {
            self.said.push(None);
            return Ok(());
        }
        let said = Said::of(self.snapshot, last.place, last.covered)?;
        let alike =
            |earlier: &Option<Said<'_>>| earlier.as_ref().is_some_and(|it| said.is_like(it));
        let Some(at) = self.said.iter().position(alike) else {
            self.said.push(Some(said));
            return Ok(());
        };
        let Some(mut last) = items.pop() else { return Ok(()) };
        let kept = &mut items[at];
        if self.said[at].as_ref().is_some_and(|earlier| said.is_better_than(earlier)) {
            // All other fields belong to the item; the score earned the rank.
            std::mem::swap(kept, &mut last);
            std::mem::swap(&mut kept.score, &mut last.score);
            std::mem::swap(&mut kept.duplicates, &mut last.duplicates);
            self.said[at] = Some(said);
        }
        if kept.duplicates.len() < DUPLICATES_MAX {
            kept.duplicates.push(last.place);
        } else {
            self.cut_short = true;
        }
        Ok(())
    }
}

/// Pairs of items that contradict each other.
pub(super) struct Conflicts {
    pub(super) found: Vec<([RowAddress; 2], Conflict)>,
    /// True if there are more conflicts than an answer lists.
    pub(super) cut_short: bool,
}

/// Finds the contradictions among the current items that the caller may read. Items whose validity periods do not
/// overlap do not contradict each other.
pub(super) fn conflicts(
    items: &[Recalled],
    folding: &Folding<'_>,
) -> Result<Conflicts, SearchError> {
    let said = items.iter().zip(&folding.said);
    let said = said.filter_map(|(found, said)| Some((found.place, said.as_ref()?)));
    let standing = said.filter(|(_, said)| said.is_current() && said.says_something());
    let claims: Vec<_> = standing.map(|(place, said)| (place, said, said.claims())).collect();
    let mut found = Vec::new();
    for (at, (one, said, claimed)) in claims.iter().enumerate() {
        folding.snapshot.check_cancelled()?;
        for (other, also, denied) in &claims[at + 1..] {
            if !said.meets(also) {
                continue;
            }
            let conflict = claimed.against(denied).or_else(|| said.judged_against(also));
            if let Some(conflict) = conflict {
                if found.len() == CONFLICTS_MAX {
                    return Ok(Conflicts { found, cut_short: true });
                }
                found.push(([*one, *other], conflict));
            }
        }
    }
    Ok(Conflicts { found, cut_short: false })
}
