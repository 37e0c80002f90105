//! Bitemporal reads: transaction time (`as_of`) and valid time (`valid_at`).
//!
//! *Transaction time* goes by the recorded time: rows recorded after `as_of` do not exist, and an item is superseded
//! only by items recorded by then. Writers set recorded times, so imported history counts from its recording, not from
//! its import. *Valid time* goes by the validity of the row, `valid_from <= T < valid_to`. A missing bound is open, and
//! a period that ends where it starts is valid at no time.
//!
//! The axes are independent: a successor that is not valid yet supersedes all the same. A tombstone is on neither axis:
//! it hides its target in the past too. No reader may see a hidden item, and a read of the past must not circumvent
//! that.

use crate::error::Damage;
use crate::ids::Row;
use crate::layout::{
    Column, EDGE_RECORDED_AT, EDGE_VALID_FROM, EDGE_VALID_TO, ITEM_RECORDED_AT, ITEM_VALID_FROM,
    ITEM_VALID_TO, NO_TIME,
};
use crate::os::clock::Micros;
use crate::segment::{Segment, View};

/// Times as of which a store is read. Defaults to now, and to rows valid at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Moment {
    /// Transaction time: only rows recorded at or before this time, in the state that they had then.
    pub as_of: Option<Micros>,
    /// Valid time: only rows valid at this time. Restricts searches, refs, edges and current successors; look-ups by
    /// id, histories and counts are unaffected.
    pub valid_at: Option<Micros>,
}

impl Moment {
    /// Returns true if a row with this recorded time was known.
    pub(crate) fn knows(self, recorded_at: Micros) -> bool {
        self.as_of.is_none_or(|as_of| recorded_at <= as_of)
    }
}

/// Time columns of one table of a segment; columns of an unused axis are not opened.
pub(crate) struct Times<'seg> {
    recorded: Option<(View<'seg, i64>, i64)>,
    valid: Option<(View<'seg, i64>, View<'seg, i64>, i64)>,
}

impl<'seg> Times<'seg> {
    pub(crate) fn of_items(moment: Moment, segment: &'seg Segment) -> Result<Self, Damage> {
        Self::of(moment, segment, [ITEM_RECORDED_AT, ITEM_VALID_FROM, ITEM_VALID_TO])
    }

    pub(crate) fn of_edges(moment: Moment, segment: &'seg Segment) -> Result<Self, Damage> {
        Self::of(moment, segment, [EDGE_RECORDED_AT, EDGE_VALID_FROM, EDGE_VALID_TO])
    }

    fn of(moment: Moment, segment: &'seg Segment, columns: [Column; 3]) -> Result<Self, Damage> {
        let [recorded, from, to] = columns;
        let recorded = match moment.as_of {
            Some(as_of) => Some((segment.view(recorded)?, as_of.0)),
            None => None,
        };
        let valid = match moment.valid_at {
            Some(at) => Some((segment.view(from)?, segment.view(to)?, at.0)),
            None => None,
        };
        Ok(Self { recorded, valid })
    }

    /// Returns true if the row was known at the transaction time.
    pub(crate) fn knows(&self, row: Row) -> Result<bool, Damage> {
        match &self.recorded {
            Some((recorded, as_of)) => Ok(recorded.get(row as usize)? <= *as_of),
            None => Ok(true),
        }
    }

    /// Returns true if the row is valid at the valid time.
    pub(crate) fn holds(&self, row: Row) -> Result<bool, Damage> {
        let Some((from, to, at)) = &self.valid else { return Ok(true) };
        let (from, to) = (from.get(row as usize)?, to.get(row as usize)?);
        // A missing start is stored as the earliest time, so an open start needs no check.
        Ok(from <= *at && (to == NO_TIME || *at < to))
    }

    /// Returns true if the row was known and is valid.
    pub(crate) fn shows(&self, row: Row) -> Result<bool, Damage> {
        Ok(self.knows(row)? && self.holds(row)?)
    }
}
