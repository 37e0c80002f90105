//! FIFO queue of the handshakes that wait for the next pass of an event loop.

use std::collections::BTreeMap;

use super::slots::Name;

/// The queue, with at most one entry per connection. Each connection stores the key of its entry.
#[derive(Default)]
pub(super) struct Line {
    waiting: BTreeMap<u64, Name>,
    next: u64,
}

impl Line {
    /// Appends a connection unless already queued. `entry` is the key that the connection stores.
    pub(super) fn join(&mut self, name: Name, entry: &mut Option<u64>) {
        if entry.is_none() {
            self.waiting.insert(self.next, name);
            *entry = Some(self.next);
            self.next += 1;
        }
    }

    /// Removes a connection.
    pub(super) fn leave(&mut self, entry: &mut Option<u64>) {
        if let Some(at) = entry.take() {
            self.waiting.remove(&at);
        }
    }

    /// Removes and returns the first connection; the caller clears the key stored by the connection.
    pub(super) fn next(&mut self) -> Option<Name> {
        self.waiting.pop_first().map(|(_, name)| name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served_and_each_once() {
        let names = [1, 2, 3].map(|number| Name::from_number(number << 32));
        let (mut line, mut entries) = (Line::default(), [None; 3]);
        for (name, entry) in names.iter().zip(&mut entries) {
            line.join(*name, entry);
            line.join(*name, entry);
        }
        line.leave(&mut entries[1]);
        line.leave(&mut entries[1]);
        assert_eq!((line.next(), line.next(), line.next()), (Some(names[0]), Some(names[2]), None));
        assert!(line.is_empty());
    }
}
