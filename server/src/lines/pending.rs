//! Records of an import that are not written yet: one batch, and which lines they are of.
//!
//! Owns when a batch ends; must not know what the store holds.

use std::collections::HashSet;

use engine::{Batch, EdgeDraft, ItemDraft, ItemId, SourceDraft, TombstoneDraft};

use super::plan::At;
use super::read::Line;

/// Records of one batch.
const BATCH_RECORDS_MAX: usize = 4_096;
/// Bytes of the lines of one batch.
const BATCH_BYTES_MAX: usize = 8 << 20;
const _: () = assert!(BATCH_RECORDS_MAX < engine::limits::BATCH_RECORDS_MAX);
const _: () = assert!(BATCH_BYTES_MAX + super::LINE_BYTES_MAX < engine::limits::FRAME_BYTES_MAX);

/// Records that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) batch: Batch,
    /// Bytes of its lines.
    pub(super) bytes: usize,
    rank: Rank,
    pub(super) refs: HashSet<String>,
    pub(super) ids: HashSet<u128>,
    pub(super) superseded: HashSet<ItemId>,
    /// The entry of each source, item, edge and tombstone of the batch; none for a source that has
    /// no line of its own.
    sources: Vec<Option<At>>,
    items: Vec<At>,
    edges: Vec<At>,
    tombstones: Vec<Option<At>>,
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
    /// Whether a line of so many bytes is too much for this batch.
    pub(super) fn is_full(&self, bytes: usize) -> bool {
        self.batch.records() >= BATCH_RECORDS_MAX || self.bytes + bytes > BATCH_BYTES_MAX
    }

    /// Whether a line cannot be of the same batch as those before it: rows of one commit stand in
    /// order of rank, what is hidden must be there before, and an id is given once.
    pub(super) fn clashes(&self, line: &Line) -> bool {
        let rank = Rank::of(line);
        let id = match line {
            Line::Source(draft) => draft.id.map(|id| id.0),
            Line::Item { draft, .. } => draft.id.map(|id| id.0),
            Line::Edge { draft, .. } => draft.id.map(|id| id.0),
            Line::Tombstone { .. } => None,
        };
        rank < self.rank
            || rank == Rank::Tombstone && self.rank != Rank::Tombstone
            || id.is_some_and(|id| self.ids.contains(&id))
    }

    /// Notes that the next record is this line's.
    pub(super) fn goes_on_with(&mut self, line: &Line) {
        self.rank = self.rank.max(Rank::of(line));
    }

    pub(super) fn push_source(&mut self, draft: SourceDraft, at: Option<At>) {
        self.ids.extend(draft.id.map(|id| id.0));
        self.batch.sources.push(draft);
        self.sources.push(at);
    }

    pub(super) fn push_item(&mut self, draft: ItemDraft, at: At) {
        self.ids.extend(draft.id.map(|id| id.0));
        self.refs.extend(draft.reference.clone());
        self.superseded.extend(&draft.supersedes);
        self.batch.items.push(draft);
        self.items.push(at);
    }

    pub(super) fn push_edge(&mut self, draft: EdgeDraft, at: At) {
        self.ids.extend(draft.id.map(|id| id.0));
        self.batch.edges.push(draft);
        self.edges.push(at);
    }

    pub(super) fn push_tombstone(&mut self, draft: TombstoneDraft, at: Option<At>) {
        self.batch.tombstones.push(draft);
        self.tombstones.push(at);
    }

    /// The same records as batches of one, in their order, each with its entry.
    pub(super) fn singles(self) -> impl Iterator<Item = (Option<At>, Batch)> {
        let embedded_by = self.batch.embedded_by;
        let none = Batch::default;
        let sources = self.sources.into_iter().zip(self.batch.sources);
        let sources = sources.map(move |(at, one)| (at, Batch { sources: vec![one], ..none() }));
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
