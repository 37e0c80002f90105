use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Bounded heap of the top `capacity` entries: higher scores first, among equal scores smaller keys.
#[derive(Debug, Clone)]
pub struct TopK<S, K> {
    capacity: usize,
    /// Lowest score that is accepted.
    floor_min: Option<S>,
    /// Heap with the worst entry on top.
    heap: BinaryHeap<HeapEntry<S, K>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HeapEntry<S, K> {
    score: S,
    key: K,
}

impl<S: Ord, K: Ord> Ord for HeapEntry<S, K> {
    /// A worse entry compares greater.
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.cmp(&self.score).then_with(|| self.key.cmp(&other.key))
    }
}

impl<S: Ord, K: Ord> PartialOrd for HeapEntry<S, K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<S: Ord + Copy, K: Ord> TopK<S, K> {
    /// Makes an empty heap for `capacity` entries; memory grows only as entries arrive.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, floor_min: None, heap: BinaryHeap::new() }
    }

    /// Makes an empty heap that accepts only scores of at least `least`.
    pub fn with_floor_min(capacity: usize, least: S) -> Self {
        Self { floor_min: Some(least), ..Self::new(capacity) }
    }

    /// Score floor: the lowest score that can still enter; the worst entry's score once the heap is full.
    pub fn floor(&self) -> Option<S> {
        if self.heap.len() < self.capacity {
            return self.floor_min;
        }
        self.heap.peek().map(|kept| kept.score)
    }

    /// Returns true if the capacity is 0, so no entry can enter.
    pub fn is_closed(&self) -> bool {
        self.capacity == 0
    }

    /// Returns true if an offer would be accepted, for callers whose keys are costly to verify.
    pub fn would_accept(&self, score: S, key: &K) -> bool {
        if self.floor_min.is_some_and(|least| score < least) {
            return false;
        }
        if self.heap.len() < self.capacity {
            return true;
        }
        self.heap.peek().is_some_and(|worst| {
            worst.score.cmp(&score).then_with(|| key.cmp(&worst.key)) == Ordering::Less
        })
    }

    /// Offers an entry; returns true if it was accepted.
    pub fn offer(&mut self, score: S, key: K) -> bool {
        if self.floor_min.is_some_and(|least| score < least) {
            return false;
        }
        let kept = HeapEntry { score, key };
        if self.heap.len() < self.capacity {
            self.heap.push(kept);
            return true;
        }
        match self.heap.peek_mut() {
            Some(mut worst) if kept < *worst => {
                *worst = kept;
                true
            }
            _ => false,
        }
    }

    /// All entries, best first.
    pub fn into_sorted(self) -> Vec<(S, K)> {
        self.heap.into_sorted_vec().into_iter().map(|kept| (kept.score, kept.key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn top_k_equals_sort_and_truncate(offers in prop::collection::vec((0_u32..5, 0_u32..50), 0..60), capacity in 0_usize..12, least in prop::option::of(0_u32..6)) {
            let mut top = least.map_or(TopK::new(capacity), |least| TopK::with_floor_min(capacity, least));
            for (score, key) in &offers {
                let expected = top.would_accept(*score, key);
                prop_assert_eq!(top.offer(*score, *key), expected);
            }
            let mut sorted = offers.clone();
            sorted.retain(|offer| least.is_none_or(|least| offer.0 >= least));
            sorted.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
            sorted.truncate(capacity);
            let is_full = sorted.len() == capacity;
            let floor = if is_full { sorted.last().map(|last| last.0) } else { least };
            prop_assert_eq!(top.floor(), floor);
            prop_assert_eq!(top.into_sorted(), sorted);
        }
    }
}
