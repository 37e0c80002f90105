//! A reader that keeps up with a chain: what comes next, and as of when it has all there is.
//!
//! An answer is believed only for a while after the reader knew that it was at the newest record (REM-31):
//! whoever slept longer cannot tell a number that was never made from one that was removed, nor a record from
//! what a stopped writer put into a hole. It looks for the newest record again.

use super::newest::{Found, Lost, Mark, find, newest_number, read};
use super::port::Port;
use crate::fault::Damage;
use crate::limits::{FOLLOW_BYTES_MAX, FOLLOW_RECORDS_MAX, FRESH_MAX};
use crate::objects::Away;
use crate::record::Record;
use crate::ticks::Ticks;

/// Where a reader is.
#[derive(Debug)]
pub struct Follower {
    /// The record up to which all is applied.
    at: Option<Mark>,
    /// A moment at which `at` or one before it was the newest record, so that what is behind it was made later.
    known: Option<Ticks>,
    /// A moment at which all that was acknowledged was in what is applied.
    fresh: Option<Ticks>,
    /// What was handed out to be applied.
    ahead: Option<Ahead>,
    /// A number that was the newest at that moment, while a look ended before it.
    target: Option<(u64, Ticks)>,
    /// Records of one look.
    most: usize,
}

#[derive(Debug)]
struct Ahead {
    to: Mark,
    /// A moment at which `to` was the newest record, where that is known.
    newest_at: Option<Ticks>,
}

/// What a look brought.
#[derive(Debug)]
pub enum Polled {
    /// Nothing newer.
    Newest,
    /// The chain has no record.
    Empty,
    /// What must be applied, in this order; then [`Follower::applied`]. The first follows what was applied
    /// before, or is full and stands for itself, or is record 1.
    Records(Vec<Record>),
    /// No answer.
    Away(Away),
    /// What comes next is not what it must be. The reader stays where it is.
    Damage(Damage),
}

/// Records that follow one another, as far as one look went.
struct Batch {
    to: Mark,
    records: Vec<Record>,
    bytes: usize,
    most: usize,
}

/// What is behind a batch.
enum Next {
    /// Nothing, as of a moment.
    Nothing(Ticks),
    /// One more record, which is in it.
    More,
    /// What came is not to be believed any more.
    Late,
    /// Nobody knows.
    Lost(Lost),
}

impl Batch {
    fn is_full(&self) -> bool {
        self.records.len() >= self.most || self.bytes >= FOLLOW_BYTES_MAX
    }

    /// Reads the record behind it, which must come within [`FRESH_MAX`] of `known`.
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
    /// A reader whose store is as of `at`: of an earlier run, or of a writer that it was. It knows nothing
    /// about how old that is.
    #[must_use]
    pub fn new(at: Option<Mark>) -> Self {
        let (known, fresh, ahead, target) = (None, None, None, None);
        Self { at, known, fresh, ahead, target, most: FOLLOW_RECORDS_MAX }
    }

    /// One look of it brings so many records at the most.
    #[must_use]
    pub fn bringing(self, most: usize) -> Self {
        Self { most: most.clamp(1, FOLLOW_RECORDS_MAX), ..self }
    }

    /// Looks whether there is more: reads on until there is nothing, or until it is much.
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
            // What came before is right.
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

    /// Asks for the newest number, so that who reads no faster than others write knows as of when it has all.
    async fn aim(&mut self, port: &Port, to: &Mark, known: Ticks) {
        if self.target.is_some() {
            return;
        }
        let newest = newest_number(port, to.head.number).await;
        // As with a record: later, what was asked for may have been removed.
        if port.now() - known <= FRESH_MAX {
            self.target = newest.ok().flatten();
        }
    }

    /// Looks for the newest record.
    async fn begin(&mut self, port: &Port) -> Polled {
        match find(port, self.at.as_ref()).await {
            Ok(Some(found)) => self.start(found),
            Ok(None) => Polled::Empty,
            Err(Lost::Away(away)) => Polled::Away(away),
            Err(Lost::Damage(damage)) => Polled::Damage(damage),
        }
    }

    /// Begins with what was found by somebody who is nowhere, as this reader is, or is where it is.
    pub fn start(&mut self, found: Found) -> Polled {
        let Found { newest, as_of, records } = found;
        self.ahead = Some(Ahead { to: newest, newest_at: Some(as_of) });
        if records.is_empty() {
            self.applied();
            return Polled::Newest;
        }
        Polled::Records(records)
    }

    /// All records of the last look are applied and shown.
    pub fn applied(&mut self) {
        let Some(Ahead { to, newest_at }) = self.ahead.take() else { return };
        let number = to.head.number;
        self.at = Some(to);
        let reached = self.target.take_if(|(target, _)| *target <= number);
        let newest_at = newest_at.max(reached.map(|(_, as_of)| as_of));
        self.known = self.known.max(newest_at);
        self.fresh = self.fresh.max(newest_at);
    }

    /// What the last look brought could not be applied, since an object of it is gone: what is newest now
    /// must be looked for.
    pub fn begin_again(&mut self) {
        (self.ahead, self.known, self.target) = (None, None, None);
    }

    /// The record up to which all is applied.
    #[must_use]
    pub fn at(&self) -> Option<&Mark> {
        self.at.as_ref()
    }

    /// A moment of which all that was acknowledged before it is applied; `None` where none is known. What
    /// is answered is as old as that, and no older.
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

    /// A take, which follows a record with this hash.
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

    /// One look at a time, at which `chain` tells what each number is.
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

    /// A look at which record 2 is this, and none is behind it.
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

    /// A chain of takes, as long as it is asked for.
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
            // There is always one more, and the newest is 25 ahead.
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
