use super::row_map::RowMap;
use crate::segment::Segment;

/// Input segment of a merge.
pub(super) struct MergeInput<'a> {
    pub(super) segment: &'a Segment,
    /// Mapping of the segment's rows to new rows.
    pub(super) rows: &'a RowMap,
    /// New code of each old symbol code.
    pub(super) codes: &'a [u32],
}
