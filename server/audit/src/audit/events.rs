//! Sensitivity events of a ledger, and the count of earlier events when a ledger is opened.

use engine::ledger::{Effect, LedgerReader, ReadError, TouchedItem};

/// Entries counted while other callers of the count wait: about a tenth of a second.
pub(super) const COUNTED_TOGETHER_MAX: usize = 65_536;

/// Progress of the count of entries from before the ledger was opened.
pub(super) struct Past {
    /// Reader of the remaining entries; `None` once all are counted.
    uncounted: Option<LedgerReader>,
    /// Sequence number of the first remaining entry.
    pub(super) next_seq: u64,
    /// Sensitivity events of the entries before `next_seq`.
    pub(super) events: Events,
}

impl Past {
    /// A count that has not started.
    pub(super) fn of(ledger: LedgerReader) -> Self {
        Self { uncounted: Some(ledger), next_seq: 1, events: Events::default() }
    }

    /// Counts up to `entries_max` more entries. Returns true if all are counted.
    pub(super) fn count_on(&mut self, entries_max: usize) -> Result<bool, ReadError> {
        let Some(reader) = &self.uncounted else { return Ok(true) };
        let mut counted = 0;
        for entry in reader.entries(self.next_seq)?.take(entries_max) {
            let entry = entry?;
            self.events = self.events.plus(Events::of(&entry.touched));
            self.next_seq = entry.seq + 1;
            counted += 1;
        }
        if counted < entries_max {
            self.uncounted = None;
        }
        Ok(self.uncounted.is_none())
    }
}

/// Sensitivity events: items withheld, redacted, raised, lowered or erased, each counted once per call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events {
    /// Events visible to callers.
    pub open: u64,
    /// Withheld items. Disclosed to every caller, the number would reveal if a hidden item matches a query.
    pub withheld: u64,
}

impl Events {
    pub(super) fn of(touched: &[TouchedItem]) -> Self {
        let mut events = Self::default();
        for one in touched {
            match one.effect {
                Effect::Read | Effect::Written => {}
                Effect::Withheld => events.withheld += 1,
                _ => events.open += 1,
            }
        }
        events
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { open: self.open + other.open, withheld: self.withheld + other.withheld }
    }

    /// Total number of events.
    pub fn all(self) -> u64 {
        self.open + self.withheld
    }
}
