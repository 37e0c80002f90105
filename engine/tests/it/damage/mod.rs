//! Damaged stores: what is on disk is read as it was written, or not at all.

mod crafted;
mod flipped;
