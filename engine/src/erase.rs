//! Erasure: the bytes of an item leave every file of the store.
//!
//! Owns what goes with an item and the order of steps; the rewriting is a [`Job`]'s
//! (`format-spec/segment.md`, Erasure). A request is a tombstone in the log, so it survives a crash;
//! until its bytes are gone each manifest lists it, and the next opening goes on with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use crate::compact::Compacted;
use crate::error::{Damage, WriteError};
use crate::ids::{ItemId, Seq, SourceId};
use crate::item::{Batch, TombstoneDraft};
use crate::merge::Erased;
use crate::pace::Pace;
use crate::snapshot::{Part, Snapshot};
use crate::store::Store;

impl Store {
    /// Hides items and edges at once and removes their bytes from every file before it returns. What
    /// stays is each id with when, by whom and why it was erased, and the ids of what it replaced, so
    /// that its chain holds together. Edges of an erased item go with
    /// it, and sources that nothing else names.
    pub fn erase(
        &self,
        ids: &[u128],
        by: &str,
        reason: &str,
        pace: &dyn Pace,
    ) -> Result<(), WriteError> {
        self.begin_erasure(ids, by, reason)?;
        self.erase_pending(pace).map(drop)
    }

    /// The first half of [`Store::erase`], which waits for no compaction and no move: hides items and
    /// edges at once. The ids are remembered by the log, so whatever comes between, an error or a
    /// crash, [`Store::erase_pending`] removes the bytes; upkeep calls it at the next opening, and when
    /// [`Store::leave_erasures`] tells it to.
    pub fn begin_erasure(&self, ids: &[u128], by: &str, reason: &str) -> Result<(), WriteError> {
        let stone = |&target: &u128| TombstoneDraft {
            target,
            at: None,
            by: by.to_owned(),
            reason: reason.to_owned(),
            erase: true,
            ..TombstoneDraft::default()
        };
        let tombstones = ids.iter().map(stone).collect();
        self.write(Batch { tombstones, ..Batch::default() }).map(drop)
    }

    /// Leaves what is to be erased to upkeep, which begins as soon as it can.
    pub fn leave_erasures(&self) {
        self.wanted.note_change();
    }

    /// Removes the bytes of all that is to be erased. Gives how many ids that were, those of sources
    /// included; 0 also when the pace ended it.
    pub fn erase_pending(&self, pace: &dyn Pace) -> Result<usize, WriteError> {
        let _alone = self.compacting.lock().unwrap_or_else(PoisonError::into_inner);
        let _no_flush = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let (pending, snapshot) = {
            let mut writer = self.writer()?;
            (writer.erasures().clone(), writer.snapshot())
        };
        if pending.is_empty() {
            return Ok(0);
        }
        let sources = sources_that_go(&snapshot, &pending)?;
        let erased = {
            let mut writer = self.writer()?;
            let named = named_since(writer.rows.tail(), snapshot.seq())?;
            let sources: Vec<_> = sources.into_iter().filter(|it| !named.contains(it)).collect();
            writer.erase_too(sources.iter().copied());
            Erased::new(pending.into_iter().chain(sources.into_iter().map(|source| source.0)))
        };
        self.flush_alone(&erased)?;
        let sealed = self.writer()?.manifest.segments.len();
        for at in 0..sealed {
            // Neither a flush nor a compaction runs, so places stay as they are.
            let job = {
                let mut writer = self.writer()?;
                if !holds_any(&writer.rows.sealed_parts()[at], &erased)? {
                    continue;
                }
                writer.job(at, 1)
            };
            if self.rewrite(&job, &erased, pace)? == Compacted::Cancelled {
                // Upkeep goes on with what nobody waits for any more.
                self.wanted.note_change();
                return Ok(0);
            }
        }
        let mut writer = self.writer()?;
        let ids: BTreeSet<u128> = erased.ids().collect();
        writer.forget_erased(&*self.ground.disk, &ids)?;
        self.show_settled(&mut writer);
        Ok(ids.len())
    }

    /// How many ids wait to be erased, with those of sources that go with an erasure that has begun.
    pub fn erasures_pending(&self) -> Result<usize, WriteError> {
        Ok(self.writer()?.erasures().len())
    }
}

/// The sources that only these ids name.
fn sources_that_go(snapshot: &Snapshot, pending: &BTreeSet<u128>) -> Result<Vec<SourceId>, Damage> {
    let mut sources: BTreeMap<SourceId, bool> = BTreeMap::new();
    for &id in pending {
        if let Some(place) = snapshot.find(ItemId(id))?
            && let Some(source) = snapshot.item(place)?.source
        {
            sources.insert(source, true);
        }
    }
    for (source, only) in &mut sources {
        for place in snapshot.items_of_source(*source)? {
            *only &= pending.contains(&snapshot.id(place)?.0);
        }
    }
    for part in snapshot.parts.iter() {
        for row in 0..part.segment.header().edges {
            let edge = part.segment.edge(row)?;
            let goes = [edge.id.0, edge.from.0, edge.to.0].iter().any(|id| pending.contains(id));
            if let Some(only) = edge.source.and_then(|source| sources.get_mut(&source)) {
                *only &= goes;
            }
        }
    }
    Ok(sources.into_iter().filter(|(_, only)| *only).map(|(source, _)| source).collect())
}

/// Sources that commits after `seq` name: they were not looked at yet, and stay.
fn named_since(tail: &[Part], seq: Seq) -> Result<BTreeSet<SourceId>, Damage> {
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

/// Whether a part has a row that goes.
fn holds_any(part: &Part, erased: &Erased) -> Result<bool, Damage> {
    for id in erased.ids() {
        let segment = &part.segment;
        let is_there = segment.row_of_item(ItemId(id))?.is_some()
            || segment.row_of_source(SourceId(id))?.is_some()
            || segment.row_of_edge(crate::ids::EdgeId(id))?.is_some()
            || segment.joins(ItemId(id))?;
        if is_there {
            return Ok(true);
        }
    }
    Ok(false)
}
