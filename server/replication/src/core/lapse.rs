//! Leases, from both sides: how long a node may consider itself alive, and when another node may consider it dead
//! (REM-41, REM-42). Each node counts on its own clock; times of different clocks are never compared.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::beat::Beat;
use crate::hex::Nonce;
use crate::limits::{LEASE_SECONDS, NODES_MAX, RUNS_BEFORE_MAX};
use crate::names::NodeId;
use crate::ticks::Ticks;

/// Heartbeats and lease window of this node.
#[derive(Debug)]
pub struct Beating {
    next: Beat,
    held: Option<Held>,
}

/// Lease window: the contiguous span in which no other node may consider this node dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Start, inclusive.
    pub since: Ticks,
    /// End, exclusive.
    pub until: Ticks,
}

impl Beating {
    /// Starts the heartbeats of a new run, which count from `first.count`.
    #[must_use]
    pub fn new(first: Beat) -> Self {
        Self { next: first, held: None }
    }

    /// Duration for which a heartbeat is valid.
    #[must_use]
    pub fn lease(&self) -> Duration {
        lease_of(&self.next)
    }

    /// Interval between heartbeats, a fifth of the lease.
    #[must_use]
    pub fn pace(&self) -> Duration {
        self.lease() / 5
    }

    /// Returns the next heartbeat, to be published now, and the time to pass to [`Beating::confirmed`] once it is
    /// confirmed.
    pub fn next(&mut self, now: Ticks) -> (Beat, Ticks) {
        let beat = self.next.clone();
        self.next.count += 1;
        (beat, now)
    }

    /// Notes that the heartbeat sent just after `sent` was confirmed just before `now`.
    ///
    /// Other nodes may have received the heartbeat as late as `now`. If the window had not ended by then, it is
    /// extended. Otherwise a new window starts at `now`, and another node may have considered this node dead in
    /// between.
    pub fn confirmed(&mut self, sent: Ticks, now: Ticks) {
        let until = sent + self.lease();
        self.held = match self.held {
            Some(Held { since, until: old }) if now <= old => {
                Some(Held { since, until: until.max(old) })
            }
            _ => Some(Held { since: now, until }),
        };
    }

    /// Current lease window, counted from before the newest confirmed heartbeat was sent. `None` before the first
    /// confirmation.
    #[must_use]
    pub fn held(&self) -> Option<Held> {
        self.held
    }
}

impl Held {
    /// Returns true if a writer whose newest record was in the log at `known` ([`Holder::known`](super::Holder::known))
    /// still has the workspace, so that its state is complete.
    ///
    /// If the lease expired in between, another node may have started to acquire the workspace. Only a further record
    /// shows that none did.
    #[must_use]
    pub fn covers(&self, known: Ticks, now: Ticks) -> bool {
        self.since <= known && now < self.until
    }

    /// Duration for which other nodes may have written the workspace of such a writer; `None` while the writer still
    /// has it alone. `held` is the newest window, if a heartbeat was ever confirmed. A window that began after `known`
    /// proves nothing about the time before.
    #[must_use]
    pub fn lapsed_for(held: Option<Self>, known: Ticks, now: Ticks) -> Option<Duration> {
        match held {
            Some(held) if held.covers(known, now) => None,
            Some(held) if held.since <= known => Some(now - held.until.max(known)),
            _ => Some(now - known),
        }
    }
}

/// Heartbeats of other nodes, as observed by this node.
#[derive(Debug, Default, Clone)]
pub struct Observer {
    seen: BTreeMap<NodeId, Seen>,
    looked: Option<Look>,
}

/// Times at which the newest scan began, and at which its response was complete.
#[derive(Debug, Clone, Copy)]
struct Look {
    began: Ticks,
    ended: Ticks,
}

#[derive(Debug, Clone)]
struct Seen {
    run: Nonce,
    count: u64,
    lease: Duration,
    /// Times at which the heartbeat was first seen in its current state, and first seen at all.
    since: Ticks,
    first: Ticks,
    /// Earlier runs, each with the time at which another run was first seen in its place.
    before: VecDeque<(Nonce, Ticks)>,
}

impl Observer {
    /// Interval between scans: a quarter of the shortest lease that may still be valid. Observation restarts only after
    /// half a lease without a scan, so a margin of the same length remains. `own` is the lease of this node; leases of
    /// expired nodes do not count.
    #[must_use]
    pub fn pace(&self, own: Duration) -> Duration {
        let lives = |seen: &&Seen| self.looked().is_some_and(|began| !seen.has_stood_still(began));
        let leases = self.seen.values().filter(lives).map(|seen| seen.lease);
        leases.fold(own, Duration::min) / 4
    }

    /// Records a scan: the heartbeats of all nodes, requested just after `began` and complete just before `now`. Each
    /// heartbeat was read at some time in between.
    ///
    /// If two scans are more than half a lease apart, observation restarts, since a heartbeat may have arrived just
    /// now. A scan that began before the newest scan is ignored.
    pub fn saw(&mut self, beats: Vec<Beat>, began: Ticks, now: Ticks) {
        if self.looked() > Some(began) {
            return;
        }
        let last = self.looked.replace(Look { began, ended: now }).map(|last| last.ended);
        let mut before = std::mem::take(&mut self.seen);
        for beat in beats.into_iter().take(NODES_MAX) {
            let lease = lease_of(&beat);
            let is_watched = last.is_some_and(|last| now - last <= lease / 2);
            let old = before.remove(&beat.node).filter(|_| is_watched);
            let mut seen = old.unwrap_or_else(|| Seen::new(&beat, now));
            seen.lease = lease;
            seen.goes_on(&beat, now);
            self.seen.insert(beat.node, seen);
        }
    }

    /// Start of the newest scan of all heartbeats, which includes all heartbeats published before.
    #[must_use]
    pub fn looked(&self) -> Option<Ticks> {
        self.looked.map(|look| look.began)
    }

    /// Lease in the newest heartbeat of a node, if the node has one.
    #[must_use]
    pub fn lease(&self, node: &NodeId) -> Option<Duration> {
        self.seen.get(node).map(|seen| seen.lease)
    }

    /// Returns true if that run of the node has expired, as of the last scan. A run has expired if the node has no
    /// heartbeat. Otherwise, for one and a quarter of the lease, the run's heartbeat must have been unchanged, or other
    /// runs must have replaced it. `known` is a time by which the run was known to have existed.
    #[must_use]
    pub fn has_lapsed(&self, node: &NodeId, run: Nonce, known: Ticks) -> bool {
        let Some(began) = self.looked() else { return false };
        let Some(seen) = self.seen.get(node) else { return true };
        if seen.run == run {
            return seen.has_stood_still(began);
        }
        let left = seen.before.iter().find(|(before, _)| *before == run).map(|(_, left)| *left);
        // A run that was never seen may be the newest one. Its absence counts from `known`, and from no earlier than
        // the node was first seen.
        let left = left.unwrap_or_else(|| seen.first.max(known));
        seen.is_over(left, began)
    }
}

impl Seen {
    fn new(beat: &Beat, now: Ticks) -> Self {
        Self {
            run: beat.run,
            count: beat.count,
            lease: lease_of(beat),
            since: now,
            first: now,
            before: VecDeque::new(),
        }
    }

    fn goes_on(&mut self, beat: &Beat, now: Ticks) {
        if self.run != beat.run {
            if self.before.len() >= RUNS_BEFORE_MAX {
                self.before.pop_front();
            }
            self.before.push_back((self.run, now));
            // Two processes may use the same node name.
            self.before.retain(|(run, _)| *run != beat.run);
            (self.run, self.since) = (beat.run, now);
        } else if self.count != beat.count {
            self.since = now;
        }
        self.count = beat.count;
    }

    fn has_stood_still(&self, now: Ticks) -> bool {
        self.is_over(self.since, now)
    }

    fn is_over(&self, since: Ticks, now: Ticks) -> bool {
        now - since > self.lease + self.lease / 4
    }
}

fn lease_of(beat: &Beat) -> Duration {
    let seconds = beat.lease_s.clamp(*LEASE_SECONDS.start(), *LEASE_SECONDS.end());
    Duration::from_secs(seconds.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(run: u8, count: u64) -> Beat {
        let node = NodeId::new("n1").unwrap();
        Beat { node, run: crate::hex::Hex([run; 16]), count, url: String::new(), lease_s: 8 }
    }

    fn at(second: u64) -> Ticks {
        Ticks(second * 1_000_000_000)
    }

    /// Records a scan that takes no time.
    fn saw(observer: &mut Observer, beats: Vec<Beat>, second: u64) {
        observer.saw(beats, at(second), at(second));
    }

    /// Scans every two seconds of `seconds`, with the same heartbeats each time.
    fn look(
        observer: &mut Observer,
        seconds: std::ops::RangeInclusive<u64>,
        beats: &[Beat],
    ) -> bool {
        seconds.step_by(2).for_each(|second| saw(observer, beats.to_vec(), second));
        has_lapsed(observer, 1, 0)
    }

    fn has_lapsed(observer: &Observer, run: u8, known: u64) -> bool {
        observer.has_lapsed(&NodeId::new("n1").unwrap(), crate::hex::Hex([run; 16]), at(known))
    }

    #[test]
    fn a_beat_that_stands_still_has_lapsed_after_a_lease_and_a_quarter() {
        let mut observer = Observer::default();
        assert!(!has_lapsed(&observer, 0, 0), "nobody looked");
        assert!(!look(&mut observer, 0..=10, &[beat(1, 1)]));
        assert!(!look(&mut observer, 12..=22, &[beat(1, 2)]));
        assert!(look(&mut observer, 24..=24, &[beat(1, 2)]));
        assert!(!look(&mut observer, 26..=26, &[beat(1, 3)]));
        assert!(look(&mut observer, 28..=28, &[]), "there is none");
    }

    #[test]
    fn time_in_which_nobody_looked_does_not_count() {
        let mut observer = Observer::default();
        assert!(!look(&mut observer, 0..=2, &[beat(1, 1)]));
        assert!(!look(&mut observer, 60..=70, &[beat(1, 1)]));
        assert!(look(&mut observer, 72..=72, &[beat(1, 1)]));
    }

    #[test]
    fn looks_come_as_often_as_the_shortest_lease_wants_them() {
        let mut observer = Observer::default();
        assert_eq!(observer.pace(Duration::from_secs(60)), Duration::from_secs(15));
        let other = Beat { node: NodeId::new("n2").unwrap(), lease_s: 40, ..beat(2, 1) };
        saw(&mut observer, vec![other.clone()], 1);
        assert_eq!(observer.pace(Duration::from_secs(60)), Duration::from_secs(10));
        saw(&mut observer, vec![other.clone(), beat(1, 1)], 2);
        assert_eq!(observer.pace(Duration::from_secs(60)), Duration::from_secs(2));
        assert_eq!(observer.pace(Duration::from_secs(5)), Duration::from_millis(1250));
        // Node `n1` expires.
        for second in (4..=14).step_by(2) {
            let other = Beat { count: second, ..other.clone() };
            saw(&mut observer, vec![other, beat(1, 1)], second);
        }
        assert_eq!(observer.pace(Duration::from_secs(60)), Duration::from_secs(10));
    }

    #[test]
    fn another_run_counts_from_when_it_was_seen_first() {
        let mut observer = Observer::default();
        assert!(!look(&mut observer, 0..=2, &[beat(1, 1)]));
        assert!(!look(&mut observer, 4..=14, &[beat(2, 1)]));
        assert!(look(&mut observer, 16..=16, &[beat(2, 7)]));
    }

    #[test]
    fn a_node_that_begins_again_and_again_keeps_no_earlier_run_alive() {
        let mut observer = Observer::default();
        assert!(!look(&mut observer, 0..=2, &[beat(1, 1)]));
        for second in (4..=14).step_by(2) {
            let run = u8::try_from(second).unwrap();
            assert!(!look(&mut observer, second..=second, &[beat(run, 1)]), "{second}");
        }
        assert!(look(&mut observer, 16..=16, &[beat(16, 1)]), "other runs were there for 12 s");
        assert!(!has_lapsed(&observer, 6, 0), "and in place of this one for 8 s");
        assert!(!has_lapsed(&observer, 16, 0));
        // A run that was never seen counts from the time at which it was known.
        assert!(has_lapsed(&observer, 99, 0) && has_lapsed(&observer, 99, 5));
        assert!(!has_lapsed(&observer, 99, 6));
        // A run that comes back is alive.
        assert!(!look(&mut observer, 18..=18, &[beat(1, 2)]));
        assert!(!look(&mut observer, 20..=30, &[beat(2, 1)]));
        assert!(look(&mut observer, 32..=32, &[beat(2, 1)]));
    }

    #[test]
    fn a_run_that_nobody_saw_may_be_the_newest() {
        let mut observer = Observer::default();
        for second in 0..=20 {
            saw(&mut observer, vec![beat(1, second)], second);
        }
        // Run 2 may have replaced run 1 since, or a late heartbeat of run 1 may have overwritten that of run 2.
        assert!(!has_lapsed(&observer, 2, 20) && !has_lapsed(&observer, 2, 10));
        assert!(has_lapsed(&observer, 2, 9), "it had time to be seen");
    }

    #[test]
    fn a_look_counts_from_its_end_up_to_its_beginning() {
        let mut observer = Observer::default();
        observer.saw(vec![beat(1, 1)], at(0), at(3));
        for second in (5..=13).step_by(2) {
            saw(&mut observer, vec![beat(1, 1)], second);
        }
        observer.saw(vec![beat(1, 1)], at(13), at(16));
        assert!(!has_lapsed(&observer, 1, 0), "it was seen for 10 s");
        // A scan that began before the newest scan is ignored.
        observer.saw(vec![], at(12), at(17));
        assert_eq!(observer.looked(), Some(at(13)));
        assert!(!has_lapsed(&observer, 1, 0));
        observer.saw(vec![beat(1, 1)], at(14), at(17));
        assert!(has_lapsed(&observer, 1, 0));
    }

    #[test]
    fn what_is_remembered_of_runs_has_a_bound_and_what_is_forgotten_is_over() {
        let mut observer = Observer::default();
        for second in 0..=2 * RUNS_BEFORE_MAX {
            let run = u8::try_from(second).unwrap();
            saw(&mut observer, vec![beat(run, 1)], second.try_into().unwrap());
        }
        let seen = &observer.seen[&NodeId::new("n1").unwrap()];
        assert_eq!(seen.before.len(), RUNS_BEFORE_MAX);
        assert!(has_lapsed(&observer, 3, 0));
    }

    #[test]
    fn a_lease_counts_from_before_the_beat_and_in_one_piece() {
        let mut beating = Beating::new(beat(1, 1));
        assert_eq!(beating.held(), None);
        beating.confirmed(at(10), at(11));
        let held = beating.held().unwrap();
        assert_eq!((held.since, held.until), (at(11), at(18)));
        beating.confirmed(at(12), at(18));
        assert_eq!(beating.held(), Some(Held { since: at(11), until: at(20) }));
        assert!(held.covers(at(11), at(17)) && !held.covers(at(10), at(17)));
        // The heartbeat was sent in time, but perhaps received too late.
        beating.confirmed(at(19), at(21));
        assert_eq!(beating.held(), Some(Held { since: at(21), until: at(27) }));
    }

    #[test]
    fn what_others_may_have_written_is_as_old_as_the_lease_that_covered_the_newest_record() {
        let lapsed_for = |held, known, now| {
            let lapsed = Held::lapsed_for(held, at(known), at(now));
            lapsed.map(|lapsed| lapsed.as_secs())
        };
        let held = Some(Held { since: at(10), until: at(20) });
        assert_eq!(lapsed_for(held, 10, 19), None);
        assert_eq!(lapsed_for(held, 12, 20), Some(0));
        assert_eq!(lapsed_for(held, 12, 27), Some(7));
        assert_eq!(lapsed_for(held, 25, 27), Some(2), "sent later, and it was the newest");
        // The window began anew after the record, so other nodes had all the time since the record, even once the
        // window is over.
        let anew = Some(Held { since: at(50), until: at(55) });
        assert_eq!(lapsed_for(anew, 12, 52), Some(40));
        assert_eq!(lapsed_for(anew, 12, 56), Some(44));
        assert_eq!(lapsed_for(None, 12, 27), Some(15));
    }
}
