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
pub(crate) struct Gone<P> {
    /// Targets, in the order of the first tombstone of each.
    targets: Vec<Target<P>>,
    index: HashMap<u128, usize>,
    /// Targets blocked on an id.
    waiting: HashMap<u128, Vec<usize>>,
    /// Targets that no id blocks.
    ready: BinaryHeap<Reverse<usize>>,
    given: usize,
}

#[derive(Debug, Clone)]
struct Target<P> {
    id: u128,
    stones: Vec<P>,
    replaced: HashSet<u128>,
    /// Ids that still block the target.
    waits: usize,
    is_given: bool,
}

impl<P> Default for Gone<P> {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            index: HashMap::new(),
            waiting: HashMap::new(),
            ready: BinaryHeap::new(),
            given: 0,
        }
    }
}

impl<P> Gone<P> {
    /// Adds a tombstone and the items that its target superseded. Tombstones must be added in commit order.
    pub(crate) fn add(&mut self, target: u128, at: P, replaced: impl IntoIterator<Item = u128>) {
        let next = self.targets.len();
        let index = *self.index.entry(target).or_insert(next);
        if index == next {
            let (stones, replaced) = (Vec::new(), HashSet::new());
            self.targets.push(Target { id: target, stones, replaced, waits: 0, is_given: false });
        }
        self.targets[index].stones.push(at);
        self.targets[index].replaced.extend(replaced);
    }

    /// Resolves what blocks each target, after the last [`Self::add`]: the superseded ids that are erased as well, or
    /// are rows still to be emitted.
    pub(crate) fn settle<E>(&mut self, is_row: impl Fn(u128) -> Result<bool, E>) -> Result<(), E> {
        for (at, target) in self.targets.iter_mut().enumerate() {
            for id in std::mem::take(&mut target.replaced) {
                if self.index.contains_key(&id) || is_row(id)? {
                    self.waiting.entry(id).or_default().push(at);
                    target.waits += 1;
                }
            }
            if target.waits == 0 {
                self.ready.push(Reverse(at));
            }
        }
        Ok(())
    }

    /// Returns true if the target is erased, so its tombstones are ordered here.
    pub(crate) fn has(&self, target: u128) -> bool {
        self.index.contains_key(&target)
    }

    /// Number of tombstones not emitted yet.
    pub(crate) fn stones(&self) -> u64 {
        self.targets.iter().map(|target| target.stones.len() as u64).sum()
    }

    /// Returns true if any target is blocked.
    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Records that an item, or the tombstones of an erased item, were emitted.
    pub(crate) fn note(&mut self, id: u128) {
        for at in self.waiting.remove(&id).unwrap_or_default() {
            self.targets[at].waits -= 1;
            if self.targets[at].waits == 0 {
                self.ready.push(Reverse(at));
            }
        }
    }

    /// Returns the tombstones of the first target that is not blocked. After the last row (`is_end`), also returns
    /// those of targets that stay blocked, as in a corrupt cycle.
    pub(crate) fn next(&mut self, is_end: bool) -> Option<Vec<P>> {
        let at = match self.ready.pop() {
            Some(Reverse(at)) => at,
            None if is_end => self.first_left()?,
            None => return None,
        };
        let target = &mut self.targets[at];
        target.is_given = true;
        let (id, stones) = (target.id, std::mem::take(&mut target.stones));
        self.note(id);
        Some(stones)
    }

    fn first_left(&mut self) -> Option<usize> {
        let left = self.targets[self.given..].iter().position(|target| !target.is_given)?;
        self.given += left;
        // The ids that block the target come later and must not emit it again.
        self.targets[self.given].waits = usize::MAX;
        Some(self.given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(gone: &mut Gone<u32>, is_end: bool) -> Vec<u32> {
        std::iter::from_fn(|| gone.next(is_end)).flatten().collect()
    }

    /// 10 superseded row 1; 30 superseded 10 and 20; 20 superseded nothing. 30's tombstones come first.
    fn sample() -> Gone<u32> {
        let mut gone = Gone::default();
        gone.add(30, 0, [10, 20]);
        gone.add(10, 1, [1]);
        gone.add(30, 2, [10, 20]);
        gone.add(20, 3, []);
        gone.settle::<()>(|id| Ok(id == 1)).unwrap();
        gone
    }

    #[test]
    fn tombstones_stand_as_soon_as_what_they_name_does() {
        let mut gone = sample();
        assert_eq!(given(&mut gone, false), [3]);
        gone.note(2);
        assert_eq!(given(&mut gone, false), [] as [u32; 0]);
        gone.note(1);
        assert_eq!(given(&mut gone, false), [1, 0, 2]);
        assert_eq!(given(&mut gone, true), [] as [u32; 0]);
        assert!(gone.has(10) && !gone.has(1));
    }

    #[test]
    fn an_order_that_was_given_is_given_again() {
        let mut gone = Gone::default();
        for (at, target, replaced) in [(0, 20, vec![]), (1, 10, vec![1]), (2, 30, vec![10, 20])] {
            gone.add(target, at, replaced);
        }
        gone.settle::<()>(|id| Ok(id == 1)).unwrap();
        assert_eq!(given(&mut gone, false), [0]);
        gone.note(1);
        assert_eq!(given(&mut gone, false), [1, 2]);
    }

    #[test]
    fn a_damaged_circle_comes_last_and_once() {
        let mut gone = Gone::default();
        gone.add(7, 0, [8, 7]);
        gone.add(8, 1, [7]);
        gone.settle::<()>(|_| Ok(false)).unwrap();
        assert_eq!(given(&mut gone, false), [] as [u32; 0]);
        assert_eq!(given(&mut gone, true), [0, 1]);
    }
}
