//! What goes into a merge.

use super::rows::RowMap;
use crate::segment::Segment;

/// One of the segments that are merged.
pub(super) struct Input<'a> {
    pub(super) segment: &'a Segment,
    /// Where its rows go.
    pub(super) rows: &'a RowMap,
    /// What its symbols' codes become.
    pub(super) codes: &'a [u32],
}
