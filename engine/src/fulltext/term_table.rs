//! Table of the distinct terms of many rows, each with a number.
//!
//! Owns the lookup of terms while rows are added: the terms are concatenated in one buffer, and a hash table maps each
//! term to its number.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use super::layout::TERM_BYTES_MAX;

/// Number of slots at the first term: enough for the terms of one short row.
const SLOTS_MIN: usize = 128;
const _: () = assert!(SLOTS_MIN.is_power_of_two());

/// Terms by number, in order of their first occurrence.
#[derive(Default)]
pub(super) struct TermTable {
    bytes: Vec<u8>,
    /// End offset of each term.
    ends: Vec<u32>,
    /// Open-addressing hash table; at most half of the slots are used.
    slots: Vec<TermSlot>,
}

/// Slot of the hash table. Numbers are stored plus one, and 0 marks an empty slot.
#[derive(Debug, Clone, Copy, Default)]
struct TermSlot {
    hash: u32,
    number: u32,
}

/// Returns a secret of this process, which prevents crafted terms that collide in the table.
fn secret() -> u64 {
    static SECRET: OnceLock<u64> = OnceLock::new();
    *SECRET.get_or_init(|| RandomState::new().hash_one(0))
}

/// Hashes by folded products of eight bytes at a time (as in wyhash and foldhash).
fn hash(term: &[u8], secret: u64) -> u32 {
    let fold = |a: u64, b: u64| {
        let (low, high) = a.carrying_mul(b, 0);
        low ^ high
    };
    let (words, rest) = term.as_chunks::<8>();
    let mut state = secret ^ term.len() as u64;
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word), secret | 1);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    state = fold(state ^ u64::from_le_bytes(last), secret.rotate_left(32) | 1);
    (fold(state, 0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

impl TermTable {
    /// Number of terms.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, number: u32) -> &[u8] {
        let at = number as usize;
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[from as usize..self.ends[at] as usize]
    }

    /// Returns the number of a term; a new term is added.
    pub(super) fn number(&mut self, term: &[u8]) -> u32 {
        debug_assert!(term.len() <= TERM_BYTES_MAX);
        if self.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let hash = hash(term, secret());
        let mut at = self.home_slot(hash);
        loop {
            let slot = self.slots[at];
            let Some(number) = slot.number.checked_sub(1) else { break };
            if slot.hash == hash && self.get(number) == term {
                return number;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        let number = narrow(self.len());
        self.bytes.extend_from_slice(term);
        self.ends.push(narrow(self.bytes.len()));
        self.slots[at] = TermSlot { hash, number: number + 1 };
        number
    }

    /// Returns all numbers in the order of their terms.
    pub(super) fn sorted(&self) -> Vec<u32> {
        let first_bytes = |number: u32| {
            let mut first = [0; 8];
            let term = self.get(number);
            let count = term.len().min(first.len());
            first[..count].copy_from_slice(&term[..count]);
            first
        };
        let mut order: Vec<(u64, u32)> = (0..narrow(self.len()))
            .map(|number| {
                (
                    first_bytes(number).iter().fold(0, |all, byte| all << 8 | u64::from(*byte)),
                    number,
                )
            })
            .collect();
        order.sort_unstable_by(|(one, a), (other, b)| {
            one.cmp(other).then_with(|| self.get(*a).cmp(self.get(*b)))
        });
        order.into_iter().map(|(_, number)| number).collect()
    }

    fn home_slot(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn grow(&mut self) {
        let larger = (self.slots.len() * 2).max(SLOTS_MIN);
        let old = std::mem::replace(&mut self.slots, vec![TermSlot::default(); larger]);
        for slot in old.into_iter().filter(|slot| slot.number != 0) {
            let mut at = self.home_slot(slot.hash);
            while self.slots[at].number != 0 {
                at = (at + 1) & (larger - 1);
            }
            self.slots[at] = slot;
        }
    }
}

/// Narrows a count of terms or bytes. Each term has a posting and at least one byte of text, so both counts are far
/// below the limit.
fn narrow(number: usize) -> u32 {
    u32::try_from(number)
        .expect("SEGMENT_POSTINGS_MAX bounds the terms, and a tail's texts their bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn terms_have_unique_numbers_and_sort(
            came in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..600),
        ) {
            let mut terms = TermTable::default();
            let numbers: Vec<u32> = came.iter().map(|term| terms.number(term)).collect();
            for (term, number) in came.iter().zip(numbers) {
                prop_assert_eq!(terms.get(number), &term[..]);
                prop_assert_eq!(terms.number(term), number);
            }
            let wanted: BTreeSet<&[u8]> = came.iter().map(|term| &term[..]).collect();
            let sorted = terms.sorted();
            prop_assert_eq!(terms.len(), wanted.len());
            prop_assert!(sorted.iter().map(|number| terms.get(*number)).eq(wanted));
        }
    }
}
