//! Records of an import that are not written yet: one batch, and which lines they are of.
//!
//! Owns when a batch ends, and what a later line may not take for granted while it is on its way; must
//! not know what the store holds.

use std::collections::HashSet;

use engine::{
    Batch, EdgeDraft, EdgeId, ItemDraft, ItemId, SourceDraft, SourceId, TombstoneDraft, Unwritten,
    WriteError,
};

use super::error::ImportError;
use super::limits::LINE_BYTES_MAX;
use super::plan::At;
use super::read::Line;
use super::report::Report;
use recalld_embedding::encoders::Encoders;
use recalld_embedding::inflow::{PARCEL_TEXTS_MAX, Parcel};

/// Records of one batch. Of those that are embedded there are at most [`PARCEL_TEXTS_MAX`].
const BATCH_RECORDS_MAX: usize = 4_096;
/// Bytes of the lines of one batch.
const BATCH_BYTES_MAX: usize = 8 << 20;
const _: () = assert!(BATCH_RECORDS_MAX < engine::limits::BATCH_RECORDS_MAX);
const _: () = assert!(BATCH_BYTES_MAX + LINE_BYTES_MAX < engine::limits::FRAME_BYTES_MAX);

/// Records that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) batch: Batch,
    /// Bytes of its lines.
    pub(super) bytes: usize,
    rank: Rank,
    pub(super) marks: Marks,
    /// Items that are to be embedded.
    texts: usize,
    /// The entry of each source, item, edge and tombstone of the batch: for a source that has no line
    /// of its own the one that named it, for a tombstone that has none nothing.
    sources: Vec<At>,
    items: Vec<At>,
    edges: Vec<At>,
    tombstones: Vec<Option<At>>,
    /// How many lines were taken when it was handed on.
    pub(super) upto: u64,
}

/// What became of a batch.
pub(super) struct Settled {
    /// Rows that the store took.
    pub(super) written: Report,
    /// Entries whose rows it did not take, and why.
    pub(super) refused: Vec<(Option<At>, String)>,
    /// Lines of which it is known by now what became of them.
    pub(super) upto: u64,
}

/// What a batch changes of what the store says of a ref, an id, a URI or the edges of an item.
#[derive(Debug, Default)]
pub(super) struct Marks {
    pub(super) refs: HashSet<String>,
    pub(super) ids: HashSet<u128>,
    pub(super) superseded: HashSet<ItemId>,
    /// Of its sources.
    pub(super) uris: HashSet<String>,
    /// Where its edges begin.
    pub(super) edges_from: HashSet<ItemId>,
    /// Whether it hides something.
    pub(super) hides: bool,
}

impl Marks {
    /// Whether a line can only be judged once these are in the store: it gives the same id, or one of
    /// both hides something.
    pub(super) fn waits_for(&self, line: &Line) -> bool {
        self.hides
            || matches!(line, Line::Tombstone { .. })
            || id_of(line).is_some_and(|id| self.ids.contains(&id))
    }
}

/// The id that a line gives its row.
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
        self.batch.records() == 0
    }

    /// Whether a line of so many bytes is too much for this batch.
    pub(super) fn is_full(&self, bytes: usize) -> bool {
        self.batch.records() >= BATCH_RECORDS_MAX
            || self.texts >= PARCEL_TEXTS_MAX
            || self.bytes + bytes > BATCH_BYTES_MAX
    }

    /// Whether a line cannot be of the same batch as those before it: rows of one commit stand in
    /// order of rank, what is hidden must be there before, and an id is given once.
    pub(super) fn clashes(&self, line: &Line) -> bool {
        let rank = Rank::of(line);
        rank < self.rank
            || rank == Rank::Tombstone && self.rank != Rank::Tombstone
            || id_of(line).is_some_and(|id| self.marks.ids.contains(&id))
    }

    /// Notes that the next record is this line's.
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

    /// A source of the batch that says what a line says.
    pub(super) fn source_like(&self, draft: &SourceDraft) -> Option<SourceId> {
        let near = self.marks.uris.contains(&draft.uri);
        let mut sources = self.batch.sources.iter().filter(|it| near && it.uri == draft.uri);
        let told = |it: &SourceDraft| (it.content_sha256, it.bytes);
        let tells = |it: &SourceDraft| (&it.kind, &it.title) == (&draft.kind, &draft.title);
        sources.find(|it| tells(it) && told(it) == told(draft)).and_then(|it| it.id)
    }

    /// An edge of the batch that says what a line says.
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

    /// Writes the batch; where it is refused, its records one by one, so that only those that are
    /// wrong are left out.
    pub(super) fn settle(
        mut self,
        mut write: impl FnMut(Batch) -> Result<(), Unwritten>,
    ) -> Result<Settled, ImportError> {
        let batch = std::mem::take(&mut self.batch);
        let mut settled =
            Settled { written: Report::of(&batch), refused: Vec::new(), upto: self.upto };
        match write(batch) {
            Ok(()) => return Ok(settled),
            Err(Unwritten { error: WriteError::Refused { .. }, batch }) => self.batch = *batch,
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

    /// The same records as batches of one, in their order, each with its entry.
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

/// What writing a batch would say of it, as far as that is known without the store.
pub(super) fn check(batch: Batch, dimensions: Option<u32>) -> Result<(), Unwritten> {
    batch.check(dimensions).map_err(|error| Unwritten { error, batch: Box::new(batch) })
}
