//! What is known of the segments of a snapshot, found again by the segment itself.
//!
//! A segment stays the same while snapshots come and go, so what was worked out for one of them holds in the
//! next. Places of parts do not.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::segment::Segment;

/// One value for each segment. Holds no segment: while its address is kept here it is nobody else's.
#[derive(Debug, Clone)]
pub(crate) struct BySegment<T> {
    by_address: BTreeMap<usize, (Weak<Segment>, T)>,
}

impl<T> Default for BySegment<T> {
    fn default() -> Self {
        Self { by_address: BTreeMap::new() }
    }
}

impl<T> BySegment<T> {
    pub(crate) fn insert(&mut self, segment: &Arc<Segment>, value: T) {
        self.by_address.insert(address(segment), (Arc::downgrade(segment), value));
    }

    pub(crate) fn get(&self, segment: &Arc<Segment>) -> Option<&T> {
        self.by_address.get(&address(segment)).map(|(_, value)| value)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_address.len()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.by_address.values().map(|(_, value)| value)
    }
}

fn address(segment: &Arc<Segment>) -> usize {
    Arc::as_ptr(segment).addr()
}
