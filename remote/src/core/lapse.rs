//! Signs of life, from both sides: how long a node may hold that it lives, and when another may hold that
//! it does not (REM-41, REM-42). Each counts on its own clock; what the other's says is never compared.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::beat::Beat;
use crate::hex::Nonce;
use crate::limits::{LEASE_SECONDS, NODES_MAX};
use crate::names::NodeId;
use crate::ticks::Ticks;

/// The beats of this node.
#[derive(Debug)]
pub struct Beating {
    next: Beat,
    confirmed: Option<Ticks>,
}

impl Beating {
    /// Of a run that begins. `first.count` is where it counts from.
    #[must_use]
    pub fn new(first: Beat) -> Self {
        Self { next: first, confirmed: None }
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

    /// The beat that was sent just after `sent` was heard.
    pub fn confirmed(&mut self, sent: Ticks) {
        self.confirmed = self.confirmed.max(Some(sent));
    }

    /// Until when nobody else holds that this node is gone: counted from before the newest beat that was
    /// heard. `None` before the first.
    #[must_use]
    pub fn held_until(&self) -> Option<Ticks> {
        self.confirmed.map(|before| before + self.lease())
    }
}

/// What this node has seen of the beats of others.
#[derive(Debug, Default, Clone)]
pub struct Observer {
    seen: BTreeMap<NodeId, Seen>,
    looked: Option<Ticks>,
}

#[derive(Debug, Clone)]
struct Seen {
    run: Nonce,
    count: u64,
    lease: Duration,
    /// When it was first seen as it is, and when first with this run.
    since: Ticks,
    run_since: Ticks,
}

impl Observer {
    /// How long after one look the next one is due at the latest: half of the shortest lease.
    pub const PACE: Duration = Duration::from_secs(*LEASE_SECONDS.start() as u64 / 2);

    /// These are the beats of all nodes, as they came just before `now`. Where one look is longer after
    /// another than half of a lease, counting begins anew: what is seen then may have come just now.
    pub fn saw(&mut self, beats: Vec<Beat>, now: Ticks) {
        let last = self.looked.replace(now);
        let mut before = std::mem::take(&mut self.seen);
        for beat in beats.into_iter().take(NODES_MAX) {
            let lease = lease_of(&beat);
            let is_watched = last.is_some_and(|last| now - last <= lease / 2);
            let old = before.remove(&beat.node).filter(|_| is_watched);
            let run_since = old.as_ref().filter(|old| old.run == beat.run).map(|old| old.run_since);
            let since = old.filter(|old| (old.run, old.count) == (beat.run, beat.count));
            let seen = Seen {
                run: beat.run,
                count: beat.count,
                lease,
                since: since.map_or(now, |old| old.since),
                run_since: run_since.unwrap_or(now),
            };
            self.seen.insert(beat.node, seen);
        }
    }

    /// Whether that run of that node is gone, as of the last look: its beat stood still, or another run's
    /// was in its place, for one and a quarter of its lease; or it has none.
    #[must_use]
    pub fn has_lapsed(&self, node: &NodeId, run: Nonce) -> bool {
        let Some(now) = self.looked else { return false };
        let Some(seen) = self.seen.get(node) else { return true };
        let since = if seen.run == run { seen.since } else { seen.run_since };
        now - since > seen.lease + seen.lease / 4
    }
}

fn lease_of(beat: &Beat) -> Duration {
    let seconds = beat.lease_s.clamp(*LEASE_SECONDS.start(), *LEASE_SECONDS.end());
    Duration::from_secs(seconds.into())
}
