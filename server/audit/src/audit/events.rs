//! Sensitivity events of a ledger, and the count of those that it held when it was opened.

use engine::ledger::{Effect, ReadError, Reader, Touched};

/// Entries that are counted while others who ask the same wait: some tenth of a second.
pub(super) const COUNTED_TOGETHER_MAX: usize = 65_536;

/// What the ledger held when it was opened.
pub(super) struct Past {
    /// Reads the rest, until all is counted.
    uncounted: Option<Reader>,
    /// Where the rest begins.
    pub(super) next_seq: u64,
    /// Sensitivity events of what comes before it.
    pub(super) events: Events,
}

impl Past {
    /// Nothing of this is counted yet.
    pub(super) fn of(ledger: Reader) -> Self {
        Self { uncounted: Some(ledger), next_seq: 1, events: Events::default() }
    }

    /// Counts so many entries more. Gives whether all are counted.
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

/// Sensitivity events: items that were withheld, redacted, raised, lowered or erased, each time counting one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events {
    /// What callers can have noticed.
    pub open: u64,
    /// What was kept from callers. Told to all, they would say whether something hidden answers a question.
    pub withheld: u64,
}

impl Events {
    pub(super) fn of(touched: &[Touched]) -> Self {
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

    /// All of them.
    pub fn all(self) -> u64 {
        self.open + self.withheld
    }
}
