//! Integrity checks of a batch against other rows: ids that must exist, and ids that must not.
//!
//! An id is assigned once. Items and edges share one set of ids, as a tombstone refers to either by the number alone.
//! An id with a tombstone stays in use after its row is erased.
//!
//! The tombstones of erased items preserve their supersession links, which an import restores with the other rows of an
//! export. All items that such a tombstone lists existed before it, so no cycle can form through tombstones either.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::error::{CorruptionError, WriteError};
use crate::ids::{EdgeId, ItemId, SourceId};
use crate::item::{Batch, CompleteBatch, TombstoneDraft};
use crate::limits::FRAME_BYTES_MAX;
use crate::query::snapshot::{Snapshot, Status};

const COMPLETE: &str = "a complete batch has all ids";

/// Checks a batch's references to other rows.
///
/// An item can only supersede earlier items, in the store or in the batch, so no cycle can form. A tombstone can only
/// refer to rows in the store: a batch that adds and hides the same row is a mistake, and an import hides rows in its
/// next batch.
pub(crate) fn check(snapshot: &Snapshot, batch: &CompleteBatch) -> Result<(), WriteError> {
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
                None if batch.may_replace_erased && is_erased_without_row(snapshot, old)? => {}
                None => check_current(snapshot, "supersedes", old)?,
                Some(&earlier) if earlier < at => {}
                Some(_) => return Err(not_earlier_error(batch, item.id.expect(COMPLETE), old)),
            }
        }
        if let Some(reference) = &item.reference {
            check_ref_unique(snapshot, reference, &item.supersedes, &mut refs)?;
        }
    }
    let mut edges = HashSet::new();
    for edge in &batch.edges {
        known_source(edge.source)?;
        for (field, end) in [("from", edge.from), ("to", edge.to)] {
            if !items.contains_key(&end) {
                check_current(snapshot, field, end)?;
            }
        }
        let id = edge.id.expect(COMPLETE);
        if !edges.insert(id) || items.contains_key(&ItemId(id.0)) || is_taken(snapshot, id.0)? {
            return Err(WriteError::refused("edge.id", format!("{id} is taken")));
        }
    }
    let mut gone = HashMap::new();
    for stone in &batch.tombstones {
        let id = ItemId(stone.target);
        if items.contains_key(&id) || edges.contains(&EdgeId(stone.target)) {
            let why = format!("the batch itself adds {id}; hide it with a later batch");
            return Err(WriteError::refused("target", why));
        }
        check_target(snapshot, stone, &mut gone)?;
    }
    Ok(())
}

/// Checks the target of a tombstone. `gone` maps erased targets of earlier tombstones of the batch to their lists.
fn check_target<'a>(
    snapshot: &Snapshot,
    stone: &'a TombstoneDraft,
    gone: &mut HashMap<ItemId, &'a [ItemId]>,
) -> Result<(), WriteError> {
    let id = ItemId(stone.target);
    let is_item = snapshot.find(id)?.is_some();
    let is_there = is_item || snapshot.has_edge(EdgeId(stone.target))?;
    if !is_there && !stone.target_erased {
        let why = format!("there is no item or edge {id}{}", erased_note(snapshot, id)?);
        return Err(WriteError::refused("target", why));
    }
    let list = &stone.supersedes[..];
    if !list.is_empty() {
        check_supersedes_list(snapshot, id, list, is_there, gone)?;
    }
    if !is_there && stone.erase && !gone.contains_key(&id) {
        gone.insert(id, list);
    }
    Ok(())
}

/// Checks a tombstone's list of superseded items: it must equal the list known to the store, or consist of existing or
/// erased items. Most tombstones have no list, so their targets need no decoding.
fn check_supersedes_list(
    snapshot: &Snapshot,
    id: ItemId,
    list: &[ItemId],
    is_there: bool,
    gone: &HashMap<ItemId, &[ItemId]>,
) -> Result<(), WriteError> {
    let known = if is_there || is_erased_without_row(snapshot, id)? {
        Some(superseded_by_id(snapshot, id)?)
    } else {
        gone.get(&id).map(|list| list.to_vec())
    };
    let Some(known) = known else {
        for &old in list {
            if !gone.contains_key(&old)
                && snapshot.find(old)?.is_none()
                && !is_erased_without_row(snapshot, old)?
            {
                let why = format!("there is no item {old}, and none was erased");
                return Err(WriteError::refused("supersedes", why));
            }
        }
        return Ok(());
    };
    if known == list {
        return Ok(());
    }
    let why = format!("{id} did not replace the items that are given");
    Err(WriteError::refused("supersedes", why))
}

/// Items superseded by an item, present or erased; empty for an edge.
fn superseded_by_id(snapshot: &Snapshot, id: ItemId) -> Result<Vec<ItemId>, CorruptionError> {
    match snapshot.find(id)? {
        Some(place) => Ok(snapshot.item(place)?.supersedes),
        None => snapshot.superseded_by_erased(id),
    }
}

/// Returns true if an item was erased and its row is removed.
fn is_erased_without_row(snapshot: &Snapshot, id: ItemId) -> Result<bool, CorruptionError> {
    Ok(snapshot.find(id)?.is_none() && snapshot.is_erased(id.0)?)
}

/// Completes the tombstones of a checked batch from the store: marks targets without a row, and adds the superseded
/// items of targets to be erased. Returns true if a tombstone changed. Lists too long for a frame are rejected before
/// they are encoded, as this runs under the writer's lock.
pub(crate) fn record_supersedes(
    snapshot: &Snapshot,
    batch: &mut CompleteBatch,
) -> Result<bool, WriteError> {
    record_supersedes_within(snapshot, batch, FRAME_BYTES_MAX)
}

fn record_supersedes_within(
    snapshot: &Snapshot,
    batch: &mut CompleteBatch,
    bytes_max: usize,
) -> Result<bool, WriteError> {
    let (mut changed, mut bytes) = (false, 0);
    for stone in
        batch.tombstones_mut().iter_mut().filter(|stone| stone.erase || stone.target_erased)
    {
        let id = ItemId(stone.target);
        let place = snapshot.find(id)?;
        let gone = place.is_none() && !snapshot.has_edge(EdgeId(stone.target))?;
        changed |= std::mem::replace(&mut stone.target_erased, gone) != gone;
        if stone.erase
            && let Some(place) = place
        {
            let list = snapshot.item(place)?.supersedes;
            changed |= list != stone.supersedes;
            stone.supersedes = list;
        }
        bytes += size_of_val(&stone.supersedes[..]);
        if bytes > bytes_max {
            let why = format!(
                "more than {bytes_max} bytes of ids that the erased items replaced; erase fewer of \
                 them at once"
            );
            return Err(WriteError::refused("batch", why));
        }
    }
    Ok(changed)
}

/// Rejects a batch that references a source under erasure.
pub(crate) fn check_not_erasing(
    erasures: &BTreeSet<u128>,
    batch: &CompleteBatch,
) -> Result<(), WriteError> {
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

/// Collects the ids of the batch's sources, and rejects ids in use.
fn check_sources(snapshot: &Snapshot, batch: &Batch) -> Result<HashSet<SourceId>, WriteError> {
    let mut sources = HashSet::new();
    for source in batch.sources.iter().filter_map(|source| source.id) {
        if !sources.insert(source) || snapshot.source(source)?.is_some() {
            return Err(WriteError::refused("source.id", format!("{source} is taken")));
        }
    }
    Ok(sources)
}

/// Maps the ids of the batch's items to their positions, and rejects ids in use.
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

/// Returns true if an item or edge has this id, or had it before an erasure.
fn is_taken(snapshot: &Snapshot, id: u128) -> Result<bool, CorruptionError> {
    Ok(snapshot.find(ItemId(id))?.is_some()
        || snapshot.has_edge(EdgeId(id))?
        || snapshot.has_tombstone(id)?)
}

/// Error for item `id` of the batch, which cannot supersede the later item `old`.
fn not_earlier_error(batch: &Batch, id: ItemId, old: ItemId) -> WriteError {
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

/// Returns true if item `from` of the batch supersedes `id`, directly or through other items.
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

/// Rejects an id without a row or with a tombstone.
fn check_current(snapshot: &Snapshot, field: &'static str, id: ItemId) -> Result<(), WriteError> {
    match snapshot.find(id)? {
        None => {
            let why = format!("there is no item {id}{}", erased_note(snapshot, id)?);
            Err(WriteError::refused(field, why))
        }
        Some(place) if snapshot.status(place)? == Status::Tombstoned => {
            Err(WriteError::refused(field, format!("item {id} is tombstoned")))
        }
        Some(_) => Ok(()),
    }
}

/// Message suffix for an id without a row.
fn erased_note(snapshot: &Snapshot, id: ItemId) -> Result<&'static str, CorruptionError> {
    Ok(if snapshot.has_tombstone(id.0)? { " any more: it was erased" } else { "" })
}

/// Checks that a ref belongs to one current item: a new item with the ref must supersede that item.
fn check_ref_unique(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{CheckedBatch, ItemDraft};
    use crate::os::clock::Micros;
    use crate::row_state::RowState;
    use crate::segment::{Segment, SegmentBuilder};
    use crate::segment_snapshot::SegmentSnapshot;

    fn item(id: u128, supersedes: &[u128]) -> ItemDraft {
        ItemDraft {
            id: Some(ItemId(id)),
            kind: "note".to_owned(),
            modality: "text".to_owned(),
            supersedes: supersedes.iter().copied().map(ItemId).collect(),
            ..ItemDraft::default()
        }
    }

    /// Tombstone of an erased target, whose row is or may be gone.
    fn gone(target: u128, replaced: &[u128]) -> TombstoneDraft {
        let supersedes = replaced.iter().copied().map(ItemId).collect();
        TombstoneDraft {
            target,
            erase: true,
            target_erased: true,
            supersedes,
            ..TombstoneDraft::default()
        }
    }

    /// Store with items 1 and 4; item 3, which had superseded 1, is erased.
    fn store() -> Snapshot {
        let mut builder = SegmentBuilder::default();
        let (items, tombstones) = (vec![item(1, &[]), item(4, &[3])], vec![gone(3, &[1])]);
        builder.push_batch(1, &Batch { items, tombstones, ..Batch::default() });
        let segment = Segment::from_heap(builder.finish()).into();
        Snapshot::new(&[SegmentSnapshot { segment, state: RowState::empty(2, 0).into() }], 1, None)
    }

    fn complete(batch: Batch) -> CompleteBatch {
        CheckedBatch::new(batch, None).unwrap().complete(Micros(1), || 77)
    }

    /// Error message, or an empty string if the batch is accepted.
    fn told(batch: Batch) -> String {
        let told = check(&store(), &complete(batch));
        told.map_or_else(|error| error.to_string(), |()| String::new())
    }

    fn of_items(items: Vec<ItemDraft>) -> Batch {
        Batch { items, ..Batch::default() }
    }

    fn of_stones(tombstones: Vec<TombstoneDraft>) -> Batch {
        Batch { tombstones, ..Batch::default() }
    }

    #[test]
    fn erased_id_cannot_be_reused() {
        assert!(told(of_items(vec![item(3, &[])])).contains("is taken"));
        let why = told(of_items(vec![item(5, &[3])]));
        assert!(why.starts_with("supersedes: ") && why.contains("erased"), "{why}");
        let plain = TombstoneDraft { target: 3, ..TombstoneDraft::default() };
        assert!(told(of_stones(vec![plain])).contains("erased"));
    }

    #[test]
    fn imported_rows_may_reference_erased_items() {
        let may = |items| Batch { may_replace_erased: true, ..of_items(items) };
        assert_eq!(told(may(vec![item(5, &[3])])), "");
        let why = told(may(vec![item(5, &[6])]));
        assert!(why.contains("there is no item"), "{why}");
        assert!(told(may(vec![item(3, &[])])).contains("is taken"), "it does not come back");
    }

    #[test]
    fn imported_tombstone_reserves_its_id_and_supersedes_list() {
        for (stones, wanted) in [
            (vec![gone(5, &[])], ""),
            (vec![gone(5, &[1, 3])], ""),
            (vec![gone(6, &[1]), gone(5, &[6]), gone(6, &[1]), gone(6, &[])], ""),
            (vec![gone(3, &[1])], ""),
            (vec![gone(3, &[])], ""),
            (vec![gone(4, &[3])], ""),
            (vec![gone(5, &[6]), gone(6, &[])], "there is no item"),
            (vec![gone(5, &[5])], "there is no item"),
            (vec![gone(6, &[1]), gone(6, &[])], ""),
            (vec![gone(6, &[]), gone(5, &[6]), gone(6, &[5])], "did not replace"),
            (vec![gone(3, &[4])], "did not replace"),
            (vec![gone(4, &[1])], "did not replace"),
        ] {
            let why = told(of_stones(stones.clone()));
            let is_right = if wanted.is_empty() { why.is_empty() } else { why.contains(wanted) };
            assert!(is_right, "{stones:?}: {why}");
        }
        let kept = TombstoneDraft { erase: false, ..gone(5, &[1]) };
        let refused = CheckedBatch::new(of_stones(vec![kept]), None).unwrap_err().error.to_string();
        assert!(refused.contains("not erased"), "{refused}");
    }

    #[test]
    fn tombstones_record_the_supersedes_list_of_their_target() {
        let plain = TombstoneDraft { target: 4, ..TombstoneDraft::default() };
        let erase = TombstoneDraft { erase: true, ..plain.clone() };
        let mut batch = complete(of_stones(vec![plain, erase, gone(1, &[]), gone(5, &[1])]));
        assert!(record_supersedes(&store(), &mut batch).unwrap());
        let said = batch.batch().tombstones.iter();
        let said: Vec<_> = said.map(|it| (it.target_erased, it.supersedes.clone())).collect();
        let (three, one) = (vec![ItemId(3)], vec![ItemId(1)]);
        assert_eq!(said, [(false, vec![]), (false, three), (false, vec![]), (true, one)]);
        assert!(!record_supersedes(&store(), &mut batch).unwrap(), "nothing more to say");
        let two_ids = 2 * size_of::<u128>();
        assert!(record_supersedes_within(&store(), &mut batch, two_ids).is_ok());
        let why =
            record_supersedes_within(&store(), &mut batch, two_ids - 1).unwrap_err().to_string();
        assert!(why.starts_with("batch: more than 31 bytes"), "{why}");
    }
}
