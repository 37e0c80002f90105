//! Readahead along a record log.
//!
//! A protocol task reads one record after another, and each request takes long. After a few reads in one direction, the
//! next records in that direction are read in parallel. An existing record never changes, so it may be cached. The
//! absence of a record may change at any time, so a missing record is read again when the task asks for it.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::thread;

use crate::chain::Chain;
use crate::limits::{READ_AHEAD, READ_AHEAD_AFTER, READ_AHEAD_BYTES_MAX};
use crate::names::Tenant;
use crate::objects::Away;

/// Records read ahead for one task.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    read: BTreeMap<u64, Vec<u8>>,
    last: Option<u64>,
    /// Direction of the last two reads; `run` is the number of reads in that direction.
    upward: bool,
    run: u32,
    /// Bytes of the largest record of that run.
    largest: usize,
}

impl Ahead {
    /// Reads a record, as [`Chain::read`] does.
    ///
    /// # Errors
    /// The storage did not respond.
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

    /// Reads this record and the next ones in the direction: as many as fit if none is larger than the records before.
    /// If they are larger, only the next ones that fit are cached.
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
                // If no thread can be spawned, the record is read when the task asks for it.
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

    /// Number of records to read in addition to the requested one.
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

    /// Record log from 1 to a rising number, which counts reads.
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
        // A few unneeded records are read at both ends.
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
        // Later records are larger than the ones before.
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
