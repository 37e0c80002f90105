//! The best `k` of many, in one pass and bounded memory.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Keeps the `limit` best entries: higher scores first, equal scores in ascending order of key.
#[derive(Debug)]
pub struct Top<K> {
    limit: usize,
    worst_first: BinaryHeap<Entry<K>>,
}

#[derive(Debug)]
struct Entry<K> {
    score: f32,
    key: K,
}

impl<K: Ord> Ord for Entry<K> {
    /// The greatest entry is the worst one.
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then_with(|| self.key.cmp(&other.key))
    }
}

impl<K: Ord> PartialOrd for Entry<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord> PartialEq for Entry<K> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<K: Ord> Eq for Entry<K> {}

impl<K: Ord> Top<K> {
    /// Room for `limit` entries.
    pub fn new(limit: usize) -> Self {
        Self { limit, worst_first: BinaryHeap::with_capacity(limit + 1) }
    }

    /// The score below which nothing can enter any more; an equal one still can, by its key.
    pub fn threshold(&self) -> f32 {
        match self.worst_first.peek() {
            Some(worst) if self.worst_first.len() == self.limit => worst.score,
            _ => f32::NEG_INFINITY,
        }
    }

    /// Offers an entry.
    pub fn push(&mut self, score: f32, key: K) {
        self.worst_first.push(Entry { score, key });
        if self.worst_first.len() > self.limit {
            self.worst_first.pop();
        }
    }

    /// The entries, best first.
    pub fn into_best(self) -> Vec<(f32, K)> {
        let sorted = self.worst_first.into_sorted_vec();
        sorted.into_iter().map(|entry| (entry.score, entry.key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_gives_what_sorting_everything_gives(
            scores in prop::collection::vec(0i8..5, 0..60),
            limit in 0usize..10,
        ) {
            let mut all: Vec<(f32, usize)> =
                scores.iter().enumerate().map(|(key, &score)| (f32::from(score), key)).collect();
            let mut top = Top::new(limit);
            for &(score, key) in all.iter().rev() {
                top.push(score, key);
            }
            all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            all.truncate(limit);
            prop_assert_eq!(top.into_best(), all);
        }
    }
}
