//! A follower of a record log: reads the next records, and knows as of when its state is complete.
//!
//! A response counts only for a while after the reader was known to be at the newest record (REM-31). A reader that was
//! suspended for longer cannot distinguish a number never created from a removed one. Nor can it distinguish a valid
//! record from one that a suspended writer put into a gap. Such a reader searches for the newest record again.

use super::newest::{Found, Lost, Mark, find, newest_number, read};
use super::port::Port;
use crate::fault::Damage;
use crate::limits::{FOLLOW_BYTES_MAX, FOLLOW_RECORDS_MAX, FRESH_MAX};
use crate::objects::Away;
use crate::record::Record;
use crate::ticks::Ticks;

/// Position and freshness of a reader.
#[derive(Debug)]
pub struct Follower {
    /// Position up to which all records are applied.
    at: Option<Mark>,
    /// A time at which `at` or an earlier record was the newest; all records after `at` were made later.
    known: Option<Ticks>,
    /// A time such that all commits acknowledged before are applied.
    fresh: Option<Ticks>,
    /// Records that were handed out to be applied.
    ahead: Option<Ahead>,
    /// Number that was the newest at this time, while a poll ended before the number.
    target: Option<(u64, Ticks)>,
    /// Maximum count of records in one poll.
    most: usize,
}

#[derive(Debug)]
struct Ahead {
    to: Mark,
    /// A time at which `to` was the newest record, if known.
    newest_at: Option<Ticks>,
}

/// Outcome of a poll.
#[derive(Debug)]
pub enum Polled {
    /// There is no newer record.
    Newest,
    /// The log has no record.
    Empty,
    /// Records to apply, in this order; then call [`Follower::applied`]. The first record follows the last applied one,
    /// or is a full record, or is record 1.
    Records(Vec<Record>),
    /// The storage did not respond.
    Away(Away),
    /// The next record is invalid. The reader stays at its position.
    Damage(Damage),
}

/// Consecutive records, as far as one poll has read.
struct Batch {
    to: Mark,
    records: Vec<Record>,
    bytes: usize,
    most: usize,
}

/// Outcome of the read after a batch.
enum Next {
    /// There is no further record, as of this time.
    Nothing(Ticks),
    /// The batch has grown by one record.
    More,
    /// The response came too late to count.
    Late,
    /// The read failed.
    Lost(Lost),
}

impl Batch {
    fn is_full(&self) -> bool {
        self.records.len() >= self.most || self.bytes >= FOLLOW_BYTES_MAX
    }

    /// Reads the record after the batch. The response must arrive within [`FRESH_MAX`] of `known`.
    async fn read(&mut self, port: &Port, known: Ticks) -> Next {
        let before = port.now();
        let next = read(port, self.to.head.number + 1).await;
        if port.now() - known > FRESH_MAX {
            return Next::Late;
        }
        match next {
            Err(lost) => Next::Lost(lost),
            Ok(None) => Next::Nothing(before),
            Ok(Some((record, hash, bytes))) => {
                if let Err(damage) = record.check_after(&self.to.head, self.to.hash) {
                    return Next::Lost(damage.into());
                }
                self.to = Mark::new(&record, hash, bytes, Some(&self.to));
                self.bytes += bytes;
                self.records.push(record);
                Next::More
            }
        }
    }
}

impl Follower {
    /// Makes a reader whose store is at `at`, from an earlier run or from a former leadership. The age of this state is
    /// unknown.
    #[must_use]
    pub fn new(at: Option<Mark>) -> Self {
        let (known, fresh, ahead, target) = (None, None, None, None);
        Self { at, known, fresh, ahead, target, most: FOLLOW_RECORDS_MAX }
    }

    /// Limits each poll to `most` records.
    #[must_use]
    pub fn bringing(self, most: usize) -> Self {
        Self { most: most.clamp(1, FOLLOW_RECORDS_MAX), ..self }
    }

    /// Polls the log: reads on until there is no further record, or until the batch is full.
    pub async fn poll(&mut self, port: &Port) -> Polled {
        self.ahead = None;
        let (Some(at), Some(known)) = (&self.at, self.known) else {
            return self.begin(port).await;
        };
        let mut batch = Batch { to: at.clone(), records: Vec::new(), bytes: 0, most: self.most };
        let mut next = Next::More;
        while matches!(next, Next::More) && !batch.is_full() {
            next = batch.read(port, known).await;
        }
        let newest_at = match next {
            Next::Nothing(before) => Some(before),
            // The records that were read before are valid.
            _ if !batch.records.is_empty() => None,
            Next::Late | Next::More => return self.begin(port).await,
            Next::Lost(Lost::Away(away)) => return Polled::Away(away),
            Next::Lost(Lost::Damage(damage)) => return Polled::Damage(damage),
        };
        if batch.is_full() {
            self.aim(port, &batch.to, known).await;
        }
        self.ahead = Some(Ahead { to: batch.to, newest_at });
        if batch.records.is_empty() {
            self.applied();
            return Polled::Newest;
        }
        Polled::Records(batch.records)
    }

    /// Requests the newest number, so that a reader that is no faster than the writers still learns its freshness.
    async fn aim(&mut self, port: &Port, to: &Mark, known: Ticks) {
        if self.target.is_some() {
            return;
        }
        let newest = newest_number(port, to.head.number).await;
        // As with a record, a later response may concern records that were removed meanwhile.
        if port.now() - known <= FRESH_MAX {
            self.target = newest.ok().flatten();
        }
    }

    /// Starts at the newest record.
    async fn begin(&mut self, port: &Port) -> Polled {
        match find(port, self.at.as_ref()).await {
            Ok(Some(found)) => self.start(found),
            Ok(None) => Polled::Empty,
            Err(Lost::Away(away)) => Polled::Away(away),
            Err(Lost::Damage(damage)) => Polled::Damage(damage),
        }
    }

    /// Starts with `found`, the result of a search from this reader's position, or without a position if this reader
    /// has none.
    pub fn start(&mut self, found: Found) -> Polled {
        let Found { newest, as_of, records } = found;
        self.ahead = Some(Ahead { to: newest, newest_at: Some(as_of) });
        if records.is_empty() {
            self.applied();
            return Polled::Newest;
        }
        Polled::Records(records)
    }

    /// Notes that all records of the last poll are applied and visible.
    pub fn applied(&mut self) {
        let Some(Ahead { to, newest_at }) = self.ahead.take() else { return };
        let number = to.head.number;
        self.at = Some(to);
        let reached = self.target.take_if(|(target, _)| *target <= number);
        let newest_at = newest_at.max(reached.map(|(_, as_of)| as_of));
        self.known = self.known.max(newest_at);
        self.fresh = self.fresh.max(newest_at);
    }

    /// Drops the records of the last poll, which could not be applied because an object is gone. The next poll must
    /// search for the newest record.
    pub fn begin_again(&mut self) {
        (self.ahead, self.known, self.target) = (None, None, None);
    }

    /// Position up to which all records are applied.
    #[must_use]
    pub fn at(&self) -> Option<&Mark> {
        self.at.as_ref()
    }

    /// A time such that all commits acknowledged before are applied; `None` if unknown. Reads are as old as this time,
    /// and no older.
    #[must_use]
    pub fn fresh(&self) -> Option<Ticks> {
        self.fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Answer, Ask, Machine, Step};
    use crate::hex::{Hash, Hex, Nonce};
    use crate::names::{NodeId, Tenant};
    use crate::record::{Head, Kind};

    /// An acquire record that follows the record with this hash.
    fn take(number: u64, previous: Hash) -> (Record, Hash, Vec<u8>) {
        let head = Head {
            number,
            tenant: Tenant::new("local").unwrap(),
            store: Nonce::NONE,
            epoch: number,
            node: NodeId::new("n1").unwrap(),
            run: Hex([1; 16]),
            url: String::new(),
            nonce: Hex([2; 16]),
            at: 5,
            previous,
            base: 0,
            seq: 0,
        };
        let record = Record { head, kind: Kind::Take };
        let (bytes, hash) = record.encode().unwrap();
        (record, hash, bytes)
    }

    fn at_first() -> Follower {
        let (record, hash, bytes) = take(1, Hash::NONE);
        let known = Some(Ticks(1));
        let mark = Mark::new(&record, hash, bytes.len(), None);
        Follower { known, fresh: known, ..Follower::new(Some(mark)) }
    }

    /// Polls once at time `now`. `chain` returns the record of each number.
    fn look(
        follower: &mut Follower,
        now: Ticks,
        mut chain: impl FnMut(u64) -> Option<Vec<u8>>,
        newest: u64,
    ) -> Polled {
        let tenant = Tenant::new("local").unwrap();
        let mut machine = Machine::new(tenant, false, async move |port: std::rc::Rc<Port>| {
            follower.poll(&port).await
        });
        let mut answer = None;
        loop {
            match machine.step(answer, now) {
                Step::Done(polled) => return polled,
                Step::Ask(Ask::Read(number)) => answer = Some(Answer::Bytes(Ok(chain(number)))),
                Step::Ask(Ask::Numbers { after, most }) => {
                    let numbers = (after + 1..=newest).take(most).collect();
                    answer = Some(Answer::Numbers(Ok(numbers)));
                }
                Step::Ask(ask) => panic!("{ask:?}"),
            }
        }
    }

    /// Polls a log whose record 2 is `second`, with no record after it.
    fn look_at_second(follower: &mut Follower, second: Option<Vec<u8>>) -> Polled {
        let chain = |number| second.clone().filter(|_| number == 2);
        look(follower, Ticks(2), chain, 2)
    }

    #[test]
    fn what_follows_is_handed_out_and_what_does_not_is_damage() {
        let (_, first, _) = take(1, Hash::NONE);
        let mut follower = at_first();
        assert!(matches!(look_at_second(&mut follower, None), Polled::Newest));
        let (_, _, stranger) = take(2, Hash::of(b"other"));
        let Polled::Damage(damage) = look_at_second(&mut follower, Some(stranger)) else {
            panic!()
        };
        assert_eq!(damage.rule, "REM-04");
        follower.applied();
        assert_eq!(follower.at().unwrap().head.number, 1);
        let (_, _, next) = take(2, first);
        assert!(matches!(look_at_second(&mut follower, Some(next)), Polled::Records(_)));
        follower.applied();
        assert_eq!(follower.at().unwrap().head.number, 2);
    }

    /// A log of acquire records without an end.
    fn endless() -> impl FnMut(u64) -> Option<Vec<u8>> {
        let mut hashes = vec![Hash::NONE];
        move |number| {
            let number_before = usize::try_from(number).unwrap() - 1;
            while hashes.len() <= number_before {
                let next = hashes.len();
                let (_, hash, _) = take(next as u64, hashes[next - 1]);
                hashes.push(hash);
            }
            Some(take(number, hashes[number_before]).2)
        }
    }

    #[test]
    fn a_look_reads_on_until_there_is_nothing() {
        let mut follower = at_first();
        let mut chain = endless();
        let polled = look(&mut follower, Ticks(9), |n| (n <= 40).then(|| chain(n)).flatten(), 40);
        let Polled::Records(records) = polled else { panic!("{polled:?}") };
        assert_eq!(records.len(), 39);
        assert_eq!(follower.fresh(), Some(Ticks(1)), "nothing is applied yet");
        follower.applied();
        assert_eq!(follower.fresh(), Some(Ticks(9)));
    }

    #[test]
    fn behind_a_writer_that_never_pauses_a_reader_gets_fresher() {
        let mut follower = at_first().bringing(10);
        let mut chain = endless();
        let mut fresh = Vec::new();
        for look_number in 1..=10 {
            // There is always one more record, and the newest is 25 records after the batch.
            let at = follower.at().unwrap().head.number;
            let polled = look(&mut follower, Ticks(look_number * 100), &mut chain, at + 35);
            let Polled::Records(records) = polled else { panic!("{polled:?}") };
            assert_eq!(records.len(), 10);
            follower.applied();
            fresh.push(follower.fresh().unwrap().0);
        }
        assert_eq!(fresh, [1, 1, 1, 100, 100, 100, 100, 500, 500, 500]);
    }

    #[test]
    fn what_came_late_is_left_out_of_a_look_and_looked_for_anew() {
        let mut follower = at_first();
        let mut chain = endless();
        let tenant = Tenant::new("local").unwrap();
        let read = &mut follower;
        let mut machine = Machine::new(tenant, false, async move |port: std::rc::Rc<Port>| {
            read.poll(&port).await
        });
        let (mut answer, mut now) = (None, Ticks(2));
        let polled = loop {
            match machine.step(answer, now) {
                Step::Done(polled) => break polled,
                Step::Ask(Ask::Read(number)) => {
                    if number == 4 {
                        now = Ticks(3) + FRESH_MAX;
                    }
                    answer = Some(Answer::Bytes(Ok(chain(number))));
                }
                Step::Ask(ask) => panic!("{ask:?}"),
            }
        };
        drop(machine);
        let Polled::Records(records) = polled else { panic!("{polled:?}") };
        assert_eq!(records.len(), 2);
        follower.applied();
        assert_eq!(follower.fresh(), Some(Ticks(1)));
    }
}
