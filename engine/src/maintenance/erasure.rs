//! Erasure: removal of an item's bytes from every file of the store.
//!
//! Determines the rows to erase with an item, and the order of steps; a [`RewriteJob`] rewrites each segment
//! (`format-spec/segment.md`, Erasure). A request is a tombstone in the log, so it survives a crash. Until the bytes
//! are removed, every manifest lists the request, and the next open resumes the erasure.

use std::collections::{BTreeSet, HashSet};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::error::{CorruptionError, WriteError};
use crate::ids::{EdgeId, ItemId, Row, Seq, SourceId};
use crate::item::{Batch, TombstoneDraft};
use crate::layout::EDGE_SOURCE;
use crate::limits::{ERASURES_PENDING_MAX, FRAME_BYTES_MAX};
use crate::maintenance::compact::CompactionOutcome;
use crate::merge::{ErasedIds, edges_erased_with};
use crate::query::records::TombstoneTarget;
use crate::query::snapshot::Snapshot;
use crate::segment_snapshot::SegmentSnapshot;
use crate::store::Store;
use crate::store::segment_rewrite::RewriteJob;
use crate::throttle::Throttle;

/// Bytes of supersedes lists in one batch of tombstones. The rest of a frame is for the other tombstone fields.
const LIST_BYTES_MAX: usize = FRAME_BYTES_MAX / 4;

impl Store {
    /// Hides items and edges at once, and removes their bytes from every file before it returns. Edges of an erased
    /// item are erased too, and sources that no other row references.
    ///
    /// The tombstones remain, with the id, the time, the actor and the reason of each erasure, and the ids of the
    /// superseded items, so that the supersession chain stays connected.
    pub fn erase(
        &self,
        ids: &[u128],
        by: &str,
        reason: &str,
        pace: &dyn Throttle,
    ) -> Result<(), WriteError> {
        self.begin_erasure(ids, by, reason)?;
        self.erase_pending(pace).map(drop)
    }

    /// First half of [`Store::erase`], which waits for no compaction and no re-embedding: hides items and edges at
    /// once. The log records the ids, so [`Store::erase_pending`] removes the bytes even after an error or a crash. The
    /// background workers call it after every commit that erases, and at the next open.
    ///
    /// If the supersedes lists are too long for one commit, several commits are written. Each commit is atomic, and an
    /// error reports the first failed commit.
    pub fn begin_erasure(&self, ids: &[u128], by: &str, reason: &str) -> Result<(), WriteError> {
        let stone = |&target: &u128| TombstoneDraft {
            target,
            at: None,
            by: by.to_owned(),
            reason: reason.to_owned(),
            erase: true,
            ..TombstoneDraft::default()
        };
        let lists = supersedes_list_bytes(&self.snapshot(), ids)?;
        let mut rest = ids;
        for count in batch_sizes(&lists, LIST_BYTES_MAX) {
            let (now, later) = rest.split_at(count);
            let tombstones = now.iter().map(stone).collect();
            self.write(Batch { tombstones, ..Batch::default() })?;
            rest = later;
        }
        Ok(())
    }

    /// Removes the bytes of all pending erasures. Returns the number of erased ids, sources included. If the throttle
    /// cancels, only the ids of completed rounds are counted.
    pub fn erase_pending(&self, pace: &dyn Throttle) -> Result<usize, WriteError> {
        let mut erased = 0;
        loop {
            // Each round leaves fewer ids to erase; every round but the last erases as many as a manifest can list.
            let (ids, is_last) = self.erase_round(pace)?;
            erased += ids;
            if is_last {
                return Ok(erased);
            }
        }
    }

    /// Removes the bytes of as many ids as a manifest can list together with their orphaned sources. Returns the number
    /// of erased ids, and true for the last round.
    fn erase_round(&self, pace: &dyn Throttle) -> Result<(usize, bool), WriteError> {
        let _alone = self.rewriting.lock();
        // Rows that a concurrent flush took from the tail could reference a source to be erased.
        let no_flush = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let (pending, snapshot) = {
            let mut writer = self.writer()?;
            (writer.erasures().clone(), writer.snapshot())
        };
        if pending.is_empty() {
            return Ok((0, true));
        }
        let sources = orphaned_sources(&snapshot, &pending)?;
        let (erased, is_all) = {
            let mut writer = self.writer()?;
            let named = sources_named_since(writer.segments.tail(), snapshot.seq())?;
            let mut sources: Vec<_> =
                sources.into_iter().filter(|it| !named.contains(it)).collect();
            let room = ERASURES_PENDING_MAX.saturating_sub(writer.erasures().len());
            let is_all = sources.len() <= room;
            sources.truncate(room);
            writer.add_erasures(sources.iter().copied());
            (erasure_set(&snapshot, &pending, &sources, is_all)?, is_all)
        };
        self.flush_tail(&erased)?;
        // From here on the tail has no row to erase and cannot get any, so flushes may continue.
        drop(no_flush);
        let mut clean = HashSet::new();
        while let Some(job) = self.next_to_rewrite(&erased, &mut clean)? {
            clean.insert(job.segment);
            if self.rewrite(&job, &erased, pace)? == CompactionOutcome::Cancelled {
                // The throttle cancelled this call, so the background workers finish the erasure.
                self.maintenance.request_rewrite();
                return Ok((0, true));
            }
        }
        let mut writer = self.writer()?;
        let ids: BTreeSet<u128> = erased.ids().collect();
        writer.complete_erasures(&*self.env.disk, &ids)?;
        self.publish_durable(&mut writer);
        Ok((ids.len(), is_all))
    }

    /// Returns a job over a sealed segment with a row to erase; `None` if no segment has any. `clean` collects the
    /// numbers of segments known to have none.
    fn next_to_rewrite(
        &self,
        erased: &ErasedIds,
        clean: &mut HashSet<u64>,
    ) -> Result<Option<RewriteJob>, WriteError> {
        if let Some(job) = self.job_with_any(erased, clean)? {
            return Ok(Some(job));
        }
        // Rows that a flush has claimed come back in the segment that the flush writes.
        let _no_flush = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.job_with_any(erased, clean)
    }

    /// As `next_to_rewrite`, without rows that a running flush has claimed.
    fn job_with_any(
        &self,
        erased: &ErasedIds,
        clean: &mut HashSet<u64>,
    ) -> Result<Option<RewriteJob>, WriteError> {
        let sealed = self.writer()?.sealed();
        for (number, part) in sealed {
            if clean.contains(&number) {
                continue;
            }
            if !contains_erased(&part, erased)? {
                clean.insert(number);
                continue;
            }
            let mut writer = self.writer()?;
            // The re-embedded copy of this segment contains the rows, too.
            writer.discard_reembedded(&*self.env.disk, number);
            let job = writer.begin_job_over(number);
            if job.is_some() {
                return Ok(job);
            }
        }
        Ok(None)
    }

    /// Number of ids waiting for erasure, including the sources of an erasure in progress. Does not wait for writers.
    pub fn erasures_pending(&self) -> Result<usize, WriteError> {
        let pending = self.erasures_pending.load(Ordering::SeqCst);
        self.stop_error().map_or(Ok(pending), Err)
    }

    /// Number of items waiting for erasure: [`Store::erasures_pending`] without edges and sources.
    pub fn item_erasures_pending(&self) -> Result<usize, WriteError> {
        if let Some((pending, snapshot)) = self.replica_erasures() {
            return Ok(count_items(&snapshot, &pending)?);
        }
        let (pending, snapshot) = {
            let mut writer = self.writer()?;
            (writer.erasures().clone(), writer.snapshot())
        };
        Ok(count_items(&snapshot, &pending)?)
    }
}

/// Returns the ids to erase in this round. If there are too many sources for one round (`is_all` is false), the result
/// has only the sources that fit and the pending ids without a row. The rows of the other pending ids stay, as the next
/// round finds the remaining sources through them.
fn erasure_set(
    snapshot: &Snapshot,
    pending: &BTreeSet<u128>,
    sources: &[SourceId],
    is_all: bool,
) -> Result<ErasedIds, CorruptionError> {
    let mut ids: BTreeSet<u128> = sources.iter().map(|source| source.0).collect();
    for &id in pending {
        let is_named = || {
            Ok::<_, CorruptionError>(
                snapshot.find(ItemId(id))?.is_some() || snapshot.has_edge(EdgeId(id))?,
            )
        };
        if is_all || !is_named()? {
            ids.insert(id);
        }
    }
    Ok(ErasedIds::new(ids))
}

/// Returns the sources that only these ids, or edges erased with them, reference. Reads the source of every edge of the
/// store, unless no erased row has a source.
fn orphaned_sources(
    snapshot: &Snapshot,
    pending: &BTreeSet<u128>,
) -> Result<BTreeSet<SourceId>, CorruptionError> {
    let mut sources = BTreeSet::new();
    for &id in pending {
        if let Some(place) = snapshot.find(ItemId(id))? {
            sources.extend(snapshot.item(place)?.source);
        }
    }
    let edges = snapshot.segments.iter().map(|part| edges_to_erase(part, pending));
    let edges = edges.collect::<Result<Vec<BTreeSet<Row>>, CorruptionError>>()?;
    for (part, going) in snapshot.segments.iter().zip(&edges) {
        for &row in going {
            sources.extend(part.segment.edge(row)?.source);
        }
    }
    sources.retain(|source| !pending.contains(&source.0));
    if sources.is_empty() {
        return Ok(sources);
    }
    let mut stays = BTreeSet::new();
    for &source in &sources {
        // A missing source was erased in an earlier round.
        let mut is_kept = snapshot.source(source)?.is_none();
        for place in snapshot.items_by_source(source)? {
            is_kept |= !pending.contains(&snapshot.id(place)?.0);
        }
        stays.extend(is_kept.then_some(source));
    }
    for (part, going) in snapshot.segments.iter().zip(&edges) {
        let named = part.segment.column::<u128>(EDGE_SOURCE)?.all()?;
        for (row, &id) in (0..).zip(named) {
            if id != 0 && sources.contains(&SourceId(id)) && !going.contains(&row) {
                stays.insert(SourceId(id));
            }
        }
    }
    Ok(&sources - &stays)
}

/// Rows of the edges of a segment that are erased with these ids.
fn edges_to_erase(
    part: &SegmentSnapshot,
    pending: &BTreeSet<u128>,
) -> Result<BTreeSet<Row>, CorruptionError> {
    let mut rows = BTreeSet::new();
    if part.segment.header().edges > 0 {
        for &id in pending {
            rows.extend(edges_erased_with(&part.segment, id)?);
        }
    }
    Ok(rows)
}

/// Bytes of each id's supersedes list in its tombstone.
fn supersedes_list_bytes(snapshot: &Snapshot, ids: &[u128]) -> Result<Vec<usize>, CorruptionError> {
    let list = |&id: &u128| match snapshot.find(ItemId(id))? {
        Some(place) => Ok(size_of::<u128>() * snapshot.item(place)?.supersedes.len()),
        None => Ok(0),
    };
    ids.iter().map(list).collect()
}

/// Returns the number of ids in each batch: as many as fit into `bytes_max`, at least 1.
fn batch_sizes(bytes: &[usize], bytes_max: usize) -> Vec<usize> {
    let mut runs = Vec::new();
    let (mut count, mut sum) = (0, 0);
    for &bytes in bytes {
        if count > 0 && sum + bytes > bytes_max {
            runs.push(count);
            (count, sum) = (0, 0);
        }
        (count, sum) = (count + 1, sum + bytes);
    }
    // An empty batch is written too, as the writer must reject it.
    runs.push(count);
    runs
}

/// Sources that commits after `seq` reference. The erasure has not examined them yet, so they stay.
fn sources_named_since(
    tail: &[SegmentSnapshot],
    seq: Seq,
) -> Result<BTreeSet<SourceId>, CorruptionError> {
    let mut named = BTreeSet::new();
    for part in tail.iter().filter(|part| part.segment.header().last_seq > seq) {
        for row in 0..part.segment.header().items {
            let item = part.segment.item(row)?;
            named.extend(item.source.filter(|_| item.seq > seq));
        }
        for row in 0..part.segment.header().edges {
            let edge = part.segment.edge(row)?;
            named.extend(edge.source.filter(|_| edge.seq > seq));
        }
    }
    Ok(named)
}

/// Returns true if the segment has a row to erase.
fn contains_erased(part: &SegmentSnapshot, erased: &ErasedIds) -> Result<bool, CorruptionError> {
    for id in erased.ids() {
        let segment = &part.segment;
        let is_there = segment.row_of_item(ItemId(id))?.is_some()
            || segment.row_of_source(SourceId(id))?.is_some()
            || segment.row_of_edge(EdgeId(id))?.is_some()
            || segment.is_node(ItemId(id))?;
        if is_there {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Counts the items among these ids. An item's row may already be erased if the erasure was interrupted; an orphaned
/// source has no tombstone and is not counted.
fn count_items(snapshot: &Snapshot, pending: &BTreeSet<u128>) -> Result<usize, CorruptionError> {
    let mut items = 0;
    for &id in pending {
        items += usize::from(match snapshot.tombstone_target(id)? {
            TombstoneTarget::Item(_) => true,
            TombstoneTarget::Edge => false,
            TombstoneTarget::Erased => snapshot.is_erased(id)?,
        });
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::ItemDraft;
    use crate::store::{Env, Options};

    /// Any commit counts: an import hides items with its own tombstones, without `begin_erasure`.
    #[test]
    fn erasing_commit_wakes_the_rewrite_worker() {
        let folder = tempfile::tempdir().unwrap();
        let ground = Env::on_disk(folder.path()).unwrap();
        let store = Store::open(ground, Options::default()).unwrap();
        let (kind, modality) = ("note".to_owned(), "text".to_owned());
        let item = ItemDraft { kind, modality, ..ItemDraft::default() };
        let items = vec![item];
        let item = store.write(Batch { items, ..Batch::default() }).unwrap().items[0];
        for (erase, wakes) in [(false, false), (true, true)] {
            let stone = TombstoneDraft { target: item.0, erase, ..TombstoneDraft::default() };
            store.write(Batch { tombstones: vec![stone], ..Batch::default() }).unwrap();
            assert_eq!(store.maintenance.is_rewrite_requested(), wakes);
        }
    }

    #[test]
    fn tombstone_batches_hold_all_lists_that_fit_but_at_least_one() {
        for (bytes, wanted) in [
            (&[][..], &[0][..]),
            (&[0, 0, 0], &[3]),
            (&[50, 50, 1], &[2, 1]),
            (&[101, 0, 100, 1], &[1, 2, 1]),
            (&[100, 100, 100], &[1, 1, 1]),
        ] {
            assert_eq!(batch_sizes(bytes, 100), wanted, "{bytes:?}");
        }
    }
}
