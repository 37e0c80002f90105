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
        // A file's older versions are history, which its chain shows; they do not take up places.
        let mut stands_in = false;
        if snapshot.status(found.place)? == Status::Superseded {
            let old = snapshot.item(found.place)?;
            let mut successors = snapshot.current_successors(old.id)?.places;
            successors.retain(|&place| !is_denied(snapshot, filter, place));
            stands_in = !successors.is_empty() && matches!(old.kind, "chunk" | "document");
            for place in successors {
                if fits(snapshot, filter, place)? && given.insert(place) {
                    ordered.push(Fused { place, ..found.clone() });
                }
            }
        }
        if !stands_in && given.insert(found.place) {
            ordered.push(found);
        }
    }
    Ok(ordered)
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
        if is_denied(snapshot, filter, next) {
            continue;
        }
        let new = snapshot.item(next)?;
        if new.content_sha256 == old.content_sha256 && new.title == old.title {
            return Ok(Some(next));
        }
    }
    Ok(None)
}

/// What the caller may not know of stands in for nothing.
fn is_denied(snapshot: &Snapshot, filter: &Filter, place: Place) -> bool {
    filter.hidden.as_ref().is_some_and(|hidden| snapshot.is_denied(hidden, place))
}

fn fits(snapshot: &Snapshot, filter: &Filter, place: Place) -> Result<bool, Damage> {
    let item = snapshot.item(place)?;
    Ok(filter.modality.as_deref().is_none_or(|modality| modality == item.modality))
}
