//! Which of several items is the one that stands: replacements before what they replaced, and one of
//! several that say the same.

use std::collections::{HashMap, HashSet};

use engine::{Damage, Filter, ItemId, Place, SearchError, Snapshot, Status};

use super::conflicts::{Claims, Conflict};
use super::fuse::Fused;
use super::near::Said;
use super::{Means, Plan, Recalled};
use crate::govern::Verdict;

/// Items that are brought in place of one; those of a larger split are found by their own words.
const SUCCESSORS_MAX: usize = 32;
/// Ids that `duplicates` of one item names.
const DUPLICATES_MAX: usize = 16;

/// Candidates in order, and what was brought in place of what.
pub(super) struct Ordered {
    pub(super) candidates: Vec<Fused>,
    /// Of what stands in place of another: that other.
    pub(super) replaced: HashMap<Place, Place>,
    /// Whether more stands in place of one than was brought.
    pub(super) cut_short: bool,
}

/// Before every superseded item come the items that stand in its place now, by its chain and
/// not by luck of words. Each item is given once, at its best place.
pub(super) fn bring_replacements(
    means: &Means<'_>,
    plan: &Plan,
    ranked: Vec<Fused>,
) -> Result<Ordered, Damage> {
    let mut given: HashSet<Place> = HashSet::new();
    let mut replaced = HashMap::new();
    let mut cut_short = false;
    let mut candidates = Vec::with_capacity(ranked.len());
    for found in ranked {
        // A file's older versions are history, which its chain shows; they do not take up places.
        let mut stands_in = false;
        if means.snapshot.status(found.place)? == Status::Superseded {
            let old = means.snapshot.item(found.place)?;
            let (successors, is_cut) = standing(means, plan, found.place, old.id)?;
            cut_short |= is_cut;
            stands_in = !successors.is_empty() && matches!(old.kind, "chunk" | "document");
            for place in successors {
                if given.insert(place) {
                    candidates.push(Fused { place, ..found.clone() });
                    replaced.insert(place, found.place);
                }
            }
        }
        if !stands_in && given.insert(found.place) {
            candidates.push(found);
        }
    }
    Ok(Ordered { candidates, replaced, cut_short })
}

/// What stands in place of an item for this caller: its current successors; where it may see none of
/// them, the newest successor that it may see, for that is the last that it can know. And whether there
/// are more.
fn standing(
    means: &Means<'_>,
    plan: &Plan,
    place: Place,
    id: ItemId,
) -> Result<(Vec<Place>, bool), Damage> {
    // What is quoted is asked of what was found, not of what stands in its place.
    let filter = Filter { among: None, ..plan.filter.clone() };
    let is_shown = |place: &Place| -> Result<bool, Damage> {
        Ok(means.snapshot.admits(&filter, *place)?
            && means.may_read(&means.snapshot.item(*place)?).verdict != Verdict::Deny)
    };
    let current = means.snapshot.current_successors(id)?.places;
    let mut shown = Vec::new();
    for place in current {
        if !is_shown(&place)? {
            continue;
        }
        if shown.len() == SUCCESSORS_MAX {
            return Ok((shown, true));
        }
        shown.push(place);
    }
    if !shown.is_empty() {
        return Ok((shown, false));
    }
    let chain = means.snapshot.chain(id)?.members;
    // What is newer was written later.
    let newer = chain.iter().rev().filter_map(|member| member.place).take_while(|it| *it > place);
    for newer in newer {
        if is_shown(&newer)? {
            return Ok((vec![newer], false));
        }
    }
    Ok((Vec::new(), false))
}

/// Leaves out a superseded item that says to the letter what the item in its place says, such as
/// a piece of a file whose other pieces changed: the one that stands is given at its place.
pub(super) fn drop_copies(
    snapshot: &Snapshot,
    filter: &Filter,
    ranked: Vec<Fused>,
) -> Result<Vec<Fused>, Damage> {
    let mut given: HashSet<Place> = HashSet::new();
    let mut kept = Vec::with_capacity(ranked.len());
    for found in ranked {
        let place = match copy_that_stands(snapshot, filter, found.place)? {
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
    snapshot: &Snapshot,
    filter: &Filter,
    place: Place,
) -> Result<Option<Place>, Damage> {
    if snapshot.status(place)? != Status::Superseded {
        return Ok(None);
    }
    let old = snapshot.item(place)?;
    for next in snapshot.current_successors(old.id)?.places {
        if filter.hidden.as_ref().is_some_and(|hidden| snapshot.is_veiled(hidden, next)) {
            continue; // to find it the same would tell what it says
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

/// Conflicts that one answer names.
const CONFLICTS_MAX: usize = 16;

/// Which items cannot both be true.
pub(super) struct Conflicts {
    pub(super) found: Vec<([Place; 2], Conflict)>,
    /// Whether there are more than one answer names.
    pub(super) cut_short: bool,
}

/// Which of the items cannot both be true: of those that stand and whose text the caller sees. Items
/// whose times of being true do not meet are at peace.
pub(super) fn conflicts(means: &Means<'_>, items: &[Recalled]) -> Result<Conflicts, SearchError> {
    let mut claims = Vec::with_capacity(items.len());
    for found in items.iter().filter(|found| found.verdict == Verdict::Allow) {
        if means.snapshot.status(found.place)? == Status::Current {
            let item = means.snapshot.item(found.place)?;
            claims.push((found.place, Claims::of(item.title, item.text), item));
        }
    }
    let mut found = Vec::new();
    for (at, (one, said, item)) in claims.iter().enumerate() {
        means.snapshot.check()?;
        for (other, also, beside) in &claims[at + 1..] {
            let meets = item.valid_to.is_none_or(|to| beside.valid_from.is_none_or(|it| it < to))
                && beside.valid_to.is_none_or(|to| item.valid_from.is_none_or(|it| it < to));
            if meets && let Some(conflict) = said.against(also) {
                if found.len() == CONFLICTS_MAX {
                    return Ok(Conflicts { found, cut_short: true });
                }
                found.push(([*one, *other], conflict));
            }
        }
    }
    Ok(Conflicts { found, cut_short: false })
}
