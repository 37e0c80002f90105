//! State bits derived from the rows, to compare with stored states: superseded items, tombstoned items and edges.

use crate::error::CorruptionError;
use crate::ids::{EdgeId, ItemId, Row, Seq};
use crate::layout::{
    ITEM_SEQ, SUPERSEDES_IDS, SUPERSEDES_OFFSETS, TOMBSTONE_SEQ, TOMBSTONE_SUPERSEDES_IDS,
    TOMBSTONE_SUPERSEDES_OFFSETS, TOMBSTONE_TARGET,
};
use crate::row_state::RowState;
use crate::segment::Segment;

/// All opened segments in commit order, sealed ones first.
pub(super) struct OpenSegments<'a> {
    pub(super) segments: Vec<&'a Segment>,
    pub(super) sealed_count: usize,
}

/// Segment ordinal and row of an item or edge.
pub(super) type RowLocation = (usize, Row);

impl OpenSegments<'_> {
    pub(super) fn find_item(&self, id: u128) -> Result<Option<RowLocation>, CorruptionError> {
        self.find(|segment| segment.row_of_item(ItemId(id)))
    }

    pub(super) fn find_edge(&self, id: u128) -> Result<Option<RowLocation>, CorruptionError> {
        self.find(|segment| segment.row_of_edge(EdgeId(id)))
    }

    pub(super) fn find(
        &self,
        row_in: impl Fn(&Segment) -> Result<Option<Row>, CorruptionError>,
    ) -> Result<Option<RowLocation>, CorruptionError> {
        for (part, segment) in self.segments.iter().enumerate() {
            if let Some(row) = row_in(segment)? {
                return Ok(Some((part, row)));
            }
        }
        Ok(None)
    }

    /// Returns true if a tombstone erases this id.
    pub(super) fn is_erased(&self, id: u128) -> Result<bool, CorruptionError> {
        for segment in &self.segments {
            for &row in segment.tombstone_rows(id)? {
                if segment.tombstone(row)?.erase {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// State bits set by commits, per segment.
pub(super) struct DerivedBits {
    /// Bits set by sealed commits.
    pub(super) sealed: Vec<RowState>,
    /// Bits set by commits that a state file may reflect.
    pub(super) synced: Vec<RowState>,
    /// Bits set by all commits.
    pub(super) now: Vec<RowState>,
}

impl DerivedBits {
    /// Derives the bits of all segments. State files may reflect commits up to `synced_seq`.
    pub(super) fn derive(
        parts: &OpenSegments<'_>,
        synced_seq: Seq,
    ) -> Result<Self, CorruptionError> {
        let fresh = || -> Vec<RowState> {
            let header = |segment: &&Segment| *segment.header();
            let headers = parts.segments.iter().map(header);
            headers.map(|it| RowState::empty(it.items as usize, it.edges as usize)).collect()
        };
        let mut marks = Self { sealed: fresh(), synced: fresh(), now: fresh() };
        for (part, segment) in parts.segments.iter().enumerate() {
            let is_sealed = part < parts.sealed_count;
            let header = segment.header();
            let lists = [
                (SUPERSEDES_OFFSETS, SUPERSEDES_IDS, ITEM_SEQ, header.items),
                // An erased item still supersedes its predecessors.
                (
                    TOMBSTONE_SUPERSEDES_OFFSETS,
                    TOMBSTONE_SUPERSEDES_IDS,
                    TOMBSTONE_SEQ,
                    header.tombstones,
                ),
            ];
            for (offsets, ids, seqs, rows) in lists {
                let lists = segment.var_len_column::<u32, u128>(offsets, ids)?;
                let seqs = segment.column::<Seq>(seqs)?;
                for row in 0..rows as usize {
                    for &old in lists.get(row)? {
                        if let Some((part, row_of)) = parts.find_item(old)? {
                            let is_synced = seqs.get(row)? <= synced_seq;
                            marks.set(is_sealed, is_synced, |states| {
                                states[part].superseded.insert(row_of)
                            });
                        }
                    }
                }
            }
            let targets = segment.column::<u128>(TOMBSTONE_TARGET)?;
            let seqs = segment.column::<Seq>(TOMBSTONE_SEQ)?;
            for row in 0..segment.header().tombstones as usize {
                let target = targets.get(row)?;
                let is_synced = seqs.get(row)? <= synced_seq;
                // If an item and an edge have the same number, the tombstone is for the item.
                if let Some((part, row)) = parts.find_item(target)? {
                    let set = |states: &mut Vec<RowState>| states[part].tombstoned.insert(row);
                    marks.set(is_sealed, is_synced, set);
                } else if let Some((part, row)) = parts.find_edge(target)? {
                    let set =
                        |states: &mut Vec<RowState>| states[part].edges_tombstoned.insert(row);
                    marks.set(is_sealed, is_synced, set);
                }
            }
        }
        Ok(marks)
    }

    fn set(&mut self, is_sealed: bool, is_synced: bool, set: impl Fn(&mut Vec<RowState>) -> bool) {
        set(&mut self.now);
        if is_sealed {
            set(&mut self.sealed);
        }
        if is_sealed || is_synced {
            set(&mut self.synced);
        }
    }
}
