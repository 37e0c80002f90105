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

use crate::error::CorruptionError;
use crate::ids::Row;
use crate::layout::{
    Column, EDGE_RECORDED_AT, EDGE_VALID_FROM, EDGE_VALID_TO, ITEM_RECORDED_AT, ITEM_VALID_FROM,
    ITEM_VALID_TO, NO_TIME,
};
use crate::os::clock::Micros;
use crate::segment::{ColumnView, Segment};

/// Times as of which a store is read. Defaults to now, and to rows valid at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AsOf {
    /// Transaction time: only rows recorded at or before this time, in the state that they had then.
    pub known_at: Option<Micros>,
    /// Valid time: only rows valid at this time. Restricts searches, refs, edges and current successors; look-ups by
    /// id, histories and counts are unaffected.
    pub valid_at: Option<Micros>,
}

impl AsOf {
    /// Returns true if a row with this recorded time was known.
    pub(crate) fn is_known(self, recorded_at: Micros) -> bool {
        self.known_at.is_none_or(|as_of| recorded_at <= as_of)
    }
}

/// Time columns of one table of a segment; columns of an unused axis are not opened.
pub(crate) struct TimeColumns<'seg> {
    recorded: Option<(ColumnView<'seg, i64>, i64)>,
    valid: Option<(ColumnView<'seg, i64>, ColumnView<'seg, i64>, i64)>,
}

impl<'seg> TimeColumns<'seg> {
    pub(crate) fn for_items(moment: AsOf, segment: &'seg Segment) -> Result<Self, CorruptionError> {
        Self::open(moment, segment, [ITEM_RECORDED_AT, ITEM_VALID_FROM, ITEM_VALID_TO])
    }

    pub(crate) fn for_edges(moment: AsOf, segment: &'seg Segment) -> Result<Self, CorruptionError> {
        Self::open(moment, segment, [EDGE_RECORDED_AT, EDGE_VALID_FROM, EDGE_VALID_TO])
    }

    fn open(
        moment: AsOf,
        segment: &'seg Segment,
        columns: [Column; 3],
    ) -> Result<Self, CorruptionError> {
        let [recorded, from, to] = columns;
        let recorded = match moment.known_at {
            Some(as_of) => Some((segment.column(recorded)?, as_of.0)),
            None => None,
        };
        let valid = match moment.valid_at {
            Some(at) => Some((segment.column(from)?, segment.column(to)?, at.0)),
            None => None,
        };
        Ok(Self { recorded, valid })
    }

    /// Returns true if the row was known at the transaction time.
    pub(crate) fn is_known(&self, row: Row) -> Result<bool, CorruptionError> {
        match &self.recorded {
            Some((recorded, as_of)) => Ok(recorded.get(row as usize)? <= *as_of),
            None => Ok(true),
        }
    }

    /// Returns true if the row is valid at the valid time.
    pub(crate) fn is_valid(&self, row: Row) -> Result<bool, CorruptionError> {
        let Some((from, to, at)) = &self.valid else { return Ok(true) };
        let (from, to) = (from.get(row as usize)?, to.get(row as usize)?);
        // A missing start is stored as the earliest time, so an open start needs no check.
        Ok(from <= *at && (to == NO_TIME || *at < to))
    }

    /// Returns true if the row was known and is valid.
    pub(crate) fn is_visible(&self, row: Row) -> Result<bool, CorruptionError> {
        Ok(self.is_known(row)? && self.is_valid(row)?)
    }
}
