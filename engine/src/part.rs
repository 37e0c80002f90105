use std::sync::Arc;

use crate::segment::Segment;
use crate::state::RowState;

/// A segment with the row state (superseded, tombstoned) that one snapshot sees.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) segment: Arc<Segment>,
    pub(crate) state: Arc<RowState>,
}
