//! A reader that keeps up with a chain: what comes next, and as of when it has all there is.
//!
//! An answer is believed only for a while after the reader knew that it was at the newest record (REM-31):
//! whoever slept longer cannot tell a number that was never made from one that was removed, nor a record from
//! what a stopped writer put into a hole. It looks for the newest record again.

use super::newest::{Found, Lost, Mark, find, read};
use super::port::Port;
use crate::fault::Damage;
use crate::limits::FRESH_MAX;
use crate::objects::Away;
use crate::record::Record;
use crate::ticks::Ticks;

/// Where a reader is.
#[derive(Debug)]
pub struct Follower {
    /// The record up to which all is applied.
    at: Option<Mark>,
    /// A moment at which `at` was the newest record, so that what is behind it was made later.
    known: Option<Ticks>,
    /// A moment at which all that was acknowledged was in what is applied.
    fresh: Option<Ticks>,
    /// What was handed out to be applied.
    ahead: Option<Ahead>,
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

impl Follower {
    /// A reader whose store is as of `at`: of an earlier run, or of a writer that it was. It knows nothing
    /// about how old that is.
    #[must_use]
    pub fn new(at: Option<Mark>) -> Self {
        Self { at, known: None, fresh: None, ahead: None }
    }

    /// Looks whether there is more.
    pub async fn poll(&mut self, port: &Port) -> Polled {
        self.ahead = None;
        let (Some(at), Some(known)) = (&self.at, self.known) else {
            return self.begin(port).await;
        };
        let before = port.now();
        let next = read(port, at.head.number + 1).await;
        if port.now() - known > FRESH_MAX {
            return self.begin(port).await;
        }
        match next {
            Err(Lost::Away(away)) => Polled::Away(away),
            Err(Lost::Damage(damage)) => Polled::Damage(damage),
            Ok(None) => {
                (self.known, self.fresh) = (Some(before), Some(before));
                Polled::Newest
            }
            Ok(Some((record, hash, bytes))) => match record.check_after(&at.head, at.hash) {
                Err(damage) => Polled::Damage(damage),
                Ok(()) => {
                    let to = Mark::new(&record, hash, bytes, Some(at));
                    self.ahead = Some(Ahead { to, newest_at: None });
                    Polled::Records(vec![record])
                }
            },
        }
    }

    /// Looks for the newest record.
    async fn begin(&mut self, port: &Port) -> Polled {
        let Found { newest, as_of, records } = match find(port, self.at.as_ref()).await {
            Ok(Some(found)) => found,
            Ok(None) => return Polled::Empty,
            Err(Lost::Away(away)) => return Polled::Away(away),
            Err(Lost::Damage(damage)) => return Polled::Damage(damage),
        };
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
        self.at = Some(to);
        if newest_at.is_some() {
            self.known = newest_at;
            self.fresh = self.fresh.max(newest_at);
        }
    }

    /// What the last look brought could not be applied, since an object of it is gone: what is newest now
    /// must be looked for.
    pub fn begin_again(&mut self) {
        (self.ahead, self.known) = (None, None);
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
        Follower { at: Some(mark), known, fresh: known, ahead: None }
    }

    /// One look, at which record 2 is this.
    fn look(follower: &mut Follower, second: Option<Vec<u8>>) -> Polled {
        let tenant = Tenant::new("local").unwrap();
        let mut machine = Machine::new(tenant, false, async move |port: std::rc::Rc<Port>| {
            follower.poll(&port).await
        });
        let mut answer = None;
        loop {
            match machine.step(answer, Ticks(2)) {
                Step::Done(polled) => return polled,
                Step::Ask(Ask::Read(2)) => answer = Some(Answer::Bytes(Ok(second.clone()))),
                Step::Ask(ask) => panic!("{ask:?}"),
            }
        }
    }

    #[test]
    fn what_follows_is_handed_out_and_what_does_not_is_damage() {
        let (_, first, _) = take(1, Hash::NONE);
        let mut follower = at_first();
        assert!(matches!(look(&mut follower, None), Polled::Newest));
        let (_, _, stranger) = take(2, Hash::of(b"other"));
        let Polled::Damage(damage) = look(&mut follower, Some(stranger)) else { panic!() };
        assert_eq!(damage.rule, "REM-04");
        follower.applied();
        assert_eq!(follower.at().unwrap().head.number, 1);
        let (_, _, next) = take(2, first);
        assert!(matches!(look(&mut follower, Some(next)), Polled::Records(_)));
        follower.applied();
        assert_eq!(follower.at().unwrap().head.number, 2);
    }
}
