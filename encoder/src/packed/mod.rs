//! Packed weights: what a network computes with, as one run of bytes (`format-spec/weights.md`).
//!
//! Written once from the published tensors, then read where it lies, be that memory or a map of a
//! file. Owns the bytes' layout and every check on them; knows neither files nor arithmetic.

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
