//! Vector arithmetic for one CPU level at a time.
//!
//! This crate has every SIMD instruction of the workspace. `scalar.rs` is the reference for each function; the files of
//! an architecture's folder are faster implementations of it. The crate works on slices of numbers, independent of
//! sentences, tokens, stores and settings, and reads no environment variables.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod attention;
mod kernels;
mod level;
mod linear;
mod lookups;
mod panels;
mod product;
mod questions;
mod rotate;
mod rows;
mod scalar;
mod table;
mod team;
mod workspace;
#[cfg(target_arch = "x86_64")]
mod x86_64;

limit_table::limits! {
    pub const LIMITS = [questions, team];
}

#[cfg(test)]
mod check;

pub use half::f16;
pub use kernels::{Kernels, Norm};
pub use level::Level;
pub use linear::{
    COLUMNS, Cells, Codes, DEPTH_MAX, DEPTH_UNIT, Linear, PackedCells, PackedLinear, Precision,
    QUAD, cells_in, padded_depth, padded_width,
};
pub use lookups::{LOOKUP_BYTES, LOOKUP_MAX, LOOKUP_ROWS, LookupTables};
pub use product::Then;
pub use questions::{Bars, CodeQueries, QUESTIONS_MAX, RowFacts};
pub use rows::{Rows, RowsMut};
pub use team::{THREADS_MAX, Team, Work};
pub use workspace::{AlignedFloats, Reach, Workspace};
