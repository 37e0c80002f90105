//! Hash maps keyed by row address, for traversals.
//!
//! Row addresses come from the store and are dense, so the hash need not resist chosen keys: rows that share a bucket
//! would have to be most of a store.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::query::snapshot::RowAddress;

pub(super) type AddressMap<V> = HashMap<RowAddress, V, BuildHasherDefault<AddressHasher>>;

/// Multiplicative hashing (Knuth, "The Art of Computer Programming" 3, section 6.4) of segment ordinal and row.
#[derive(Debug, Default)]
pub(super) struct AddressHasher(u64);

/// 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(32) ^ u64::from(number)).wrapping_mul(FACTOR);
    }

    fn finish(&self) -> u64 {
        // A hash map picks the bucket by the low bits, which the product mixes poorly.
        self.0 ^ self.0 >> 32
    }
}
