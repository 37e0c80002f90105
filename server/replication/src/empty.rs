//! Purge of a deleted workspace: all its objects on the storage are removed, except the record that says so
//! (`format-spec/remote.md`, Purge).
//!
//! Runs one step at a time. The progress is read from the record log, so after a crash any node can continue. Must not
//! know who deleted the workspace, nor which other nodes have bytes of it.

use std::time::Duration;

use engine::os::clock::Micros;
use engine::replication_sink::ManifestView;
use engine::{OpenError, StoreId};

use crate::alone::Sweeper;
use crate::core::{Claim, Collected, Collector, Committed, Found, Holder, Took, find};
use crate::fault::Damage;
use crate::history::{NotRestored, run};
use crate::limits::FIND_TRIES_MAX;
use crate::names::Tenant;
use crate::node::Node;
use crate::record::{Full, Head, Kind};
use crate::since::{is_young, went_on};

/// A deleted workspace.
#[derive(Debug, Clone)]
pub struct Deleted {
    /// Name of the workspace.
    pub tenant: Tenant,
    /// Time of deletion, in microseconds since 1970.
    pub at: i64,
    /// True to scan even a purged workspace, as an object may have arrived late.
    pub looks_again: bool,
    /// Time for which the workspace can be restored. If the storage's clock says that the newest record is younger,
    /// nothing is purged (REM-73).
    pub kept: Duration,
}

/// Moment of a check that a workspace may be purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the acquisition.
    First,
    /// After the acquisition, and before any data is lost (REM-76).
    Taken,
}

/// Reason to defer a purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotNow {
    /// The workspace must not be purged.
    Stays(String),
    /// The check itself failed.
    Unasked(String),
}

/// Check that a workspace may be purged; the error is the reason against it.
pub type May<'a> = &'a dyn Fn(Moment) -> Result<(), NotNow>;

/// State of a purge between two steps.
#[derive(Debug)]
pub struct Emptying {
    claim: Claim,
    /// Garbage collector, which remembers since when each record is known here.
    collector: Option<Collector>,
}

/// Outcome of a purge step.
#[derive(Debug)]
pub enum Emptied {
    /// Nothing of the workspace is left; this step removed the last objects.
    Done(Collected),
    /// The rest is removed later: its records are not known here for long enough.
    Waiting(Collected),
    /// The writer of this record is the leader, and alive as far as known.
    Held(Box<Head>),
    /// The workspace must not be purged now, for this reason.
    Spared(String),
}

/// Outcome of the release of a record log whose workspace is not open here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GivenUp {
    /// This process is not the leader. The newest record is given unless it is a release.
    NotOurs(Option<Box<Head>>),
    /// This process was the leader and released the record log.
    Given,
    /// No release was written. Another record may be the newest by now, which the next call finds.
    NotYet,
}

impl Emptying {
    /// Starts a purge. Acquisitions are under a collector's name, which is no server's: after a crash they do not count
    /// as a sign that the workspace is alive.
    #[must_use]
    pub fn new(node: &Node) -> Self {
        let claim = Claim::new(node.writer().collecting(), node.lease());
        Self { claim, collector: None }
    }

    /// Returns true if the purge remembers since when its records are known.
    #[must_use]
    pub fn remembers(&self) -> bool {
        self.collector.is_some()
    }
}

impl Sweeper {
    /// Runs the next step of the purge of a workspace that no node opens again; does not wait. Before any data is lost,
    /// `may` is called, and the record log is searched for signs of life (REM-74). After [`Emptied::Done`] a further
    /// call only removes objects that arrived late.
    ///
    /// # Errors
    /// The storage did not respond, or its content is damaged. The next call continues.
    pub fn empty(
        &self,
        deleted: &Deleted,
        known: &mut Emptying,
        may: May<'_>,
    ) -> Result<Emptied, NotRestored> {
        let tenant = &deleted.tenant;
        for _ in 0..FIND_TRIES_MAX {
            let found = run(&self.driver, tenant, async |port| find(&port, None).await)??;
            let Some(found) = found else { return Ok(Emptied::Done(Collected::default())) };
            if let Some(epoch) = found.emptied_by() {
                if !deleted.looks_again && self.has_gone(tenant, &found)? {
                    return Ok(Emptied::Done(Collected::default()));
                }
                if found.newest.given.is_some() && found.newest.head.epoch == epoch {
                    return self.go_on(tenant, known, &found);
                }
            }
            if let Some(why) = self.spares(deleted, &found, may)? {
                return Ok(Emptied::Spared(why));
            }
            if !self.node.is_held() {
                let why = self.node.trouble().unwrap_or_else(|| "it was not heard".to_owned());
                return Err(NotRestored::Away(format!("this node may be taken for gone: {why}")));
            }
            // An acquisition of this node under its own name is not continued; purges use a collector's name.
            let is_own = found.newest.head.node == self.node.writer().node;
            if !is_own && !self.node.may_take(&mut known.claim, &found) {
                return match self.node.trouble() {
                    Some(why) => Err(NotRestored::Away(why)),
                    None => Ok(Emptied::Held(Box::new(found.newest.head))),
                };
            }
            let manifest = manifest_behind(&found, self.clock.now()).map_err(not_made)?;
            let (store, stamp) = (found.newest.head.store, self.stamp());
            let took = run(&self.driver, tenant, async |port| {
                known.claim.take(&port, Some(&found), store, stamp).await
            })?;
            match took {
                Took::Held(holder) => return self.wipe(tenant, known, (*holder, manifest), may),
                Took::Again => {}
                Took::Unsure(why) | Took::Refused(why) => return Err(NotRestored::Away(why)),
                Took::Lost(lost) => return Err(lost.into()),
            }
        }
        Err(NotRestored::Away("others write its chain faster than it can be taken".into()))
    }

    /// Releases a record log that this process leads and no longer writes, as its workspace was deleted. Writes that
    /// were not uploaded stay so.
    ///
    /// # Errors
    /// The storage did not respond, or its content is damaged.
    pub fn give_up(&self, tenant: &Tenant) -> Result<GivenUp, NotRestored> {
        let found = run(&self.driver, tenant, async |port| find(&port, None).await)??;
        let Some(Found { newest, as_of, .. }) = found else { return Ok(GivenUp::NotOurs(None)) };
        let writer = self.node.writer();
        let is_own = newest.head.node == writer.node && newest.head.run == writer.run;
        if newest.given.is_some() {
            return Ok(GivenUp::NotOurs(None));
        }
        if !is_own {
            return Ok(GivenUp::NotOurs(Some(Box::new(newest.head))));
        }
        let (seq, stamp) = (newest.head.seq, self.stamp());
        let mut holder = Holder::new(writer.clone(), newest, as_of);
        let given = run(&self.driver, tenant, async |port| {
            holder.commit(&port, Kind::Give { to: None }, seq, stamp).await
        })?;
        Ok(match given {
            Committed::Done(_) => GivenUp::Given,
            _ => GivenUp::NotYet,
        })
    }

    /// Returns true if nothing is left of a purged record log.
    fn has_gone(&self, tenant: &Tenant, found: &Found) -> Result<bool, NotRestored> {
        Ok(found.is_gone(&self.driver.chain.edge(tenant)?))
    }

    /// Returns the reason why the workspace must not be purged now, if there is one.
    fn spares(
        &self,
        deleted: &Deleted,
        found: &Found,
        may: May<'_>,
    ) -> Result<Option<String>, NotRestored> {
        match may(Moment::First) {
            Ok(()) => {}
            Err(NotNow::Stays(why)) => return Ok(Some(why)),
            Err(NotNow::Unasked(why)) => return Err(NotRestored::Away(why)),
        }
        let newest = found.newest.head.number;
        let own = &self.node.writer().node;
        if let Some(why) = went_on(&self.driver, &deleted.tenant, (newest, deleted.at), own)? {
            return Ok(Some(why));
        }
        // A purged workspace cannot be restored, so its age does not matter.
        if found.emptied_by().is_some() {
            return Ok(None);
        }
        is_young(&self.driver, &deleted.tenant, (newest, deleted.kept))
    }

    /// After the acquisition: writes the purge record, collects garbage and releases the record log.
    fn wipe(
        &self,
        tenant: &Tenant,
        known: &mut Emptying,
        (mut holder, manifest): (Holder, Vec<u8>),
        may: May<'_>,
    ) -> Result<Emptied, NotRestored> {
        if let Err(not_now) = may(Moment::Taken) {
            let given = self.give(tenant, &mut holder);
            return match not_now {
                NotNow::Stays(why) => given.map(|()| Emptied::Spared(why)),
                NotNow::Unasked(why) => Err(NotRestored::Away(why)),
            };
        }
        let (seq, erased) = (holder.newest().head.seq, holder.newest().head.number);
        let full = Full { manifest, files: Vec::new(), logs: Vec::new(), erased };
        let stamp = self.stamp();
        let committed = run(&self.driver, tenant, async |port| {
            holder.commit(&port, Kind::Full(full), seq, stamp).await
        })?;
        let noted = match committed {
            Committed::Done(noted) => noted,
            // If the record stands in spite of the error, the next step finds it.
            other => return Err(NotRestored::Away(format!("it was taken, and {other:?}"))),
        };
        let mut collector = Collector::new(holder.epoch(), self.retention);
        collector.note(noted, self.driver.ticks.now());
        let done = self.once(tenant, &mut collector);
        known.collector = Some(collector);
        self.give(tenant, &mut holder)?;
        Ok(came_to(done?, erased))
    }

    /// After the purge record and its release: removes the rest.
    fn go_on(
        &self,
        tenant: &Tenant,
        known: &mut Emptying,
        found: &Found,
    ) -> Result<Emptied, NotRestored> {
        let Head { epoch, base, .. } = found.newest.head;
        let collector = known.collector.take().filter(|known| known.epoch() == epoch);
        let collector = collector.unwrap_or_else(|| Collector::new(epoch, self.retention));
        let done = self.once(tenant, known.collector.insert(collector))?;
        Ok(came_to(done, base - 1))
    }
}

/// Outcome of a collection that must remove everything up to a record.
fn came_to(done: Collected, erased: u64) -> Emptied {
    if done.gone >= erased { Emptied::Done(done) } else { Emptied::Waiting(done) }
}

/// Manifest of an empty store that follows on these records and has lost all their rows.
fn manifest_behind(found: &Found, now: Micros) -> Result<Vec<u8>, OpenError> {
    let Head { store, seq, .. } = found.newest.head;
    let (mut before, mut last_log) = (None, 0);
    for record in &found.records {
        let numbers: Vec<u64> = match &record.kind {
            Kind::Take | Kind::Give { .. } => Vec::new(),
            Kind::Step(pieces) => pieces.iter().map(|piece| piece.number).collect(),
            Kind::Full(full) => {
                before = Some(ManifestView::parse(&full.manifest)?);
                full.logs.iter().map(|log| log.number).collect()
            }
        };
        last_log = numbers.into_iter().fold(last_log, u64::max);
    }
    // The record log has no full record, but objects uploaded for one may exist.
    let first = || ManifestView::initial(StoreId(u128::from_le_bytes(store.0)), now);
    before.unwrap_or_else(first).encode_emptied(seq, last_log)
}

fn not_made(error: OpenError) -> NotRestored {
    NotRestored::Damage(Damage::new("REM-72", error.to_string()))
}
