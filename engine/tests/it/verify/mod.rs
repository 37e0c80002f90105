//! Verification, proofs of erasure and salvage: nothing wrong is passed, nothing right is blamed.

mod clean;
mod crafted;
mod erased;
mod flipped;
mod salvage;
