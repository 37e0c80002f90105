//! Questions as codes of 16 bits, some at a time, and what is asked of rows of 8-bit codes for all of
//! them: dot products, and which rows' bounds reach what each question asks for.
//!
//! Owns the forms in which these are handed to a level. Knows numbers; that they are of questions
//! is only a name.

use crate::Level;
use crate::workspace::CacheLine;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Most questions that share one look at rows: the lanes of one wide register.
    pub const QUESTIONS_MAX: usize = 16;
}

/// The codes of some questions, as one level wants them; made by
/// [`Kernels::code_queries`](crate::Kernels::code_queries).
pub struct CodeQueries {
    pub(crate) level: Level,
    pub(crate) width: usize,
    pub(crate) count: usize,
    /// Question after question.
    pub(crate) codes: Vec<i16>,
    /// The same codes, arranged for the level; what that is, only the level knows.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "other levels read the codes as they are")
    )]
    pub(crate) arranged: Vec<CacheLine>,
}

impl CodeQueries {
    /// How many questions there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many codes each has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The codes of one of them.
    pub(crate) fn of(&self, question: usize) -> &[i16] {
        &self.codes[question * self.width..][..self.width]
    }
}

/// What is known of some rows besides their codes, one number for each row in each.
#[derive(Clone, Copy, Debug)]
pub struct RowFacts<'a> {
    /// What a code is worth.
    pub scales: &'a [f32],
    /// How far the codes may be off.
    pub errors: &'a [f32],
    /// Lengths.
    pub norms: &'a [f32],
}

/// What a row's sums must reach, one number for each question in each.
#[derive(Clone, Copy, Debug)]
pub struct Bars {
    /// What a dot product of codes, times the row's scale, counts for.
    pub per_product: [f32; QUESTIONS_MAX],
    /// What the row's error counts for.
    pub per_error: [f32; QUESTIONS_MAX],
    /// What both together must come to for each unit of the row's length.
    pub least: [f32; QUESTIONS_MAX],
}
