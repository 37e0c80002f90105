//! Evaluation: how good the answers are on a data set with known ones (`format-spec/eval.md`).
//!
//! Owns the data sets and the measures. Questions go the way of every governed call; it must not
//! know how they are answered.

mod ask;
mod dataset;
mod lines;
mod measures;
mod report;

pub use ask::{How, Lane, evaluate};
pub use dataset::{Dataset, Foreign};

limit_table::limits! {
    pub(crate) const LIMITS = [ask, dataset];
}
