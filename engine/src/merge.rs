//! Many segments into one, row after row in the order in which they were committed.

use std::sync::Arc;

use crate::error::Damage;
use crate::ids::Row;
use crate::layout::{
    VECTOR_HALVES, WORD_BLOCKS, WORD_DICTIONARY, WORD_ENTRIES, WORD_LENGTHS, WORD_POSTINGS,
};
use crate::segment::{Segment, SegmentBuilder, View};
use crate::snapshot::Part;
use crate::state::RowState;
use crate::words::{self, PostingsView, WordColumnsRef};

impl Segment {
    /// The word columns; their pages are checked as a question comes to them.
    pub(crate) fn words(&self) -> Result<PostingsView<View<'_, u8>>, Damage> {
        let columns = WordColumnsRef {
            dictionary: self.view(WORD_DICTIONARY)?,
            entries: self.view(WORD_ENTRIES)?,
            blocks: self.view(WORD_BLOCKS)?,
            postings: self.view(WORD_POSTINGS)?,
            lengths: self.view(WORD_LENGTHS)?,
        };
        PostingsView::open(columns, self.header().items).map_err(|damage| self.named(damage))
    }

    /// Damage found in the word columns, with the file's name; that of a page has it already.
    pub(crate) fn named(&self, damage: Damage) -> Damage {
        if damage.rule.starts_with("WRD") { damage.within(self.name()) } else { damage }
    }
}

/// One part on the heap with all rows of `parts`, and their states.
pub(crate) fn merge(parts: &[Part]) -> Result<Part, Damage> {
    let mut builder = SegmentBuilder::default();
    let mut state = RowState::fresh(
        parts.iter().map(|part| part.segment.header().items as usize).sum(),
        parts.iter().map(|part| part.segment.header().edges as usize).sum(),
    );
    let (mut items, mut edges) = (0, 0);
    for part in parts {
        copy_rows(&part.segment, &mut builder)?;
        copy_state(part, items, edges, &mut state);
        items += part.segment.header().items;
        edges += part.segment.header().edges;
    }
    let words = merge_words(parts)?;
    let segment = Arc::new(Segment::held(builder.finish_with(&words)));
    Ok(Part { segment, state: Arc::new(state) })
}

fn copy_rows(segment: &Segment, builder: &mut SegmentBuilder) -> Result<(), Damage> {
    let header = *segment.header();
    for row in 0..header.sources {
        let source = segment.source(row)?;
        builder.push_source(source.seq, &source.to_draft());
    }
    if header.vectors > 0 {
        segment.view::<half::f16>(VECTOR_HALVES)?.all()?; // one pass over their pages, not many
    }
    for row in 0..header.items {
        let item = segment.item(row)?;
        let mut draft = item.to_draft();
        if let Some(row) = item.embedding {
            draft.embedding = segment.vector(row)?.to_vec();
        }
        builder.push_item(item.seq, &draft);
    }
    for row in 0..header.edges {
        let edge = segment.edge(row)?;
        builder.push_edge(edge.seq, &edge.to_draft());
    }
    for row in 0..header.tombstones {
        let stone = segment.tombstone(row)?;
        builder.push_tombstone(stone.seq, &stone.to_draft());
    }
    Ok(())
}

fn copy_state(part: &Part, items: Row, edges: Row, state: &mut RowState) {
    let header = part.segment.header();
    for row in 0..header.items {
        if part.state.tombstoned.contains(row) {
            state.tombstoned.insert(items + row);
        }
        if part.state.superseded.contains(row) {
            state.superseded.insert(items + row);
        }
    }
    for row in (0..header.edges).filter(|&row| part.state.edges_tombstoned.contains(row)) {
        state.edges_tombstoned.insert(edges + row);
    }
}

fn merge_words(parts: &[Part]) -> Result<words::WordColumns, Damage> {
    let mut first_row = 0;
    let mut views = Vec::with_capacity(parts.len());
    for part in parts {
        let from = first_row;
        first_row += part.segment.header().items;
        views.push((part.segment.words()?, move |row: Row| Some(from + row)));
    }
    words::merge(&views, first_row).map_err(|error| match error {
        words::MergeError::Damaged(damage) => damage,
        // The tail is sealed at a small part of what a segment can hold.
        other => Damage::new("WRD-10", other.to_string()),
    })
}
