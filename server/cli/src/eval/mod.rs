//! Evaluation of answer quality on a data set with known answers (`format-spec/eval.md`).
//!
//! Owns the data sets and the metrics. Questions are governed calls; evaluation must not depend on their
//! implementation.

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
