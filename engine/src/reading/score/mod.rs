//! Ranking: candidates, their scores, the best of them.

mod bound;
mod given;
mod lexical;
mod pairs;
mod scan;
#[cfg(test)]
mod tests;

use crate::reading::snapshot::Place;

pub use given::{AskedTerm, GivenWords, WordScores};

/// A ranked item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Where it lies in the snapshot that was searched.
    pub place: Place,
    /// BM25 or cosine, whichever was asked for.
    pub score: f32,
}
