//! Snapshots: frozen views of the store, with which every read starts.
//!
//! A snapshot is a list of segments, each with the row state as of one commit. A snapshot shares segments with other
//! snapshots and never changes; readers never block the writer. If a snapshot has a [`AsOf`] other than now, every
//! read is evaluated as of its times.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::cancel::CancelToken;
use crate::error::{CorruptionError, SearchError};
use crate::ids::{EdgeId, ItemId, Row, Seq, SourceId};
use crate::layout::{
    Column, ITEM_KIND, ITEM_MODALITY, ITEM_RECORDED_AT, SOURCE_RECORDED_AT, VECTOR_ITEM,
};
use crate::manifest::Model;
use crate::os::clock::Micros;
use crate::query::ann_policy::AnnPolicy;
use crate::query::as_of::{AsOf, TimeColumns};
use crate::segment::{EdgeView, ItemView, SourceView, TombstoneView};
use crate::segment_snapshot::SegmentSnapshot;

/// Rows counted between two cancellation checks.
const ROWS_PER_CANCEL_CHECK: u32 = 1 << 14;

/// Row address: segment ordinal and row number of an item in one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowAddress {
    pub(crate) segment_ord: u32,
    pub(crate) row: Row,
}

/// Status of an item as of the snapshot's transaction time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Neither superseded nor tombstoned.
    Current,
    /// Replaced by a newer item.
    Superseded,
    /// Hidden by a tombstone.
    Tombstoned,
}

impl Status {
    /// Name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Superseded => "superseded",
            Self::Tombstoned => "tombstoned",
        }
    }
}

/// Row counts of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowCounts {
    /// Items that are not tombstoned, including superseded items.
    pub items: u64,
    /// Items that are superseded but not tombstoned.
    pub superseded: u64,
    /// Tombstoned items.
    pub tombstoned: u64,
    /// Edges that are not tombstoned.
    pub edges: u64,
    /// Known sources.
    pub sources: u64,
    /// Embeddings, including those of superseded and tombstoned items.
    pub vectors: u64,
    /// Sealed segments and in-memory segments of the tail.
    pub segments: u64,
}

/// Version of the store that a snapshot shows; a newer version compares greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotVersion {
    view: u64,
    seq: Seq,
}

/// A frozen view of a store.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) segments: Arc<[SegmentSnapshot]>,
    pub(crate) seq: Seq,
    pub(crate) model: Option<Model>,
    /// Number of the snapshot among those of its writer.
    pub(crate) view: u64,
    pub(crate) as_of: AsOf,
    /// Cancels reads of the snapshot.
    pub(crate) cancel: CancelToken,
    /// Policy of vector searches.
    pub(crate) ann_policy: AnnPolicy,
}

impl Snapshot {
    /// Makes a snapshot of these segments as of commit `seq`, their newest, with the default [`AsOf`].
    pub(crate) fn new(parts: &[SegmentSnapshot], seq: Seq, model: Option<Model>) -> Self {
        let (moment, stop) = (AsOf::default(), CancelToken::default());
        let searching = AnnPolicy::default();
        Self {
            segments: parts.into(),
            seq,
            model,
            as_of: moment,
            cancel: stop,
            ann_policy: searching,
            view: 0,
        }
    }

    /// Returns the snapshot evaluated as of `moment`. Row addresses stay valid between the two; an item not known at
    /// `moment` is still readable by its row address.
    pub fn with_as_of(&self, moment: AsOf) -> Self {
        Self { as_of: moment, ..self.clone() }
    }

    /// Returns the snapshot with `stop`, which cancels reads whose work grows with the store.
    #[must_use]
    pub fn with_cancel(self, stop: CancelToken) -> Self {
        Self { cancel: stop, ..self }
    }

    /// Checks for cancellation, for loops of the caller over results of the snapshot.
    ///
    /// # Errors
    /// [`SearchError::Interrupted`] if the snapshot's reads are cancelled.
    pub fn check_cancelled(&self) -> Result<(), SearchError> {
        self.cancel.check()
    }

    /// Times as of which the snapshot is read.
    pub fn as_of(&self) -> AsOf {
        self.as_of
    }

    /// Newest commit in the snapshot.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Version of the store in this snapshot. Two snapshots of one opened [`Store`](crate::Store) with equal versions
    /// are equal but for their [`AsOf`]s, and share row addresses.
    pub fn version(&self) -> SnapshotVersion {
        SnapshotVersion { view: self.view, seq: self.seq }
    }

    /// Model of the embeddings; `None` if the store is bound to no model.
    pub fn model(&self) -> Option<Model> {
        self.model
    }

    /// Counts the rows. Without a transaction time, the counts are those of the row states; with a transaction time,
    /// rows are counted one by one.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn row_counts(&self) -> Result<RowCounts, SearchError> {
        let mut counts = RowCounts { segments: self.segments.len() as u64, ..RowCounts::default() };
        for part in self.segments.iter() {
            match self.as_of.known_at {
                None => count_from_states(part, &mut counts),
                Some(_) => self.count_rows_known(part, &mut counts)?,
            }
        }
        Ok(counts)
    }

    fn count_rows_known(
        &self,
        part: &SegmentSnapshot,
        counts: &mut RowCounts,
    ) -> Result<(), SearchError> {
        let mut steps = self.cancel.every(ROWS_PER_CANCEL_CHECK);
        let (segment, header) = (&*part.segment, part.segment.header());
        let times = TimeColumns::for_items(self.as_of, segment)?;
        for row in 0..header.items {
            steps.tick()?;
            if !times.is_known(row)? {
                continue;
            }
            if part.state.tombstoned.contains(row) {
                counts.tombstoned += 1;
            } else {
                counts.items += 1;
                counts.superseded += u64::from(self.is_superseded(part, row)?);
            }
        }
        for &row in segment.column::<u32>(VECTOR_ITEM)?.all()? {
            steps.tick()?;
            counts.vectors += u64::from(times.is_known(row)?);
        }
        let times = TimeColumns::for_edges(self.as_of, segment)?;
        for row in 0..header.edges {
            steps.tick()?;
            let shown = !part.state.edges_tombstoned.contains(row) && times.is_known(row)?;
            counts.edges += u64::from(shown);
        }
        let recorded = segment.column::<i64>(SOURCE_RECORDED_AT)?.all()?.iter();
        counts.sources += recorded.filter(|&&at| self.as_of.is_known(Micros(at))).count() as u64;
        Ok(())
    }

    pub(crate) fn segment(&self, place: RowAddress) -> &SegmentSnapshot {
        &self.segments[place.segment_ord as usize]
    }

    pub(crate) fn segments_newest_first(&self) -> impl Iterator<Item = (u32, &SegmentSnapshot)> {
        let count = u32::try_from(self.segments.len()).expect("limits.rs bounds segments and tail");
        (0..count).rev().map(|part| (part, &self.segments[part as usize]))
    }

    /// Finds a known item by id, tombstoned or not.
    ///
    /// # Errors
    /// Corruption.
    pub fn find(&self, id: ItemId) -> Result<Option<RowAddress>, CorruptionError> {
        match self.find_any_time(id)? {
            Some(place) if self.is_known(place)? => Ok(Some(place)),
            _ => Ok(None),
        }
    }

    /// Returns true if the item at `place` was known at the transaction time.
    pub(crate) fn is_known(&self, place: RowAddress) -> Result<bool, CorruptionError> {
        TimeColumns::for_items(self.as_of, &self.segment(place).segment)?.is_known(place.row)
    }

    /// Returns true if the item at `place` was known at the transaction time and is valid at the valid time.
    pub(crate) fn is_visible(&self, place: RowAddress) -> Result<bool, CorruptionError> {
        TimeColumns::for_items(self.as_of, &self.segment(place).segment)?.is_visible(place.row)
    }

    /// Finds an item by id, whatever its recorded time.
    pub(crate) fn find_any_time(&self, id: ItemId) -> Result<Option<RowAddress>, CorruptionError> {
        for (part, it) in self.segments_newest_first() {
            if let Some(row) = it.segment.row_of_item(id)? {
                return Ok(Some(RowAddress { segment_ord: part, row }));
            }
        }
        Ok(None)
    }

    /// Finds the newest item with this ref that is known, valid, and neither superseded nor tombstoned.
    ///
    /// # Errors
    /// Corruption.
    pub fn find_ref(&self, reference: &str) -> Result<Option<RowAddress>, CorruptionError> {
        for (part, it) in self.segments_newest_first() {
            let rows = it.segment.rows_of_ref(reference)?;
            if rows.is_empty() {
                continue;
            }
            let times = TimeColumns::for_items(self.as_of, &it.segment)?;
            for &row in rows.iter().rev() {
                let hidden = it.state.tombstoned.contains(row);
                if !hidden && times.is_visible(row)? && !self.is_superseded(it, row)? {
                    return Ok(Some(RowAddress { segment_ord: part, row }));
                }
            }
        }
        Ok(None)
    }

    /// Reads the item at a row address.
    ///
    /// # Errors
    /// Corruption.
    pub fn item(&self, place: RowAddress) -> Result<ItemView<'_>, CorruptionError> {
        self.segment(place).segment.item(place.row)
    }

    /// Reads only the title of the item at a row address.
    ///
    /// # Errors
    /// Corruption.
    pub fn title(&self, place: RowAddress) -> Result<&str, CorruptionError> {
        self.segment(place).segment.title(place.row)
    }

    /// Reads only the id of the item at a row address.
    ///
    /// # Errors
    /// Corruption.
    pub fn id(&self, place: RowAddress) -> Result<ItemId, CorruptionError> {
        self.segment(place).segment.item_id(place.row)
    }

    /// Status of the item at a row address. A tombstone takes precedence, at every time.
    ///
    /// # Errors
    /// Corruption.
    pub fn status(&self, place: RowAddress) -> Result<Status, CorruptionError> {
        let part = self.segment(place);
        Ok(if part.state.tombstoned.contains(place.row) {
            Status::Tombstoned
        } else if self.is_superseded(part, place.row)? {
            Status::Superseded
        } else {
            Status::Current
        })
    }

    /// Returns true if an item is superseded. The row state is checked first; only if its bit is set and a transaction
    /// time is given are the successors examined.
    pub(crate) fn is_superseded(
        &self,
        part: &SegmentSnapshot,
        row: Row,
    ) -> Result<bool, CorruptionError> {
        if !part.state.superseded.contains(row) {
            return Ok(false);
        }
        match self.as_of.known_at {
            None => Ok(true),
            Some(_) => self.was_superseded(part.segment.item_id(row)?),
        }
    }

    /// Returns true if a successor was known at the transaction time. The time of an erased successor is unknown, so
    /// items that it replaced count as superseded at every time rather than as current.
    fn was_superseded(&self, id: ItemId) -> Result<bool, CorruptionError> {
        for it in self.segments.iter() {
            let times = TimeColumns::for_items(self.as_of, &it.segment)?;
            for &row in it.segment.successor_rows(id)? {
                if times.is_known(row)? {
                    return Ok(true);
                }
            }
        }
        Ok(!self.erased_successors(id)?.is_empty())
    }

    /// Erased items that superseded `id`, in tombstone order. The time of supersession is not stored, so they are
    /// returned at every transaction time.
    ///
    /// # Errors
    /// Corruption.
    pub fn erased_successors(&self, id: ItemId) -> Result<Vec<ItemId>, CorruptionError> {
        let mut erased = Vec::new();
        for it in self.segments.iter() {
            for &row in it.segment.erased_successor_rows(id)? {
                let target = ItemId(it.segment.tombstone_target(row)?);
                // While the erased item still has a row, that row states the supersession.
                if self.find_any_time(target)?.is_none() && !erased.contains(&target) {
                    erased.push(target);
                }
            }
        }
        Ok(erased)
    }

    /// Items that an erased item superseded, in the order of its list.
    pub(crate) fn superseded_by_erased(&self, id: ItemId) -> Result<Vec<ItemId>, CorruptionError> {
        let mut replaced = Vec::new();
        let mut seen = HashSet::new();
        for it in self.segments.iter() {
            for &row in it.segment.tombstone_rows(id.0)? {
                let list = it.segment.erased_supersedes(row)?;
                replaced.extend(list.iter().map(|&id| ItemId(id)).filter(|&id| seen.insert(id)));
            }
        }
        Ok(replaced)
    }

    /// Embedding of an item, as stored; `None` if the item has no embedding.
    ///
    /// # Errors
    /// Corruption.
    pub fn embedding(&self, place: RowAddress) -> Result<Option<&[half::f16]>, CorruptionError> {
        let segment = &self.segment(place).segment;
        segment.embedding_row(place.row)?.map(|row| segment.vector(row)).transpose()
    }

    /// Known items of a source, in write order.
    ///
    /// # Errors
    /// Corruption.
    pub fn items_by_source(&self, id: SourceId) -> Result<Vec<RowAddress>, CorruptionError> {
        let mut places = Vec::new();
        for (part, it) in (0u32..).zip(self.segments.iter()) {
            let times = TimeColumns::for_items(self.as_of, &it.segment)?;
            for &row in it.segment.rows_of_source(id)? {
                if times.is_known(row)? {
                    places.push(RowAddress { segment_ord: part, row });
                }
            }
        }
        Ok(places)
    }

    /// Finds a known source by id.
    ///
    /// # Errors
    /// Corruption.
    pub fn source(&self, id: SourceId) -> Result<Option<SourceView<'_>>, CorruptionError> {
        for (_, it) in self.segments_newest_first() {
            if let Some(row) = it.segment.row_of_source(id)? {
                let source = it.segment.source(row)?;
                return Ok(self.as_of.is_known(source.recorded_at).then_some(source));
            }
        }
        Ok(None)
    }

    /// All known versions of the source at a uri, oldest first.
    ///
    /// # Errors
    /// Corruption.
    pub fn sources_by_uri(&self, uri: &str) -> Result<Vec<SourceView<'_>>, CorruptionError> {
        let mut sources = Vec::new();
        for it in self.segments.iter() {
            for &row in it.segment.source_rows_of_uri(uri)? {
                let source = it.segment.source(row)?;
                if self.as_of.is_known(source.recorded_at) {
                    sources.push(source);
                }
            }
        }
        Ok(sources)
    }

    /// Finds a known edge by id, unless the edge is tombstoned.
    ///
    /// # Errors
    /// Corruption.
    pub fn edge(&self, id: EdgeId) -> Result<Option<EdgeView<'_>>, CorruptionError> {
        for (_, it) in self.segments_newest_first() {
            if let Some(row) = it.segment.row_of_edge(id)? {
                if it.state.edges_tombstoned.contains(row) {
                    return Ok(None);
                }
                let edge = it.segment.edge(row)?;
                return Ok(self.as_of.is_known(edge.recorded_at).then_some(edge));
            }
        }
        Ok(None)
    }

    /// Returns true if an edge with this id exists, tombstoned or not.
    pub(crate) fn has_edge(&self, id: EdgeId) -> Result<bool, CorruptionError> {
        for it in self.segments.iter() {
            if it.segment.row_of_edge(id)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a tombstone names this id, even if the target has no row.
    pub(crate) fn has_tombstone(&self, target: u128) -> Result<bool, CorruptionError> {
        for it in self.segments.iter() {
            if !it.segment.tombstone_rows(target)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a tombstone marks this id as erased.
    ///
    /// # Errors
    /// Corruption.
    pub fn is_erased(&self, id: u128) -> Result<bool, CorruptionError> {
        Ok(self.tombstones(id)?.iter().any(|stone| stone.erase))
    }

    /// Tombstones of an item or edge, oldest first; of all times, as a tombstone hides its target at every time.
    ///
    /// # Errors
    /// Corruption.
    pub fn tombstones(&self, target: u128) -> Result<Vec<TombstoneView<'_>>, CorruptionError> {
        let mut stones = Vec::new();
        for it in self.segments.iter() {
            for &row in it.segment.tombstone_rows(target)? {
                stones.push(it.segment.tombstone(row)?);
            }
        }
        Ok(stones)
    }

    /// Iterates over the row addresses of all known items, tombstoned or not, in write order.
    ///
    /// # Errors
    /// Corruption.
    pub fn item_addresses(&self) -> Result<impl Iterator<Item = RowAddress> + '_, CorruptionError> {
        let mut parts = Vec::with_capacity(self.segments.len());
        for (part, it) in (0u32..).zip(self.segments.iter()) {
            let recorded = match self.as_of.known_at {
                None => None,
                Some(as_of) => Some((it.segment.column::<i64>(ITEM_RECORDED_AT)?.all()?, as_of.0)),
            };
            parts.push((part, it.segment.header().items, recorded));
        }
        Ok(parts.into_iter().flat_map(|(part, items, recorded)| {
            let knows = move |row: &Row| {
                recorded.is_none_or(|(recorded, as_of)| recorded[*row as usize] <= as_of)
            };
            (0..items).filter(knows).map(move |row| RowAddress { segment_ord: part, row })
        }))
    }

    /// Counts the items that are not tombstoned, per kind and per modality.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn item_counts(&self) -> Result<ItemCounts, SearchError> {
        let mut census = ItemCounts::default();
        for it in self.segments.iter() {
            let times = TimeColumns::for_items(self.as_of, &it.segment)?;
            let count = |column, into| count_by_symbol(it, &times, &self.cancel, column, into);
            count(ITEM_KIND, &mut census.kinds)?;
            count(ITEM_MODALITY, &mut census.modalities)?;
        }
        Ok(census)
    }
}

/// Adds a segment's counts, taken from its header and row state.
fn count_from_states(part: &SegmentSnapshot, counts: &mut RowCounts) {
    let header = part.segment.header();
    let tombstoned = u64::from(part.state.tombstoned.count());
    counts.items += u64::from(header.items) - tombstoned;
    counts.tombstoned += tombstoned;
    counts.superseded += u64::from(part.state.superseded.difference_count(&part.state.tombstoned));
    counts.edges += u64::from(header.edges) - u64::from(part.state.edges_tombstoned.count());
    counts.sources += u64::from(header.sources);
    counts.vectors += u64::from(header.vectors);
}

/// Adds the counts per symbol of a column, over rows that are known and not tombstoned. Each symbol is resolved once.
fn count_by_symbol(
    part: &SegmentSnapshot,
    times: &TimeColumns<'_>,
    stop: &CancelToken,
    column: Column,
    into: &mut BTreeMap<String, u64>,
) -> Result<(), SearchError> {
    let mut steps = stop.every(ROWS_PER_CANCEL_CHECK);
    let mut counts = vec![0u64; part.segment.header().symbols as usize];
    for (row, &code) in (0..).zip(part.segment.column::<u32>(column)?.all()?) {
        steps.tick()?;
        if !part.state.tombstoned.contains(row) && times.is_known(row)? {
            let unknown =
                || CorruptionError::new("SEG-12", format!("row {row}: there is no symbol {code}"));
            *counts.get_mut(code as usize).ok_or_else(unknown)? += 1;
        }
    }
    for (code, count) in (0u32..).zip(counts).filter(|(_, count)| *count > 0) {
        *into.entry(part.segment.symbol(code)?.to_owned()).or_default() += count;
    }
    Ok(())
}

/// Number of items per kind and per modality.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemCounts {
    /// Items per kind.
    pub kinds: BTreeMap<String, u64>,
    /// Items per modality.
    pub modalities: BTreeMap<String, u64>,
}
