//! Many segments into one, row after row in the order in which they were committed.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::Damage;
use crate::ids::Row;
use crate::layout::{
    VECTOR_HALVES, WORD_BLOCKS, WORD_DICTIONARY, WORD_ENTRIES, WORD_LENGTHS, WORD_POSTINGS,
};
use crate::segment::{Segment, SegmentBuilder};
use crate::snapshot::Part;
use crate::state::RowState;
use crate::words::{self, PostingsView, WordColumnsRef};

impl Segment {
    /// The word columns, checked.
    pub(crate) fn words(&self) -> Result<PostingsView<'_>, Damage> {
        let columns = WordColumnsRef {
            dictionary: self.view(WORD_DICTIONARY)?.all()?,
            entries: self.view(WORD_ENTRIES)?.all()?,
            blocks: self.view(WORD_BLOCKS)?.all()?,
            postings: self.view(WORD_POSTINGS)?.all()?,
            lengths: self.view(WORD_LENGTHS)?.all()?,
        };
        PostingsView::open(columns, self.header().items)
            .map_err(|damage| damage.within(self.name()))
    }
}

/// Ids whose rows are left out of what a merge makes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Erased(BTreeSet<u128>);

impl Erased {
    /// Items and edges to leave out, and sources that nothing else names.
    pub(crate) fn new(ids: impl IntoIterator<Item = u128>) -> Self {
        Self(ids.into_iter().collect())
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = u128> {
        self.0.iter().copied()
    }

    fn has(&self, id: u128) -> bool {
        self.0.contains(&id)
    }
}

/// Where the rows of one input went; `None` for those that were left out.
#[derive(Debug)]
pub(crate) struct RowMap {
    items: Vec<Option<Row>>,
    edges: Vec<Option<Row>>,
}

/// A merged segment on the heap.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) segment: Segment,
    pub(crate) rows: Vec<RowMap>,
}

/// The state of merged rows, from the states that their parts have now.
pub(crate) fn carry_states(rows: &[RowMap], parts: &[Part], segment: &Segment) -> RowState {
    let header = segment.header();
    let mut state = RowState::fresh(header.items as usize, header.edges as usize);
    for (map, part) in rows.iter().zip(parts) {
        for (old, new) in (0..).zip(&map.items) {
            let Some(new) = *new else { continue };
            if part.state.tombstoned.contains(old) {
                state.tombstoned.insert(new);
            }
            if part.state.superseded.contains(old) {
                state.superseded.insert(new);
            }
        }
        for (old, new) in (0..).zip(&map.edges) {
            if let Some(new) = new.filter(|_| part.state.edges_tombstoned.contains(old)) {
                state.edges_tombstoned.insert(new);
            }
        }
    }
    state
}

/// One part on the heap with all rows of `parts`, and their states.
pub(crate) fn merge(parts: &[Part]) -> Result<Part, Damage> {
    let Merged { segment, rows } = merge_segments(parts, &Erased::default())?;
    let state = carry_states(&rows, parts, &segment);
    Ok(Part { segment: Arc::new(segment), state: Arc::new(state) })
}

/// One segment on the heap with the rows of `parts` that are not erased.
pub(crate) fn merge_segments(parts: &[Part], erased: &Erased) -> Result<Merged, Damage> {
    let mut builder = SegmentBuilder::default();
    let (mut rows, mut items, mut edges) = (Vec::new(), 0, 0);
    for part in parts {
        let map = copy_rows(&part.segment, erased, &mut builder, (items, edges))?;
        items += count(&map.items);
        edges += count(&map.edges);
        rows.push(map);
    }
    let words = merge_words(parts, &rows, items)?;
    Ok(Merged { segment: Segment::held(builder.finish_with(&words)), rows })
}

fn count(rows: &[Option<Row>]) -> Row {
    u32::try_from(rows.iter().flatten().count()).expect("rows of a segment are 32 bit")
}

fn copy_rows(
    segment: &Segment,
    erased: &Erased,
    builder: &mut SegmentBuilder,
    (mut items, mut edges): (Row, Row),
) -> Result<RowMap, Damage> {
    let header = *segment.header();
    builder.saw(header.first_seq);
    builder.saw(header.last_seq);
    for row in 0..header.sources {
        let source = segment.source(row)?;
        if !erased.has(source.id.0) {
            builder.push_source(source.seq, &source.to_draft());
        }
    }
    if header.vectors > 0 {
        segment.view::<half::f16>(VECTOR_HALVES)?.all()?; // one pass over their pages, not many
    }
    let mut map = RowMap { items: Vec::new(), edges: Vec::new() };
    for row in 0..header.items {
        let item = segment.item(row)?;
        if erased.has(item.id.0) {
            map.items.push(None);
            continue;
        }
        let mut draft = item.to_draft();
        if let Some(row) = item.embedding {
            draft.embedding = segment.vector(row)?.to_vec();
        }
        builder.push_item(item.seq, &draft);
        map.items.push(Some(items));
        items += 1;
    }
    for row in 0..header.edges {
        let edge = segment.edge(row)?;
        if [edge.id.0, edge.from.0, edge.to.0].iter().any(|&id| erased.has(id)) {
            map.edges.push(None);
            continue;
        }
        builder.push_edge(edge.seq, &edge.to_draft());
        map.edges.push(Some(edges));
        edges += 1;
    }
    for row in 0..header.tombstones {
        let stone = segment.tombstone(row)?;
        builder.push_tombstone(stone.seq, &stone.to_draft());
    }
    Ok(map)
}

fn merge_words(parts: &[Part], rows: &[RowMap], items: Row) -> Result<words::WordColumns, Damage> {
    let mut views = Vec::with_capacity(parts.len());
    for (part, map) in parts.iter().zip(rows) {
        views.push((part.segment.words()?, move |row: Row| map.items[row as usize]));
    }
    words::merge(&views, items).map_err(|error| match error {
        words::MergeError::Damaged(damage) => damage,
        // The tail is sealed at a small part of what a segment can hold.
        other => Damage::new("WRD-10", other.to_string()),
    })
}
