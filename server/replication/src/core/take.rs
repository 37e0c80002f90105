//! Acquisition of a workspace by a node: the node's right to try, and the outcome of its attempt at the next number.

use std::sync::Arc;
use std::time::Duration;

use super::create::{Created, Place, create};
use super::holder::{Holder, Stamp, Writer, take_head};
use super::lapse::Observer;
use super::newest::{Found, Given, Lost, Mark};
use super::port::Port;
use crate::hex::{Hash, Nonce};
use crate::record::{Kind, Record};
use crate::ticks::Ticks;

/// Knowledge of a node that wants to lead a workspace; lasts from one attempt to the next.
#[derive(Debug)]
pub struct Claim {
    writer: Writer,
    lease: Duration,
    /// Newest record, and the time since which it is known as the newest.
    known: Option<(Hash, Ticks)>,
}

/// Outcome of an attempt.
#[derive(Debug)]
pub enum Took {
    /// The workspace is acquired. Before the local store is opened, it must be caught up with all records that were
    /// found.
    Held(Box<Holder>),
    /// The log advanced meanwhile. Its head must be found again.
    Again,
    /// The outcome is unknown. The head of the log must be found again.
    Unsure(String),
    /// The storage refuses the record.
    Refused(String),
    /// The log is invalid.
    Lost(Lost),
}

impl Claim {
    /// Makes the claim of a node. If a release names another node, `lease` is how long this node waits.
    #[must_use]
    pub fn new(writer: Writer, lease: Duration) -> Self {
        Self { writer, lease, known: None }
    }

    /// Notes that `newest` has been the newest record since `since`. Waits count from `since`, or from an earlier
    /// report of the same record. Returns the time from which waits count.
    pub fn saw(&mut self, newest: &Mark, since: Ticks) -> Ticks {
        match self.known {
            Some((hash, since)) if hash == newest.hash => since,
            _ => self.known.insert((newest.hash, since)).1,
        }
    }

    /// Returns true if the writer of the newest record leaves the workspace to this node. An operator may decide
    /// otherwise.
    ///
    /// Heartbeats count only if they were requested after the record was found: a writer that was dead before may have
    /// come back and written the record.
    pub fn may_take(&mut self, found: &Found, observer: &Observer, now: Ticks) -> bool {
        let (newest, head) = (&found.newest, &found.newest.head);
        let known = self.saw(newest, now);
        match &newest.given {
            Some(Given { to: Some(to) }) if *to != self.writer.node => now - known > self.lease,
            Some(_) => true,
            // The record is of an earlier run of this node, or of an ended epoch of this run.
            None if head.node == self.writer.node => true,
            None => {
                observer.looked() > Some(found.as_of)
                    && observer.has_lapsed(&head.node, head.run, known)
            }
        }
    }

    /// Tries to acquire the workspace whose newest record was found. If the log has no record, `store` is the id of a
    /// new store.
    ///
    /// Before the call, the node must have a confirmed heartbeat ([`Beating::held`](super::Beating::held)), have the
    /// lock of the directory, and have closed its previous store.
    pub async fn take(
        &self,
        port: &Port,
        found: Option<&Found>,
        store: Nonce,
        stamp: Stamp,
    ) -> Took {
        let newest = found.map(|found| &found.newest);
        let head = take_head(port, newest, &self.writer, store, stamp);
        let record = Record { head, kind: Kind::Take };
        let (bytes, hash): (Arc<[u8]>, _) = match record.encode() {
            Ok((bytes, hash)) => (bytes.into(), hash),
            Err(damage) => return Took::Lost(damage.into()),
        };
        let mark = Mark::new(&record, hash, bytes.len(), newest);
        let known = found.map_or(Ticks(0), |found| found.as_of);
        let sent = port.now();
        match create(port, mark.head.number, &bytes, known, false).await {
            Created::Mine => {}
            // The number was created by the previous epoch, which is alive, or by another node.
            Created::Taken(_) | Created::Below => return Took::Again,
            Created::Refused(why) => return Took::Refused(why),
            Created::Unsure(why) => return Took::Unsure(why),
        }
        // The record is read once in any case: this detects a store that reports success and has another node's record.
        match (Place::Record(mark.head.number)).read(port).await {
            Ok(Some(there)) if there == *bytes => {}
            Ok(_) => return Took::Again,
            Err(away) => return Took::Unsure(away.why),
        }
        Took::Held(Box::new(Holder::new(self.writer.clone(), mark, sent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::Hex;
    use crate::names::{NodeId, Tenant};
    use crate::record::Head;

    fn writer(node: &str) -> Writer {
        Writer { node: NodeId::new(node).unwrap(), run: Hex([1; 16]), url: String::new() }
    }

    /// Head of the log as found at this second: an acquire record by `n1`.
    fn found_at(second: u64) -> Found {
        let Writer { node, run, url } = writer("n1");
        let head = Head {
            number: 1,
            tenant: Tenant::new("local").unwrap(),
            store: Nonce::NONE,
            epoch: 1,
            node,
            run,
            url,
            nonce: Hex([2; 16]),
            at: 5,
            previous: Hash::NONE,
            base: 0,
            seq: 0,
        };
        let record = Record { head, kind: Kind::Take };
        let newest = Mark::new(&record, Hash::NONE, 100, None);
        Found { newest, as_of: at(second), records: Vec::new() }
    }

    fn at(second: u64) -> Ticks {
        Ticks(second * 1_000_000_000)
    }

    #[test]
    fn only_a_look_after_the_record_was_found_tells_that_its_writer_is_gone() {
        let mut claim = Claim::new(writer("n2"), Duration::from_secs(10));
        let mut observer = Observer::default();
        observer.saw(Vec::new(), at(4), at(4));
        // The writer may have come back after that scan and written the record.
        assert!(!claim.may_take(&found_at(5), &observer, at(6)));
        observer.saw(Vec::new(), at(6), at(6));
        assert!(claim.may_take(&found_at(5), &observer, at(6)));
        let mut of_the_writer = Claim::new(writer("n1"), Duration::from_secs(10));
        assert!(of_the_writer.may_take(&found_at(7), &observer, at(7)));
    }

    #[test]
    fn what_is_given_to_a_node_that_never_comes_is_free_after_a_lease() {
        let given = |to: &str| {
            let found = found_at(1);
            let given = Some(Given { to: NodeId::new(to).ok() });
            Found { newest: Mark { given, ..found.newest }, ..found }
        };
        let observer = Observer::default();
        let mut claim = Claim::new(writer("n2"), Duration::from_secs(10));
        for second in [100, 105, 110] {
            assert!(!claim.may_take(&given("n9"), &observer, at(second)), "{second}");
        }
        assert!(claim.may_take(&given("n9"), &observer, at(111)));
        assert!(claim.may_take(&given("n2"), &observer, at(100)), "it is its own");
        assert!(claim.may_take(&given(""), &observer, at(100)), "it is anybody's");
        // The release was first observed at second 100, before this claim checked it.
        let mut later = Claim::new(writer("n2"), Duration::from_secs(10));
        later.saw(&given("n9").newest, at(100));
        later.saw(&given("n9").newest, at(108));
        assert!(later.may_take(&given("n9"), &observer, at(111)));
    }

    #[test]
    fn a_writer_that_beats_is_not_taken_from() {
        let mut claim = Claim::new(writer("n2"), Duration::from_secs(10));
        let mut observer = Observer::default();
        let Writer { node, run, url } = writer("n1");
        let beat = crate::beat::Beat { node, run, count: 1, url, lease_s: 8 };
        for second in (2..=12).step_by(2) {
            observer.saw(vec![beat.clone()], at(second), at(second));
            assert!(!claim.may_take(&found_at(1), &observer, at(second)));
        }
        observer.saw(vec![beat], at(14), at(14));
        assert!(claim.may_take(&found_at(1), &observer, at(14)));
    }
}
