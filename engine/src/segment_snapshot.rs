use std::sync::Arc;

use crate::row_state::RowState;
use crate::segment::Segment;

/// A segment with the row state (superseded, tombstoned) that one snapshot sees.
#[derive(Debug, Clone)]
pub(crate) struct SegmentSnapshot {
    pub(crate) segment: Arc<Segment>,
    pub(crate) state: Arc<RowState>,
}
