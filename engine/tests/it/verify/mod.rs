//! Verification, proofs of erasure and salvage: no fault is missed, no valid file is blamed.

mod byte_flips;
mod erasure_proof;
mod rule_violations;
mod salvage;
mod valid_stores;
