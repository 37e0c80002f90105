//! Damaged stores: bytes are read as they were written, or not at all.

mod crafted;
mod flipped;
