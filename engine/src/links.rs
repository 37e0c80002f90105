//! What a batch says about other rows: ids that must be there, and ids that must not.
//!
//! An id is given once. Items and edges share one set of ids, since a tombstone names either by the
//! number alone; an id that a tombstone names stays taken when the row is gone.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::error::{Damage, WriteError};
use crate::ids::{EdgeId, ItemId, SourceId};
use crate::item::{Batch, Complete};
use crate::snapshot::{Snapshot, Status};

const COMPLETE: &str = "a complete batch has all ids";

/// Checks what a batch says about other rows. An item can only replace what is there before
/// it, in the store or earlier in the batch, so no chain can run in a circle. A tombstone can only
/// name what is in the store: a batch that adds what it hides is a mistake, and an import that
/// means it hides with the next batch.
pub(crate) fn check(snapshot: &Snapshot, batch: &Complete) -> Result<(), WriteError> {
    let batch = batch.batch();
    let sources = check_sources(snapshot, batch)?;
    let known_source = |id: Option<SourceId>| match id {
        Some(id) if !sources.contains(&id) && snapshot.source(id)?.is_none() => {
            Err(WriteError::refused("source", format!("there is no source {id}")))
        }
        _ => Ok(()),
    };
    let items = check_ids(snapshot, batch)?;
    let mut refs = HashSet::new();
    for (at, item) in batch.items.iter().enumerate() {
        known_source(item.source)?;
        for &old in &item.supersedes {
            match items.get(&old) {
                None => standing(snapshot, "supersedes", old)?,
                Some(&earlier) if earlier < at => {}
                Some(_) => return Err(not_before(batch, item.id.expect(COMPLETE), old)),
            }
        }
        if let Some(reference) = &item.reference {
            check_ref(snapshot, reference, &item.supersedes, &mut refs)?;
        }
    }
    let mut edges = HashSet::new();
    for edge in &batch.edges {
        known_source(edge.source)?;
        for (field, end) in [("from", edge.from), ("to", edge.to)] {
            if !items.contains_key(&end) {
                standing(snapshot, field, end)?;
            }
        }
        let id = edge.id.expect(COMPLETE);
        if !edges.insert(id) || items.contains_key(&ItemId(id.0)) || is_taken(snapshot, id.0)? {
            return Err(WriteError::refused("edge.id", format!("{id} is taken")));
        }
    }
    for stone in &batch.tombstones {
        let id = ItemId(stone.target);
        if items.contains_key(&id) || edges.contains(&EdgeId(stone.target)) {
            let why = format!("the batch itself adds {id}; hide it with a later batch");
            return Err(WriteError::refused("target", why));
        }
        if snapshot.find(id)?.is_none() && !snapshot.has_edge(EdgeId(stone.target))? {
            let why = format!("there is no item or edge {id}{}", erased(snapshot, id)?);
            return Err(WriteError::refused("target", why));
        }
    }
    Ok(())
}

/// Refuses a batch that names a source whose bytes are being removed.
pub(crate) fn check_stays(erasures: &BTreeSet<u128>, batch: &Complete) -> Result<(), WriteError> {
    let batch = batch.batch();
    let of_items = batch.items.iter().filter_map(|item| item.source);
    let of_edges = batch.edges.iter().filter_map(|edge| edge.source);
    match of_items.chain(of_edges).find(|source| erasures.contains(&source.0)) {
        Some(source) => {
            Err(WriteError::refused("source", format!("source {source} is being erased")))
        }
        None => Ok(()),
    }
}

/// The ids of the batch's sources, none of them taken.
fn check_sources(snapshot: &Snapshot, batch: &Batch) -> Result<HashSet<SourceId>, WriteError> {
    let mut sources = HashSet::new();
    for source in batch.sources.iter().filter_map(|source| source.id) {
        if !sources.insert(source) || snapshot.source(source)?.is_some() {
            return Err(WriteError::refused("source.id", format!("{source} is taken")));
        }
    }
    Ok(sources)
}

/// The ids of the batch's items, none of them taken, and where each stands.
fn check_ids(snapshot: &Snapshot, batch: &Batch) -> Result<HashMap<ItemId, usize>, WriteError> {
    let mut items = HashMap::with_capacity(batch.items.len());
    for (at, item) in batch.items.iter().enumerate() {
        let id = item.id.expect(COMPLETE);
        if items.insert(id, at).is_some() || is_taken(snapshot, id.0)? {
            return Err(WriteError::refused("id", format!("{id} is taken")));
        }
    }
    Ok(items)
}

/// Whether an item or edge has this id, or had it and was erased.
fn is_taken(snapshot: &Snapshot, id: u128) -> Result<bool, Damage> {
    Ok(snapshot.find(ItemId(id))?.is_some()
        || snapshot.has_edge(EdgeId(id))?
        || snapshot.has_tombstone(id)?)
}

/// Why item `id` of the batch cannot replace `old`, which is not earlier in it.
fn not_before(batch: &Batch, id: ItemId, old: ItemId) -> WriteError {
    let why = if old == id {
        format!("item {id} replaces itself; a chain cannot run in a circle")
    } else if leads_to(batch, old, id) {
        format!(
            "items {id} and {old} of the batch replace each other; a chain cannot run in a circle"
        )
    } else {
        format!(
            "item {id} replaces {old}, which comes later in the batch; what is replaced goes first"
        )
    };
    WriteError::refused("supersedes", why)
}

/// Whether `id` is among what item `from` of the batch replaces, directly or further on.
fn leads_to(batch: &Batch, from: ItemId, id: ItemId) -> bool {
    let replaced: HashMap<_, _> =
        batch.items.iter().map(|item| (item.id, &item.supersedes[..])).collect();
    let mut seen = HashSet::from([from]);
    let mut ahead = vec![from];
    while let Some(next) = ahead.pop() {
        let older = replaced.get(&Some(next)).copied().unwrap_or_default();
        if older.contains(&id) {
            return true;
        }
        ahead.extend(older.iter().copied().filter(|&id| seen.insert(id)));
    }
    false
}

/// Refuses an id that is not there or is tombstoned.
fn standing(snapshot: &Snapshot, field: &'static str, id: ItemId) -> Result<(), WriteError> {
    match snapshot.find(id)? {
        None => {
            let why = format!("there is no item {id}{}", erased(snapshot, id)?);
            Err(WriteError::refused(field, why))
        }
        Some(place) if snapshot.status(place)? == Status::Tombstoned => {
            Err(WriteError::refused(field, format!("item {id} is tombstoned")))
        }
        Some(_) => Ok(()),
    }
}

/// What to add about an id that has no row.
fn erased(snapshot: &Snapshot, id: ItemId) -> Result<&'static str, Damage> {
    Ok(if snapshot.has_tombstone(id.0)? { " any more: it was erased" } else { "" })
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
