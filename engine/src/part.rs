//! A part of a store: rows that stay, and what became of them.

use std::sync::Arc;

use crate::segment::Segment;
use crate::state::RowState;

/// A segment and what has happened to its rows.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) segment: Arc<Segment>,
    pub(crate) state: Arc<RowState>,
}
