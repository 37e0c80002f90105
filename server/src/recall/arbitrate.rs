//! Which of several items is the one that stands: replacements before what they replaced.

use std::collections::HashSet;

use engine::{Damage, Filter, Place, Snapshot, Status};

use super::fuse::Fused;

/// Before every superseded item come the items that stand in its place now, by its chain and
/// not by luck of words. Each item is given once, at its best place.
pub(super) fn bring_replacements(
    snapshot: &Snapshot,
    filter: &Filter,
    ranked: Vec<Fused>,
) -> Result<Vec<Fused>, Damage> {
    let mut given: HashSet<Place> = HashSet::new();
    let mut ordered = Vec::with_capacity(ranked.len());
    for found in ranked {
        if snapshot.status(found.place) == Status::Superseded {
            let id = snapshot.id(found.place)?;
            for place in snapshot.current_successors(id)? {
                if fits(snapshot, filter, place)? && given.insert(place) {
                    ordered.push(Fused { place, ..found.clone() });
                }
            }
        }
        if given.insert(found.place) {
            ordered.push(found);
        }
    }
    Ok(ordered)
}

fn fits(snapshot: &Snapshot, filter: &Filter, place: Place) -> Result<bool, Damage> {
    let item = snapshot.item(place)?;
    Ok(filter.modality.as_deref().is_none_or(|modality| modality == item.modality))
}
