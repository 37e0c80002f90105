//! When to look at which connection again.
//!
//! One entry per connection at most. A deadline that moves later leaves its entry where it is: the
//! entry fires early, the connection says its true deadline, and the entry is set anew. So a busy
//! connection touches the tree about once per head timeout and not once per request.

use std::collections::BTreeSet;
use std::time::Instant;

use super::slots::Name;

/// All entries, soonest first.
#[derive(Default)]
pub(super) struct Timers {
    entries: BTreeSet<(Instant, Name)>,
}

impl Timers {
    /// Sees to it that `name` comes up at `deadline` or before. `entry` is the connection's own note
    /// of its entry.
    pub(super) fn arm(&mut self, name: Name, entry: &mut Option<Instant>, deadline: Instant) {
        if entry.is_some_and(|at| at <= deadline) {
            return;
        }
        self.disarm(name, entry);
        self.entries.insert((deadline, name));
        *entry = Some(deadline);
    }

    /// Forgets the entry of `name`.
    pub(super) fn disarm(&mut self, name: Name, entry: &mut Option<Instant>) {
        if let Some(at) = entry.take() {
            self.entries.remove(&(at, name));
        }
    }

    /// Takes one connection whose entry has come up; the caller clears the connection's note.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Name> {
        self.entries.first().filter(|(at, _)| *at <= now)?;
        self.entries.pop_first().map(|(_, name)| name)
    }

    /// When the next entry comes up.
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
