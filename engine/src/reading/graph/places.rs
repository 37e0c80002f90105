//! Maps by place, for walks: an item is known by where it lies.
//!
//! Owns the hash. Must not know what is kept. Places come from the store and are dense, so the hash
//! need not withstand chosen keys: rows that share a bucket would have to be most of a store.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::reading::snapshot::Place;

/// A map whose keys are places.
pub(super) type PlaceMap<V> = HashMap<Place, V, BuildHasherDefault<PlaceHasher>>;

/// Multiplicative hashing (Knuth, "The Art of Computer Programming" 3, section 6.4) of part and row.
#[derive(Debug, Default)]
pub(super) struct PlaceHasher(u64);

/// 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(32) ^ u64::from(number)).wrapping_mul(FACTOR);
    }

    fn finish(&self) -> u64 {
        // A map takes its place from the low bits, which the product leaves poor.
        self.0 ^ self.0 >> 32
    }
}
