//! Positions, in an export, of the tombstones whose targets are erased (`format-spec/export.md`, EXP-09).
//!
//! An importer writes as it reads, so a line must follow the lines that it names. An erased row has no line; its
//! tombstones are emitted as early as the ids that they name allow, which is never later than the row's old position.
//! Memory: some hundred bytes per erased target, and about 40 per id of its list of at most
//! [`crate::limits::SUPERSEDES_MAX`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// Erased targets, and those of their tombstones that are not emitted yet; `P` locates a tombstone.
#[derive(Debug, Clone)]
pub(crate) struct ErasedTombstones<P> {
    /// Targets, in the order of the first tombstone of each.
    targets: Vec<ErasedTarget<P>>,
    target_index: HashMap<u128, usize>,
    /// Targets blocked on an id.
    blocked_on: HashMap<u128, Vec<usize>>,
    /// Targets that no id blocks.
    ready: BinaryHeap<Reverse<usize>>,
    emitted: usize,
}

#[derive(Debug, Clone)]
struct ErasedTarget<P> {
    id: u128,
    tombstones: Vec<P>,
    replaced: HashSet<u128>,
    /// Ids that still block the target.
    blockers: usize,
    is_emitted: bool,
}

impl<P> Default for ErasedTombstones<P> {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            target_index: HashMap::new(),
            blocked_on: HashMap::new(),
            ready: BinaryHeap::new(),
            emitted: 0,
        }
    }
}

impl<P> ErasedTombstones<P> {
    /// Adds a tombstone and the items that its target superseded. Tombstones must be added in commit order.
    pub(crate) fn add(&mut self, target: u128, at: P, replaced: impl IntoIterator<Item = u128>) {
        let next = self.targets.len();
        let index = *self.target_index.entry(target).or_insert(next);
        if index == next {
            let (stones, replaced) = (Vec::new(), HashSet::new());
            self.targets.push(ErasedTarget {
                id: target,
                tombstones: stones,
                replaced,
                blockers: 0,
                is_emitted: false,
            });
        }
        self.targets[index].tombstones.push(at);
        self.targets[index].replaced.extend(replaced);
    }

    /// Resolves what blocks each target, after the last [`Self::add`]: the superseded ids that are erased as well, or
    /// are rows still to be emitted.
    pub(crate) fn resolve<E>(&mut self, is_row: impl Fn(u128) -> Result<bool, E>) -> Result<(), E> {
        for (at, target) in self.targets.iter_mut().enumerate() {
            for id in std::mem::take(&mut target.replaced) {
                if self.target_index.contains_key(&id) || is_row(id)? {
                    self.blocked_on.entry(id).or_default().push(at);
                    target.blockers += 1;
                }
            }
            if target.blockers == 0 {
                self.ready.push(Reverse(at));
            }
        }
        Ok(())
    }

    /// Returns true if the target is erased, so its tombstones are ordered here.
    pub(crate) fn contains(&self, target: u128) -> bool {
        self.target_index.contains_key(&target)
    }

    /// Number of tombstones not emitted yet.
    pub(crate) fn tombstones_left(&self) -> u64 {
        self.targets.iter().map(|target| target.tombstones.len() as u64).sum()
    }

    /// Returns true if any target is blocked.
    pub(crate) fn has_blocked(&self) -> bool {
        !self.blocked_on.is_empty()
    }

    /// Records that an item, or the tombstones of an erased item, were emitted.
    pub(crate) fn mark_emitted(&mut self, id: u128) {
        for at in self.blocked_on.remove(&id).unwrap_or_default() {
            self.targets[at].blockers -= 1;
            if self.targets[at].blockers == 0 {
                self.ready.push(Reverse(at));
            }
        }
    }

    /// Returns the tombstones of the first target that is not blocked. After the last row (`is_end`), also returns
    /// those of targets that stay blocked, as in a corrupt cycle.
    pub(crate) fn next_ready(&mut self, is_end: bool) -> Option<Vec<P>> {
        let at = match self.ready.pop() {
            Some(Reverse(at)) => at,
            None if is_end => self.first_blocked()?,
            None => return None,
        };
        let target = &mut self.targets[at];
        target.is_emitted = true;
        let (id, stones) = (target.id, std::mem::take(&mut target.tombstones));
        self.mark_emitted(id);
        Some(stones)
    }

    fn first_blocked(&mut self) -> Option<usize> {
        let left = self.targets[self.emitted..].iter().position(|target| !target.is_emitted)?;
        self.emitted += left;
        // The ids that block the target come later and must not emit it again.
        self.targets[self.emitted].blockers = usize::MAX;
        Some(self.emitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(gone: &mut ErasedTombstones<u32>, is_end: bool) -> Vec<u32> {
        std::iter::from_fn(|| gone.next_ready(is_end)).flatten().collect()
    }

    /// 10 superseded row 1; 30 superseded 10 and 20; 20 superseded nothing. 30's tombstones come first.
    fn sample() -> ErasedTombstones<u32> {
        let mut gone = ErasedTombstones::default();
        gone.add(30, 0, [10, 20]);
        gone.add(10, 1, [1]);
        gone.add(30, 2, [10, 20]);
        gone.add(20, 3, []);
        gone.resolve::<()>(|id| Ok(id == 1)).unwrap();
        gone
    }

    #[test]
    fn tombstones_follow_directly_after_their_references() {
        let mut gone = sample();
        assert_eq!(given(&mut gone, false), [3]);
        gone.mark_emitted(2);
        assert_eq!(given(&mut gone, false), [] as [u32; 0]);
        gone.mark_emitted(1);
        assert_eq!(given(&mut gone, false), [1, 0, 2]);
        assert_eq!(given(&mut gone, true), [] as [u32; 0]);
        assert!(gone.contains(10) && !gone.contains(1));
    }

    #[test]
    fn tombstone_order_is_deterministic() {
        let mut gone = ErasedTombstones::default();
        for (at, target, replaced) in [(0, 20, vec![]), (1, 10, vec![1]), (2, 30, vec![10, 20])] {
            gone.add(target, at, replaced);
        }
        gone.resolve::<()>(|id| Ok(id == 1)).unwrap();
        assert_eq!(given(&mut gone, false), [0]);
        gone.mark_emitted(1);
        assert_eq!(given(&mut gone, false), [1, 2]);
    }

    #[test]
    fn cyclic_tombstones_come_last_and_once() {
        let mut gone = ErasedTombstones::default();
        gone.add(7, 0, [8, 7]);
        gone.add(8, 1, [7]);
        gone.resolve::<()>(|_| Ok(false)).unwrap();
        assert_eq!(given(&mut gone, false), [] as [u32; 0]);
        assert_eq!(given(&mut gone, true), [0, 1]);
    }
}
