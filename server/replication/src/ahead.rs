//! Reading ahead along a chain.
//!
//! A machine asks for one record after the other, and a request takes long. Where it does so for a while, the next ones
//! in that direction are read side by side. What is there never changes, so it may be told later; that a record is
//! not there may change at any time, so that is not kept but asked when the machine asks.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::thread;

use crate::chain::Chain;
use crate::limits::{READ_AHEAD, READ_AHEAD_AFTER, READ_AHEAD_BYTES_MAX};
use crate::names::Tenant;
use crate::objects::Away;

/// What was read for one machine and not asked for yet.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    read: BTreeMap<u64, Vec<u8>>,
    last: Option<u64>,
    /// The direction of the last two asks, and how many of them went that way.
    upward: bool,
    run: u32,
    /// Bytes of the largest record of those asks.
    largest: usize,
}

impl Ahead {
    /// A record, as [`Chain::read`] has it.
    ///
    /// # Errors
    /// No answer.
    pub(crate) fn read(
        &mut self,
        number: u64,
        tenant: &Tenant,
        chain: &dyn Chain,
    ) -> Result<Option<Vec<u8>>, Away> {
        self.note(number);
        let found = match self.read.remove(&number) {
            Some(bytes) => Some(bytes),
            None if self.run < READ_AHEAD_AFTER => chain.read(tenant, number)?,
            None => self.read_on(number, tenant, chain)?,
        };
        self.largest = self.largest.max(found.as_ref().map_or(0, Vec::len));
        Ok(found)
    }

    fn note(&mut self, number: u64) {
        let upward = self.last.is_some_and(|last| last + 1 == number);
        let downward = self.last.is_some_and(|last| last == number + 1);
        self.run = match upward || downward {
            true if upward == self.upward => self.run.saturating_add(1),
            true => 1,
            false => 0,
        };
        (self.upward, self.last) = (upward, Some(number));
        if self.run <= 1 {
            self.read.clear();
            self.largest = 0;
        }
    }

    /// Reads this record, and those that come next in the direction: as many as have room if none is larger than
    /// those before. Of larger ones the next are kept for which there is room.
    fn read_on(
        &mut self,
        number: u64,
        tenant: &Tenant,
        chain: &dyn Chain,
    ) -> Result<Option<Vec<u8>>, Away> {
        self.read.clear();
        let next = |step: u64| match self.upward {
            true => number.checked_add(step),
            false => number.checked_sub(step).filter(|&number| number > 0),
        };
        let others: Vec<(u64, OnceLock<Vec<u8>>)> =
            (1..=self.beside()).filter_map(next).map(|n| (n, OnceLock::new())).collect();
        let own = thread::scope(|scope| {
            for (number, found) in &others {
                let read = move || {
                    if let Ok(Some(bytes)) = chain.read(tenant, *number) {
                        let _nobody_else_reads_it = found.set(bytes);
                    }
                };
                // Without a thread it is read when it is asked for.
                let _spawned = thread::Builder::new().spawn_scoped(scope, read);
            }
            chain.read(tenant, number)
        });
        let mut room = READ_AHEAD_BYTES_MAX;
        for (number, found) in others {
            let Some(bytes) = found.into_inner() else { continue };
            self.largest = self.largest.max(bytes.len());
            let Some(left) = room.checked_sub(bytes.len()) else { break };
            room = left;
            self.read.insert(number, bytes);
        }
        own
    }

    /// How many records are read beside the one that is asked for.
    fn beside(&self) -> u64 {
        let fit = READ_AHEAD_BYTES_MAX / self.largest.max(1);
        fit.min(READ_AHEAD - 1) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::beat::Beat;
    use crate::edge::Edge;
    use crate::objects::Tried;

    /// Records 1 to a number that rises, and what was asked for.
    #[derive(Debug)]
    struct Counted {
        newest: Mutex<u64>,
        asked: Mutex<Vec<u64>>,
        /// Bytes of each record.
        bytes: usize,
    }

    impl Counted {
        fn of(newest: u64, bytes: usize) -> Self {
            Self { newest: Mutex::new(newest), asked: Mutex::default(), bytes }
        }
    }

    impl Chain for Counted {
        fn guards_edge(&self) -> bool {
            false
        }

        fn create(&self, _: &Tenant, _: u64, _: &[u8]) -> Tried {
            unreachable!("nothing is created here")
        }

        fn read(&self, _: &Tenant, number: u64) -> Result<Option<Vec<u8>>, Away> {
            self.asked.lock().unwrap().push(number);
            let is_there = (1..=*self.newest.lock().unwrap()).contains(&number);
            let mut bytes = number.to_le_bytes().to_vec();
            bytes.resize(self.bytes, 0);
            Ok(is_there.then_some(bytes))
        }

        fn age(&self, _: &Tenant, _: u64) -> Result<Option<Duration>, Away> {
            unreachable!("nobody asks how old one is")
        }

        fn numbers(&self, _: &Tenant, _: u64, _: usize) -> Result<Vec<u64>, Away> {
            unreachable!("nor listed")
        }

        fn edge(&self, _: &Tenant) -> Result<Edge, Away> {
            unreachable!("nor is there an edge")
        }

        fn raise_edge(&self, _: &Tenant, _: &Edge) -> Tried {
            unreachable!("nor is there an edge")
        }

        fn remove(&self, _: &Tenant, _: &[u64]) -> Result<(), Away> {
            unreachable!("nor is anything removed")
        }

        fn beat(&self, _: &Beat) -> Result<(), Away> {
            unreachable!("nobody lives here")
        }

        fn beats(&self) -> Result<Vec<Beat>, Away> {
            unreachable!("nobody lives here")
        }
    }

    fn read(ahead: &mut Ahead, chain: &Counted, number: u64) -> Option<u64> {
        let tenant = Tenant::new("local").unwrap();
        let bytes = ahead.read(number, &tenant, chain).unwrap();
        bytes.map(|bytes| u64::from_le_bytes(*bytes.first_chunk().unwrap()))
    }

    #[test]
    fn each_record_is_read_once_in_either_direction() {
        let chain = Counted::of(40, 8);
        let mut ahead = Ahead::default();
        for number in (11..=40).rev().chain(12..=40) {
            assert_eq!(read(&mut ahead, &chain, number), Some(number));
        }
        let mut asked = chain.asked.lock().unwrap().clone();
        let (first, second) = (asked.iter().filter(|&&n| n == 20).count(), asked.len());
        assert_eq!(first, 2, "down and up");
        // Some that nobody wanted, at both ends.
        assert!(second <= 59 + 2 * READ_AHEAD, "{second}");
        asked.sort_unstable();
        assert!(asked[0] > 0);
    }

    #[test]
    fn large_records_are_read_ahead_as_far_as_there_is_room() {
        for (bytes, most) in [(READ_AHEAD_BYTES_MAX / 3, 3), (READ_AHEAD_BYTES_MAX + 1, 0)] {
            let chain = Counted::of(30, bytes);
            let mut ahead = Ahead::default();
            for number in 1..=30 {
                assert_eq!(read(&mut ahead, &chain, number), Some(number));
                assert!(ahead.read.len() <= most, "{} of {bytes} bytes", ahead.read.len());
            }
            let mut asked = chain.asked.lock().unwrap().clone();
            asked.retain(|&number| number <= 30);
            assert_eq!(asked.len(), 30, "each once");
        }
        // The next ones are larger than those before.
        let chain = Counted::of(30, READ_AHEAD_BYTES_MAX / 2);
        let mut ahead = Ahead { largest: 8, ..Ahead::default() };
        ahead.read_on(10, &Tenant::new("local").unwrap(), &chain).unwrap();
        assert_eq!(ahead.read.keys().copied().collect::<Vec<_>>(), [8, 9], "those that come next");
    }

    #[test]
    fn that_a_record_is_not_there_is_asked_each_time() {
        let chain = Counted::of(10, 8);
        let mut ahead = Ahead::default();
        for number in 1..=10 {
            assert_eq!(read(&mut ahead, &chain, number), Some(number));
        }
        assert_eq!(read(&mut ahead, &chain, 11), None);
        *chain.newest.lock().unwrap() = 12;
        assert_eq!(read(&mut ahead, &chain, 11), Some(11), "it was made meanwhile");
        assert_eq!(read(&mut ahead, &chain, 12), Some(12));
    }
}
