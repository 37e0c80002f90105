use crate::query::snapshot::RowAddress;

/// A ranked item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Row address in the searched snapshot.
    pub address: RowAddress,
    /// BM25 score or cosine, depending on the search.
    pub score: f32,
}
