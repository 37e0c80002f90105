//! Deadlines of the connections of a loop.
//!
//! A connection has at most one entry. If its deadline moves later, the entry stays: the entry fires early, the
//! connection reports its true deadline, and a new entry is set. So a busy connection updates the tree about once per
//! head timeout and not once per request.

use std::collections::BTreeSet;
use std::time::Instant;

use super::slots::Name;

/// All entries, earliest first.
#[derive(Default)]
pub(super) struct Timers {
    entries: BTreeSet<(Instant, Name)>,
}

impl Timers {
    /// Ensures that `name` fires at `deadline` or earlier. `entry` is the time that the connection stores.
    pub(super) fn arm(&mut self, name: Name, entry: &mut Option<Instant>, deadline: Instant) {
        if entry.is_some_and(|at| at <= deadline) {
            return;
        }
        self.disarm(name, entry);
        self.entries.insert((deadline, name));
        *entry = Some(deadline);
    }

    /// Removes the entry of `name`.
    pub(super) fn disarm(&mut self, name: Name, entry: &mut Option<Instant>) {
        if let Some(at) = entry.take() {
            self.entries.remove(&(at, name));
        }
    }

    /// Removes and returns one connection whose entry is due; the caller clears the stored time.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Name> {
        self.entries.first().filter(|(at, _)| *at <= now)?;
        self.entries.pop_first().map(|(_, name)| name)
    }

    /// Time of the earliest entry.
    pub(super) fn next(&self) -> Option<Instant> {
        self.entries.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_entry_per_connection_and_only_sooner_moves_it() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let name = Name::from_number(1 << 32);
        let (mut timers, mut entry) = (Timers::default(), None);
        timers.arm(name, &mut entry, after(10));
        timers.arm(name, &mut entry, after(20));
        assert_eq!(timers.next(), Some(after(10)));
        timers.arm(name, &mut entry, after(5));
        assert_eq!((timers.next(), timers.entries.len()), (Some(after(5)), 1));
        assert_eq!(timers.take_due(after(4)), None);
        assert_eq!(timers.take_due(after(5)), Some(name));
        assert_eq!(timers.next(), None);
        entry = None;
        timers.arm(name, &mut entry, after(9));
        timers.disarm(name, &mut entry);
        assert_eq!((timers.next(), entry), (None, None));
    }
}
