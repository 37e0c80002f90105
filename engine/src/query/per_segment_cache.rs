use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::segment::Segment;

/// Cache with a value per segment. A segment outlives the snapshots that share it, so a value computed for one snapshot
/// holds in the next, in which segment ordinals differ.
///
/// The key is the segment's address. A `Weak` keeps the address from being reused, without keeping the segment alive.
#[derive(Debug, Clone)]
pub(crate) struct PerSegmentCache<T> {
    by_address: BTreeMap<usize, (Weak<Segment>, T)>,
}

impl<T> Default for PerSegmentCache<T> {
    fn default() -> Self {
        Self { by_address: BTreeMap::new() }
    }
}

impl<T> PerSegmentCache<T> {
    pub(crate) fn insert(&mut self, segment: &Arc<Segment>, value: T) {
        self.by_address.insert(segment_address(segment), (Arc::downgrade(segment), value));
    }

    pub(crate) fn get(&self, segment: &Arc<Segment>) -> Option<&T> {
        self.by_address.get(&segment_address(segment)).map(|(_, value)| value)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_address.len()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.by_address.values().map(|(_, value)| value)
    }
}

fn segment_address(segment: &Arc<Segment>) -> usize {
    Arc::as_ptr(segment).addr()
}
