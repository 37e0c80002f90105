//! Signs of life, from both sides: how long a node may hold that it lives, and when another may hold that
//! it does not (REM-41, REM-42). Each counts on its own clock; what the other's says is never compared.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::beat::Beat;
use crate::hex::Nonce;
use crate::limits::{LEASE_SECONDS, NODES_MAX, RUNS_BEFORE_MAX};
use crate::names::NodeId;
use crate::ticks::Ticks;

/// The beats of this node.
#[derive(Debug)]
pub struct Beating {
    next: Beat,
    held: Option<Held>,
}

/// How long nobody else may hold that this node is gone, in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// From then on.
    pub since: Ticks,
    /// Up to then.
    pub until: Ticks,
}

impl Beating {
    /// Of a run that begins. `first.count` is where it counts from.
    #[must_use]
    pub fn new(first: Beat) -> Self {
        Self { next: first, held: None }
    }

    /// How long a beat counts.
    #[must_use]
    pub fn lease(&self) -> Duration {
        lease_of(&self.next)
    }

    /// How long after one beat the next one is due.
    #[must_use]
    pub fn pace(&self) -> Duration {
        self.lease() / 5
    }

    /// The next beat, to be sent now; with the moment, which [`Beating::confirmed`] wants when it was heard.
    pub fn next(&mut self, now: Ticks) -> (Beat, Ticks) {
        let beat = self.next.clone();
        self.next.count += 1;
        (beat, now)
    }

    /// The beat that was sent just after `sent` was heard, just before `now`.
    ///
    /// Others may have seen it as late as `now`. So the lease goes on in one piece only if it was not over by
    /// then; else it begins anew then, and in between somebody may have held that this node is gone.
    pub fn confirmed(&mut self, sent: Ticks, now: Ticks) {
        let until = sent + self.lease();
        self.held = match self.held {
            Some(Held { since, until: old }) if now <= old => {
                Some(Held { since, until: until.max(old) })
            }
            _ => Some(Held { since: now, until }),
        };
    }

    /// The lease as it stands, counted from before the newest beat that was heard. `None` before the first.
    #[must_use]
    pub fn held(&self) -> Option<Held> {
        self.held
    }
}

impl Held {
    /// Whether a holder whose newest record was in the chain at `known`
    /// ([`Holder::known`](super::Holder::known)) still has the workspace, so that what it shows is all there is.
    /// Where the lease was over in between, somebody may have begun to take it then, and only another record
    /// shows that nobody did.
    #[must_use]
    pub fn covers(&self, known: Ticks, now: Ticks) -> bool {
        self.since <= known && now < self.until
    }

    /// For how long others may have written what such a holder has; `None` while it still has it alone. `held` is the
    /// newest lease, if a beat was ever heard: one that began after `known` tells nothing of the time before it.
    #[must_use]
    pub fn lapsed_for(held: Option<Self>, known: Ticks, now: Ticks) -> Option<Duration> {
        match held {
            Some(held) if held.covers(known, now) => None,
            Some(held) if held.since <= known => Some(now - held.until.max(known)),
            _ => Some(now - known),
        }
    }
}

/// What this node has seen of the beats of others.
#[derive(Debug, Default, Clone)]
pub struct Observer {
    seen: BTreeMap<NodeId, Seen>,
    looked: Option<Look>,
}

/// When the newest look began, and when all of it was here.
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
    /// When it was first seen as it is, and when first at all.
    since: Ticks,
    first: Ticks,
    /// Runs that were seen before this one, and when another one was first seen in their place.
    before: VecDeque<(Nonce, Ticks)>,
}

impl Observer {
    /// How long after one look the next one is due: a quarter of the shortest lease that may be held, which leaves
    /// as long again before counting begins anew. `own` is the lease of whoever looks; of nodes that are gone nobody
    /// looks at the lease.
    #[must_use]
    pub fn pace(&self, own: Duration) -> Duration {
        let lives = |seen: &&Seen| self.looked().is_some_and(|began| !seen.has_stood_still(began));
        let leases = self.seen.values().filter(lives).map(|seen| seen.lease);
        leases.fold(own, Duration::min) / 4
    }

    /// These are the beats of all nodes, which were asked for just after `began` and came just before `now`: each was
    /// read at some time in between. Where one look is longer after another than half of a lease, counting begins
    /// anew: what is seen then may have come just now. A look that began before the newest one tells nothing.
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

    /// When the newest look at all beats began: what was said before that was seen.
    #[must_use]
    pub fn looked(&self) -> Option<Ticks> {
        self.looked.map(|look| look.began)
    }

    /// The lease of a node's newest beat, if it has one.
    #[must_use]
    pub fn lease(&self, node: &NodeId) -> Option<Duration> {
        self.seen.get(node).map(|seen| seen.lease)
    }

    /// Whether that run of that node is gone, as of the last look: its beat stood still, or other runs'
    /// were in its place, for one and a quarter of its lease; or it has none. It was known at `known` that the run
    /// had been there, if not before.
    #[must_use]
    pub fn has_lapsed(&self, node: &NodeId, run: Nonce, known: Ticks) -> bool {
        let Some(began) = self.looked() else { return false };
        let Some(seen) = self.seen.get(node) else { return true };
        if seen.run == run {
            return seen.has_stood_still(began);
        }
        let left = seen.before.iter().find(|(before, _)| *before == run).map(|(_, left)| *left);
        // One that was never seen may be the newest: that it was not there counts since it was known.
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
            // It may be that two processes go by one name.
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

    /// A look that is over at once.
    fn saw(observer: &mut Observer, beats: Vec<Beat>, second: u64) {
        observer.saw(beats, at(second), at(second));
    }

    /// Looks every two seconds in these seconds, at what beats there are then.
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
        // It is gone.
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
        // One that nobody saw: from when it was known on.
        assert!(has_lapsed(&observer, 99, 0) && has_lapsed(&observer, 99, 5));
        assert!(!has_lapsed(&observer, 99, 6));
        // One that comes back is there.
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
        // It took the place of this one since, or this one's last beat came late and lies over its.
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
        // One that began before tells nothing.
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
        // Sent in time, but perhaps seen too late.
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
        // One that began anew, and is over as well: others had all the time since the record.
        let anew = Some(Held { since: at(50), until: at(55) });
        assert_eq!(lapsed_for(anew, 12, 52), Some(40));
        assert_eq!(lapsed_for(anew, 12, 56), Some(44));
        assert_eq!(lapsed_for(None, 12, 27), Some(15));
    }
}
