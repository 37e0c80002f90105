//! The pending batch of an import: records that are not written yet, with their lines.
//!
//! Decides the end of a batch, and which later lines depend on the batch while it is in flight; must not know the
//! store's content.

use std::collections::HashSet;

use engine::{
    Batch, BatchError, EdgeDraft, EdgeId, ItemDraft, ItemId, SourceDraft, SourceId, TombstoneDraft,
    WriteError,
};

use super::error::ImportError;
use super::limits::LINE_BYTES_MAX;
use super::plan::At;
use super::read::Line;
use super::report::Report;
use recalld_embedding::encoders::Encoders;
use recalld_embedding::inflow::{PARCEL_TEXTS_MAX, Parcel};

/// Records of one batch. Embedded items are limited further to [`PARCEL_TEXTS_MAX`].
const BATCH_RECORDS_MAX: usize = 4_096;
/// Bytes of the lines of one batch.
const BATCH_BYTES_MAX: usize = 8 << 20;
const _: () = assert!(BATCH_RECORDS_MAX < engine::limits::BATCH_RECORDS_MAX);
const _: () = assert!(BATCH_BYTES_MAX + LINE_BYTES_MAX < engine::limits::FRAME_BYTES_MAX);

/// Records that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) batch: Batch,
    /// Bytes of the batch's lines.
    pub(super) bytes: usize,
    rank: Rank,
    pub(super) marks: Marks,
    /// Number of items to embed.
    texts: usize,
    /// Entry of each source, item, edge and tombstone of the batch. A source without a line of its own has the entry
    /// that named the source; a tombstone without a line has `None`.
    sources: Vec<At>,
    items: Vec<At>,
    edges: Vec<At>,
    tombstones: Vec<Option<At>>,
    /// Number of lines processed when the batch was flushed.
    pub(super) upto: u64,
}

/// Result of writing a batch.
pub(super) struct Settled {
    /// Rows that were stored.
    pub(super) written: Report,
    /// Entries whose rows were refused, with the reason.
    pub(super) refused: Vec<(Option<At>, String)>,
    /// Number of lines whose result is now known.
    pub(super) upto: u64,
}

/// Refs, ids, URIs and edge starts that a batch changes in the store.
#[derive(Debug, Default)]
pub(super) struct Marks {
    pub(super) refs: HashSet<String>,
    pub(super) ids: HashSet<u128>,
    pub(super) superseded: HashSet<ItemId>,
    /// URIs of the batch's sources.
    pub(super) uris: HashSet<String>,
    /// Start items of the batch's edges.
    pub(super) edges_from: HashSet<ItemId>,
    /// True if the batch has tombstones.
    pub(super) hides: bool,
}

impl Marks {
    /// Returns true if a line can only be judged after this batch is stored: the line has the same id, or either has a
    /// tombstone.
    pub(super) fn waits_for(&self, line: &Line) -> bool {
        self.hides
            || matches!(line, Line::Tombstone { .. })
            || id_of(line).is_some_and(|id| self.ids.contains(&id))
    }
}

/// Returns the id that a line sets for its row.
fn id_of(line: &Line) -> Option<u128> {
    match line {
        Line::Source(draft) => draft.id.map(|id| id.0),
        Line::Item { draft, .. } => draft.id.map(|id| id.0),
        Line::Edge { draft, .. } => draft.id.map(|id| id.0),
        Line::Tombstone { .. } => None,
    }
}

/// Order of records within a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Rank {
    #[default]
    Source,
    Item,
    Edge,
    Tombstone,
}

impl Rank {
    fn of(line: &Line) -> Self {
        match line {
            Line::Source(_) => Self::Source,
            Line::Item { .. } => Self::Item,
            Line::Edge { .. } => Self::Edge,
            Line::Tombstone { .. } => Self::Tombstone,
        }
    }
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.batch.record_count() == 0
    }

    /// Returns true if a line of `bytes` bytes exceeds the limits of this batch.
    pub(super) fn is_full(&self, bytes: usize) -> bool {
        self.batch.record_count() >= BATCH_RECORDS_MAX
            || self.texts >= PARCEL_TEXTS_MAX
            || self.bytes + bytes > BATCH_BYTES_MAX
    }

    /// Returns true if a line cannot join this batch: rows of one commit are in order of rank, a hidden row must exist
    /// before its tombstone, and each id occurs once.
    pub(super) fn clashes(&self, line: &Line) -> bool {
        let rank = Rank::of(line);
        rank < self.rank
            || rank == Rank::Tombstone && self.rank != Rank::Tombstone
            || id_of(line).is_some_and(|id| self.marks.ids.contains(&id))
    }

    /// Records that the next record comes from this line.
    pub(super) fn goes_on_with(&mut self, line: &Line) {
        self.rank = self.rank.max(Rank::of(line));
    }

    pub(super) fn push_source(&mut self, draft: SourceDraft, at: At) {
        self.marks.ids.extend(draft.id.map(|id| id.0));
        self.marks.uris.insert(draft.uri.clone());
        self.batch.sources.push(draft);
        self.sources.push(at);
    }

    pub(super) fn push_item(&mut self, draft: ItemDraft, at: At) {
        self.marks.ids.extend(draft.id.map(|id| id.0));
        self.marks.refs.extend(draft.reference.clone());
        self.marks.superseded.extend(&draft.supersedes);
        self.texts += usize::from(draft.searchable);
        self.batch.items.push(draft);
        self.items.push(at);
    }

    pub(super) fn push_edge(&mut self, draft: EdgeDraft, at: At) {
        self.marks.ids.extend(draft.id.map(|id| id.0));
        self.marks.edges_from.insert(draft.from);
        self.batch.edges.push(draft);
        self.edges.push(at);
    }

    /// Returns a source of the batch with the content of a line.
    pub(super) fn source_like(&self, draft: &SourceDraft) -> Option<SourceId> {
        let near = self.marks.uris.contains(&draft.uri);
        let mut sources = self.batch.sources.iter().filter(|it| near && it.uri == draft.uri);
        let told = |it: &SourceDraft| (it.content_sha256, it.bytes);
        let tells = |it: &SourceDraft| (&it.kind, &it.title) == (&draft.kind, &draft.title);
        sources.find(|it| tells(it) && told(it) == told(draft)).and_then(|it| it.id)
    }

    /// Returns an edge of the batch with the content of a line.
    pub(super) fn edge_like(&self, draft: &EdgeDraft) -> Option<EdgeId> {
        let tells = |it: &EdgeDraft| EdgeDraft {
            id: None,
            source: None,
            recorded_at: None,
            recorded_by: String::new(),
            ..it.clone()
        };
        let near = self.marks.edges_from.contains(&draft.from);
        let mut edges = self.batch.edges.iter().filter(|it| near && it.from == draft.from);
        edges.find(|it| it.to == draft.to && tells(it) == tells(draft)).and_then(|it| it.id)
    }

    pub(super) fn push_tombstone(&mut self, draft: TombstoneDraft, at: Option<At>) {
        self.marks.hides = true;
        self.batch.tombstones.push(draft);
        self.tombstones.push(at);
    }

    /// Writes the batch. If the batch is refused, writes its records one by one, so that only the invalid records are
    /// left out.
    pub(super) fn settle(
        mut self,
        mut write: impl FnMut(Batch) -> Result<(), BatchError>,
    ) -> Result<Settled, ImportError> {
        let batch = std::mem::take(&mut self.batch);
        let mut settled =
            Settled { written: Report::of(&batch), refused: Vec::new(), upto: self.upto };
        match write(batch) {
            Ok(()) => return Ok(settled),
            Err(BatchError { error: WriteError::Refused { .. }, batch }) => self.batch = *batch,
            Err(unwritten) => return Err(ImportError::Writing(unwritten.error)),
        }
        settled.written = Report::default();
        for (at, one) in self.singles() {
            let counted = Report::of(&one);
            match write(one).map_err(|unwritten| unwritten.error) {
                Ok(()) => settled.written.add(&counted),
                Err(WriteError::Refused { field, why }) => {
                    settled.refused.push((at, format!("{field}: {why}")));
                }
                Err(error) => return Err(ImportError::Writing(error)),
            }
        }
        Ok(settled)
    }

    /// Returns the records as batches of one, in their order, each with its entry.
    fn singles(self) -> impl Iterator<Item = (Option<At>, Batch)> {
        let embedded_by = self.batch.embedded_by;
        let none = Batch::default;
        let sources = self.sources.into_iter().zip(self.batch.sources);
        let sources =
            sources.map(move |(at, one)| (Some(at), Batch { sources: vec![one], ..none() }));
        let items = self.items.into_iter().zip(self.batch.items);
        let items = items
            .map(move |(at, one)| (Some(at), Batch { items: vec![one], embedded_by, ..none() }));
        let edges = self.edges.into_iter().zip(self.batch.edges);
        let edges = edges.map(move |(at, one)| (Some(at), Batch { edges: vec![one], ..none() }));
        let stones = self.tombstones.into_iter().zip(self.batch.tombstones);
        let stones = stones.map(move |(at, one)| (at, Batch { tombstones: vec![one], ..none() }));
        sources.chain(items).chain(edges).chain(stones)
    }
}

impl Parcel for Pending {
    type Store = Encoders;
    type Done = Settled;
    type Error = ImportError;

    fn embed(&mut self, encoders: &Encoders, goes_on: &dyn Fn() -> bool) -> Option<u64> {
        encoders.embed_while(&mut self.batch, goes_on)
    }

    fn write(self, encoders: &Encoders) -> Result<Settled, ImportError> {
        self.settle(|mut batch| {
            batch.may_replace_erased = true;
            encoders.try_write(batch).map(drop)
        })
    }
}

/// Checks a batch like a write, as far as possible without the store.
pub(super) fn check(batch: Batch, dimensions: Option<u32>) -> Result<(), BatchError> {
    batch.check(dimensions).map_err(|error| BatchError { error, batch: Box::new(batch) })
}
