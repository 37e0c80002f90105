//! What a batch says about other rows: ids that must be there, and ids that must not.

use std::collections::HashSet;

use crate::error::WriteError;
use crate::ids::{EdgeId, ItemId, SourceId};
use crate::item::Batch;
use crate::snapshot::{Snapshot, Status};

/// Checks what a batch says about other rows. An item can only replace what is there before
/// it, in the store or earlier in the batch, so no chain can run in a circle.
pub(crate) fn check(snapshot: &Snapshot, batch: &Batch) -> Result<(), WriteError> {
    let mut sources = HashSet::new();
    for source in batch.sources.iter().filter_map(|source| source.id) {
        if !sources.insert(source) || snapshot.source(source)?.is_some() {
            return Err(WriteError::refused("source.id", format!("{source} is taken")));
        }
    }
    let known_source = |id: Option<SourceId>| match id {
        Some(id) if !sources.contains(&id) && snapshot.source(id)?.is_none() => {
            Err(WriteError::refused("source", format!("there is no source {id}")))
        }
        _ => Ok(()),
    };
    let mut items = HashSet::new();
    let mut refs = HashSet::new();
    for item in &batch.items {
        known_source(item.source)?;
        for &old in &item.supersedes {
            if !items.contains(&old) {
                standing(snapshot, "supersedes", old)?;
            }
        }
        let id = item.id.expect("complete gives every item its id");
        if !items.insert(id) || snapshot.find(id)?.is_some() {
            return Err(WriteError::refused("id", format!("{id} is taken")));
        }
        if let Some(reference) = &item.reference {
            check_ref(snapshot, reference, &item.supersedes, &mut refs)?;
        }
    }
    let mut edges = HashSet::new();
    for edge in &batch.edges {
        known_source(edge.source)?;
        for (field, end) in [("from", edge.from), ("to", edge.to)] {
            if !items.contains(&end) {
                standing(snapshot, field, end)?;
            }
        }
        let id = edge.id.expect("complete gives every edge its id");
        if !edges.insert(id) || snapshot.has_edge(id)? {
            return Err(WriteError::refused("edge.id", format!("{id} is taken")));
        }
    }
    batch.tombstones.iter().try_for_each(|stone| {
        let id = ItemId(stone.target);
        if snapshot.find(id)?.is_some() || snapshot.has_edge(EdgeId(stone.target))? {
            return Ok(());
        }
        Err(WriteError::refused("target", format!("there is no item or edge {id}")))
    })
}

/// Refuses an id that is not there or is tombstoned.
fn standing(snapshot: &Snapshot, field: &'static str, id: ItemId) -> Result<(), WriteError> {
    match snapshot.find(id)? {
        None => Err(WriteError::refused(field, format!("there is no item {id}"))),
        Some(place) if snapshot.status(place) == Status::Tombstoned => {
            Err(WriteError::refused(field, format!("item {id} is tombstoned")))
        }
        Some(_) => Ok(()),
    }
}

/// A ref belongs to one current item; the next one with it must replace that item.
fn check_ref(
    snapshot: &Snapshot,
    reference: &str,
    supersedes: &[ItemId],
    seen: &mut HashSet<String>,
) -> Result<(), WriteError> {
    if !seen.insert(reference.to_owned()) {
        return Err(WriteError::refused("ref", format!("{reference} is given twice in the batch")));
    }
    let Some(place) = snapshot.find_ref(reference)? else { return Ok(()) };
    let holder = snapshot.id(place)?;
    if supersedes.contains(&holder) {
        return Ok(());
    }
    Err(WriteError::refused("ref", format!("{reference} belongs to item {holder}; supersede it")))
}
