//! Ranking: scores of candidates, and the top k.

mod bound;
mod given;
mod hit;
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

pub use hit::Hit;

pub use lexical::AskedWords;

pub use given::{AskedTerm, GivenWords, WordScores};

limit_table::limits! {
    pub(crate) const LIMITS = [pairs, probe, quoted, scan, ways];
}
