//! What a search finds.

use crate::reading::snapshot::Place;

/// A ranked item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Where it lies in the snapshot that was searched.
    pub place: Place,
    /// BM25 or cosine, whichever was asked for.
    pub score: f32,
}
