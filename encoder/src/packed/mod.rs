//! Packed weights: the weights that a network computes with, as one byte sequence (`format-spec/weights.md`).
//!
//! Written once from the published tensors, then read in place from memory or from a map of a file. This module defines
//! the layout and all checks, independent of files and arithmetic.

mod check;
mod layout;
mod memory;
#[cfg(test)]
mod page;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use layout::PACKING;
pub use memory::PackedWeights;

pub(crate) use layout::{BlockSections, Cell, DenseSections, Layout, NormSections, Section};
pub(crate) use memory::Held;
pub(crate) use read::check;
pub(crate) use write::{Source, pack};
