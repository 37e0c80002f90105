//! int8 queries: queries as 16-bit codes, several at a time, and two operations on rows of 8-bit codes for all of them:
//! dot products, and threshold masks.
//!
//! This module defines the layouts in which the operands are passed to a level.

use crate::level::Level;
use crate::workspace::CacheLine;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Most queries of one scan of the rows: the lanes of one wide register.
    pub const QUESTIONS_MAX: usize = 16;
}

/// The codes of some queries, arranged for one level; made by [`Kernels::code_queries`](crate::Kernels::code_queries).
pub struct CodeQueries {
    pub(crate) level: Level,
    pub(crate) width: usize,
    pub(crate) count: usize,
    /// Codes, query after query.
    pub(crate) codes: Vec<i16>,
    /// Codes arranged in a layout of the level's own.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "other levels read the codes as they are")
    )]
    pub(crate) arranged: Vec<CacheLine>,
}

impl CodeQueries {
    /// Number of queries.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Codes of a query.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The codes of one query.
    pub(crate) fn of(&self, question: usize) -> &[i16] {
        &self.codes[question * self.width..][..self.width]
    }
}

/// Per-row inputs of a threshold mask besides the codes, one number for each row in each slice.
#[derive(Clone, Copy, Debug)]
pub struct RowFacts<'a> {
    /// Scale of the row's codes.
    pub scales: &'a [f32],
    /// Bound on the quantization error of the row's codes.
    pub errors: &'a [f32],
    /// Length of the row's vector.
    pub norms: &'a [f32],
}

/// Per-query thresholds, one number for each query in each array.
#[derive(Clone, Copy, Debug)]
pub struct Bars {
    /// Factor of a dot product of codes that was multiplied by the row's scale.
    pub per_product: [f32; QUESTIONS_MAX],
    /// Factor of the row's error.
    pub per_error: [f32; QUESTIONS_MAX],
    /// Least sum of both terms per unit of the row's length.
    pub least: [f32; QUESTIONS_MAX],
}
