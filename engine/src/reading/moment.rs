//! Two time axes: what was known at a moment, and what was true at one.
//!
//! Owns what a time asked for means for one row. Knows columns of times; must not know how
//! searches or walks use the answer.
//!
//! *Known* goes by the recorded time: rows recorded after `as_of` do not exist, and an item is
//! superseded only by items recorded by then. Recorded times are what writers gave, so imported
//! history counts from when it was recorded, not from when it was imported. *True* goes by the
//! validity that a row was given, `valid_from <= T < valid_to`, where an end that was not given is
//! open and a period that ends where it starts holds at no time.
//!
//! The axes do not mix: a successor that is not true yet supersedes all the same. A tombstone is on
//! neither of them: it hides its target in the past too, because a hidden item is one that nobody
//! is to see, and a look back must not be a way around that.

use crate::error::Damage;
use crate::ids::Row;
use crate::layout::{
    Column, EDGE_RECORDED_AT, EDGE_VALID_FROM, EDGE_VALID_TO, ITEM_RECORDED_AT, ITEM_VALID_FROM,
    ITEM_VALID_TO, NO_TIME,
};
use crate::os::clock::Micros;
use crate::segment::{Segment, View};

/// From when to look at a store. By default from now, and at what is true at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Moment {
    /// Only what was recorded at or before this time, in the state that it had then.
    pub as_of: Option<Micros>,
    /// Only what is true at this time. Narrows what is found (by searches, refs and edges, and among
    /// current successors); what is asked for by id, histories and counts stay whole.
    pub valid_at: Option<Micros>,
}

impl Moment {
    /// Whether something recorded at `recorded_at` was known.
    pub(crate) fn knows(self, recorded_at: Micros) -> bool {
        self.as_of.is_none_or(|as_of| recorded_at <= as_of)
    }
}

/// The times of one table of a segment, as far as a moment asks for them: nothing is read for an
/// axis that is not used.
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

    /// Whether the row was known.
    pub(crate) fn knows(&self, row: Row) -> Result<bool, Damage> {
        match &self.recorded {
            Some((recorded, as_of)) => Ok(recorded.get(row as usize)? <= *as_of),
            None => Ok(true),
        }
    }

    /// Whether what the row says is true at the time asked for.
    pub(crate) fn holds(&self, row: Row) -> Result<bool, Damage> {
        let Some((from, to, at)) = &self.valid else { return Ok(true) };
        let (from, to) = (from.get(row as usize)?, to.get(row as usize)?);
        // "Not given" is the earliest number, so an open start needs no look of its own.
        Ok(from <= *at && (to == NO_TIME || *at < to))
    }

    /// Whether the row was known and holds.
    pub(crate) fn shows(&self, row: Row) -> Result<bool, Damage> {
        Ok(self.knows(row)? && self.holds(row)?)
    }
}
