//! Which of several items is the one that stands: replacements before what they replaced, and one of
//! several that say the same.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use engine::{Damage, Place, SearchError, Snapshot, Status};

use super::conflicts::Conflict;
use super::fuse::Fused;
use super::near::Said;
use super::standing::Standing;
use crate::means::Means;
use crate::recalled::Recalled;
use recalld_policy::Verdict;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Ids that `duplicates` of one item names.
    const DUPLICATES_MAX: usize = 16;
    /// Conflicts that one answer names.
    const CONFLICTS_MAX: usize = 16;
}

/// Candidates in order, and what was brought in place of what.
#[derive(Default)]
pub(super) struct Ordered {
    pub(super) candidates: Vec<Fused>,
    /// Older versions of what stands already: they come behind all others, where there is room.
    pub(super) behind: Vec<Fused>,
    /// Of what stands in place of another: that other.
    pub(super) replaced: HashMap<Place, Place>,
    /// Superseded items, and what was brought in their place, where more stands there than was brought.
    pub(super) cut_short: HashSet<Place>,
}

/// Before every superseded item come the items that stand in its place now, by its chain and
/// not by luck of words. Each item is given once, at its best place; of the superseded items in whose place the
/// same stands, the best one alone keeps its own.
pub(super) fn bring_replacements(
    means: &Means<'_>,
    standing: &mut Standing<'_>,
    ranked: Vec<Fused>,
) -> Result<Ordered, Damage> {
    let mut given: HashSet<Place> = HashSet::new();
    let mut stood_for: HashSet<Vec<Place>> = HashSet::new();
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
        // A file's older versions are history, which its chain shows; they do not take up places.
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

/// Leaves out a superseded item that says to the letter what the item in its place says, such as
/// a piece of a file whose other pieces changed: the one that stands is given at its place.
pub(super) fn drop_copies(
    means: &Means<'_>,
    standing: &mut Standing<'_>,
    ranked: Vec<Fused>,
) -> Result<Vec<Fused>, Damage> {
    let mut given: HashSet<Place> = HashSet::new();
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
    place: Place,
) -> Result<Option<Place>, Damage> {
    let snapshot = means.snapshot;
    if snapshot.status(place)? != Status::Superseded {
        return Ok(None);
    }
    let old = snapshot.item(place)?;
    let current = Arc::clone(standing.in_place_of(old.id)?.current());
    for &next in current.iter() {
        // To find the same what the caller does not read would tell what it says.
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

/// Makes one of items that say the same, as they come, best first.
pub(super) struct Folding<'a> {
    snapshot: &'a Snapshot,
    /// Of each item that was kept; none of one whose text the caller does not see.
    said: Vec<Option<Said<'a>>>,
    /// Whether an item has more that say the same than it names.
    pub(super) cut_short: bool,
}

impl<'a> Folding<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, said: Vec::new(), cut_short: false }
    }

    /// Looks at the last of `items`, if it was not looked at: where an earlier one says the same, the
    /// better of the two stays at the earlier place and names the other.
    pub(super) fn fold_last(&mut self, items: &mut Vec<Recalled>) -> Result<(), Damage> {
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
            // All that is said of an item is of that item; the score is what the place was given for.
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

/// Which items cannot both be true.
pub(super) struct Conflicts {
    pub(super) found: Vec<([Place; 2], Conflict)>,
    /// Whether there are more than one answer names.
    pub(super) cut_short: bool,
}

/// Which of the items cannot both be true, by what was said of each: of those that stand and whose text the
/// caller sees. Items whose times of being true do not meet are at peace.
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
        folding.snapshot.check()?;
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
