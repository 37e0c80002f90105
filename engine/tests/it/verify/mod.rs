//! Verification, proofs of erasure and salvage: no fault is missed, no valid file is blamed.

mod clean;
mod crafted;
mod erased;
mod flipped;
mod salvage;
