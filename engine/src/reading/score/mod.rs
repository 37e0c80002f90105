//! Ranking: candidates, their scores, the best of them.

mod bound;
mod given;
mod lexical;
mod pairs;
mod probe;
mod quoted;
mod scan;
#[cfg(test)]
mod tests;
mod together;
mod ways;

pub use together::Asked;

pub use quoted::{QUOTED_BYTES_MAX, QUOTED_ITEMS_MAX, Quoted};

use crate::reading::snapshot::Place;

pub use lexical::AskedWords;

pub use given::{AskedTerm, GivenWords, WordScores};

/// A ranked item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Where it lies in the snapshot that was searched.
    pub place: Place,
    /// BM25 or cosine, whichever was asked for.
    pub score: f32,
}
