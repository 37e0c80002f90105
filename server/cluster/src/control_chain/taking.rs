//! Acquisition of the metastore's record log, and the maintenance that is due while this node is the leader.
//!
//! Decides when this node may acquire the record log, and which node may start one. An epoch that cannot be used is
//! released.

use std::sync::Arc;
use std::time::{Duration, Instant};

use recalld_replication::core::{Claim, Collector, Found, Given, Holder, Mark, Stamp, Took, find};
use recalld_replication::{Head, Nonce, NotSeated};

use super::following::Reader;
use super::leading::{self, Lead};
use super::marker::{self, Marker};
use super::place::{self, Place};
use super::shared::{Shared, tell};
use recalld_telemetry::log;
use recalld_telemetry::log::Level;

/// Interval between two garbage collections.
const COLLECT_EVERY: Duration = Duration::from_secs(3600);

/// Delay of the first garbage collection after the start: by then records are known for long enough to be removed.
const COLLECT_FIRST: Duration = Duration::from_secs(600);
/// Pause after the first failed full record. The pause doubles with each failure, up to the maximum.
const FULL_PAUSE_MIN: Duration = Duration::from_secs(1);
const FULL_PAUSE_MAX: Duration = Duration::from_secs(60);

/// State of a node that may write the metastore.
pub(super) struct Taking {
    claim: Option<Claim>,
    /// Earliest next acquisition, after an epoch that this node could not use: other nodes go first.
    not_before: Option<Instant>,
    collector: Option<Collector>,
    collect_at: Instant,
    full: FullPause,
}

/// Backoff of full records after failures.
struct FullPause {
    pause: Duration,
    not_before: Option<Instant>,
}

impl FullPause {
    fn is_over(&self) -> bool {
        self.not_before.is_none_or(|at| Instant::now() >= at)
    }

    fn after(&mut self, made: &Result<(), String>) {
        match made {
            Ok(()) => *self = Self::default(),
            Err(_) => {
                self.not_before = Some(Instant::now() + self.pause);
                self.pause = FULL_PAUSE_MAX.min(self.pause * 2);
            }
        }
    }
}

impl Default for FullPause {
    fn default() -> Self {
        Self { pause: FULL_PAUSE_MIN, not_before: None }
    }
}

impl Taking {
    pub(super) fn new(claim: Option<Claim>) -> Self {
        let (not_before, collector, full) = (None, None, FullPause::default());
        Self { claim, not_before, collector, collect_at: Instant::now() + COLLECT_FIRST, full }
    }

    /// Ends the maintenance of an epoch. Returns true if this node was the leader until now.
    pub(super) fn ended(&mut self) -> bool {
        self.full = FullPause::default();
        self.collector.take().is_some()
    }
}

impl Reader {
    /// Returns true if the leader released the record log or is considered gone. A node without a membership considers
    /// every leader alive.
    pub(super) fn is_free(&mut self) -> bool {
        let Some(at) = self.follower.at() else { return true };
        match (self.shared.with.node.as_deref(), &mut self.taking.claim) {
            (Some(node), Some(claim)) => {
                let now = self.shared.now();
                let known = claim.saw(at, now);
                node.may_be_free(&at.head, at.given.as_ref(), now - known)
            }
            _ => matches!(at.given, Some(Given { to: None })),
        }
    }

    /// Names the node to wait for, if that node started the record log and has not uploaded a full record. Another node
    /// may not start over, as the founder may have tenants that no other node has.
    pub(super) fn awaited(&self) -> Option<String> {
        let head = &self.follower.at()?.head;
        let is_begun_elsewhere = self.place.is_none() && self.may_not_begin(head);
        is_begun_elsewhere.then(|| {
            let (node, tenant) = (&head.node, &self.shared.tenant);
            format!(
                "node {node} began the control store of this remote and has not brought it there yet: start that node. \
                 If it is gone for good, remove t/{tenant}/ from the remote, which has no tenant"
            )
        })
    }

    /// Returns true if another node started the record log of this newest record and has not written a full record.
    fn may_not_begin(&self, head: &Head) -> bool {
        head.base == 0 && !self.has_noted(head.store)
    }

    /// Acquires the record log if there is no leader.
    pub(super) fn take(&mut self) -> Result<(), String> {
        let is_time = self.taking.not_before.is_none_or(|at| Instant::now() >= at);
        let (Some(node), true) = (self.shared.with.node.clone(), is_time && self.is_free()) else {
            return Ok(());
        };
        let Some(mut claim) = self.taking.claim.take() else { return Ok(()) };
        let took = if node.is_held() { self.try_to_take(&node, &mut claim) } else { Ok(None) };
        self.taking.claim = Some(claim);
        took?.map_or(Ok(()), |holder| self.lead(holder))
    }

    fn try_to_take(
        &mut self,
        node: &recalld_replication::Node,
        claim: &mut Claim,
    ) -> Result<Option<Holder>, String> {
        let at = self.follower.at().cloned();
        let driver = self.shared.with.driver.clone();
        let tenant = self.shared.tenant.clone();
        let found = driver.run(&tenant, async |port| find(&port, at.as_ref()).await);
        let Some(found) = found else { return Ok(None) };
        let found: Option<Found> = found.map_err(|lost| NotSeated::from(lost).to_string())?;
        let newest = found.as_ref().map(|found| &found.newest);
        if newest.map(|mark| mark.hash) != at.as_ref().map(|mark| mark.hash)
            || newest.is_some_and(|mark| self.may_not_begin(&mark.head))
            || found.as_ref().is_some_and(|found| !node.may_take(claim, found))
        {
            return Ok(None);
        }
        let random = Arc::clone(&self.shared.with.random);
        let store = match newest {
            Some(mark) => mark.head.store,
            None => self.begins(Nonce::drawn(&*random))?,
        };
        let stamp = Stamp { at: self.shared.with.clock.now().0, nonce: Nonce::drawn(&*random) };
        let took =
            driver.run(&tenant, async |port| claim.take(&port, found.as_ref(), store, stamp).await);
        match took {
            None | Some(Took::Again) => Ok(None),
            Some(Took::Held(holder)) => Ok(Some(*holder)),
            Some(Took::Unsure(why) | Took::Refused(why)) => Err(why),
            Some(Took::Lost(lost)) => Err(NotSeated::from(lost).to_string()),
        }
    }

    /// Store id of the record log that this node is about to start. The marker is written first, so that after a crash
    /// this node knows the record log as its own (REM-95).
    fn begins(&mut self, fresh: Nonce) -> Result<Nonce, String> {
        match &self.noted {
            Some(noted) if self.place.is_none() => Ok(noted.store),
            _ => self.note(fresh).map(|()| fresh),
        }
    }

    /// Writes the marker: the local metastore belongs to the record log of this store.
    pub(super) fn note(&mut self, store: Nonce) -> Result<(), String> {
        let marker = Marker::new(store, self.shared.with.name.to_string());
        if self.noted.as_ref() != Some(&marker) {
            marker::put(&self.data, &marker)?;
            self.noted = Some(marker);
        }
        Ok(())
    }

    pub(super) fn has_noted(&self, store: Nonce) -> bool {
        self.noted.as_ref().is_some_and(|noted| noted.store == store)
    }

    /// Makes this node the leader. On failure the epoch is released, so that no other node waits for it.
    fn lead(&mut self, holder: Holder) -> Result<(), String> {
        let mark = holder.newest().clone();
        let led = match self.stand_at(mark.clone()) {
            Ok(place) => {
                *self.shared.lead() = Some(Lead::new(holder, place));
                self.taking.collector = leading::collector(&self.shared);
                self.tend()
            }
            Err(why) => {
                *self.shared.lead() = Some(Lead::new(holder, Place::begun(mark)));
                Err(why)
            }
        };
        let is_leading = self.shared.known().leads.is_some();
        match is_leading {
            true => log::event(Level::Info, "this node writes the control store", &[]),
            false => self.give_back(),
        }
        led
    }

    /// Sets the position of the local metastore to this acquisition record.
    fn stand_at(&mut self, mark: Mark) -> Result<Place, String> {
        let said = |error: recalld_metastore::ControlError| error.to_string();
        let place = match self.place.clone() {
            Some(place) => Place { mark, ..place },
            // The record log starts with the local rows.
            None => {
                let digest = self.control.copy_state(&mut || Ok(()), &mut |_, _, _| Ok(()));
                Place { digest: place::hash_of(digest.map_err(said)?), ..Place::begun(mark) }
            }
        };
        self.control.keep_place(&|| Some(place.bytes())).map_err(said)?;
        self.place = Some(place.clone());
        Ok(place)
    }

    /// Releases an epoch in which this node cannot write, and lets other nodes acquire it for the length of a lease.
    fn give_back(&mut self) {
        give_away(&self.shared);
        let lease = self.shared.with.node.as_ref().map_or(Duration::ZERO, |node| node.lease());
        self.taking.not_before = Some(Instant::now() + lease);
        self.taking.ended();
        // The local state matches the record log, or the next run fetches it anew.
        if let Err(why) = self.begin_anew() {
            tell(Level::Warn, "the control store cannot be read", &why);
        }
    }

    /// Runs the maintenance that is due while this node is the leader.
    pub(super) fn tend(&mut self) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        let Some((wants_full, known)) =
            shared.lead().as_ref().map(|lead| (lead.wants_full(), lead.known()))
        else {
            return Ok(());
        };
        let node = shared.with.node.as_deref();
        let was_away =
            !shared.covers(known) && node.is_some_and(recalld_replication::Node::is_held);
        let mut made = Ok(());
        if (wants_full || was_away) && self.taking.full.is_over() {
            // After an expired lease, a successful record proves that no other node has written since.
            made = leading::make_full(&shared, &self.control);
            self.taking.full.after(&made);
            let of = |lead: &Lead| (lead.is_stuck(), lead.differs());
            let (is_stuck, differs) = shared.lead().as_ref().map(of).unwrap_or_default();
            if made.is_err() && (is_stuck || differs) {
                // No change can be committed here before a full record; another node may succeed.
                self.differs.set(differs);
                self.give_back();
                return made;
            }
        }
        let mut is_new = false;
        if let Some(lead) = shared.lead().as_ref() {
            let mut known = shared.known();
            is_new = known.leads.is_none();
            known.leads = Some(lead.known()).filter(|_| !known.is_missed);
            known.at = Some(lead.place().mark.head.clone());
            known.is_free = false;
            known.is_whole = true;
        }
        if is_new {
            self.taking.collect_at = Instant::now() + COLLECT_FIRST;
        }
        let is_due = Instant::now() >= self.taking.collect_at;
        if let Some(collector) = self.taking.collector.as_mut().filter(|_| is_due) {
            self.taking.collect_at = Instant::now() + COLLECT_EVERY;
            return made.and(leading::collect(&shared, collector));
        }
        made
    }
}

/// Releases the record log, if this node is the leader.
pub(super) fn give_away(shared: &Shared) {
    // From before the release is sent, another node may write (REM-41).
    shared.grows_old();
    let mut lead = shared.lead();
    if let Some(Err(why)) = lead.as_mut().map(|lead| lead.give(shared)) {
        tell(Level::Warn, "the control store was not given away", &why.to_string());
    }
    *lead = None;
}
