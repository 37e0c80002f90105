//! A workspace that was deleted: all that lies of it on the storage goes, but for what says so
//! (`format-spec/remote.md`, Emptying).
//!
//! Owns one step at a time: what was done is read in the chain, so whoever ends in the middle is followed by whoever
//! comes next. Must not know who deleted it, nor who else has it.

use std::time::Duration;

use engine::far::Listing;
use engine::os::clock::Micros;
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

/// A workspace that was deleted.
#[derive(Debug, Clone)]
pub struct Deleted {
    /// Which.
    pub tenant: Tenant,
    /// When, microseconds since 1970.
    pub at: i64,
    /// Whether what is known to be empty is looked through all the same: something may have come late.
    pub looks_again: bool,
    /// For how long it can be restored. Nothing is emptied whose newest record is younger by the storage's clock
    /// (REM-73), where that tells.
    pub kept: Duration,
}

/// When it is asked whether a workspace may be emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before it is taken.
    First,
    /// After that, before anything is lost (REM-76).
    Taken,
}

/// Why a workspace is not emptied now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotNow {
    /// It is not to be.
    Stays(String),
    /// Whether it is to be could not be asked.
    Unasked(String),
}

/// Whether a workspace may be emptied, or why not.
pub type May<'a> = &'a dyn Fn(Moment) -> Result<(), NotNow>;

/// What is known of a workspace that is being emptied, from one step to the next.
#[derive(Debug)]
pub struct Emptying {
    claim: Claim,
    /// Knows since when which record is known here.
    collector: Option<Collector>,
}

/// What one step came to.
#[derive(Debug)]
pub enum Emptied {
    /// Nothing of it is there any more; this was removed last.
    Done(Collected),
    /// What is left goes later: its records are not known here for long enough.
    Waiting(Collected),
    /// Whoever wrote this record holds it, and lives for all that is known.
    Held(Box<Head>),
    /// It is not to be emptied now, and why.
    Spared(String),
}

/// What came of giving a chain up that is not open here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GivenUp {
    /// This process does not hold it; whose newest record there is, where that is no give.
    NotOurs(Option<Box<Head>>),
    /// It did, and gave it away.
    Given,
    /// It did not come to that: another record may be the newest by now, which the next call finds.
    NotYet,
}

impl Emptying {
    /// Nothing yet. It takes by a name that is no server's: where it is cut short, what it took is no sign of life to
    /// whoever goes on.
    #[must_use]
    pub fn new(node: &Node) -> Self {
        let claim = Claim::new(node.writer().collecting(), node.lease());
        Self { claim, collector: None }
    }

    /// Whether it is remembered how long its records are known.
    #[must_use]
    pub fn remembers(&self) -> bool {
        self.collector.is_some()
    }
}

impl Sweeper {
    /// Goes on with emptying a workspace, which nobody is to open again, and does not wait. Before anything is lost
    /// `may` is asked, and whether its chain says that it is alive (REM-74). Once it came to [`Emptied::Done`] another
    /// call changes nothing, but for what came late.
    ///
    /// # Errors
    /// No answer, or what is there cannot be. The next call goes on.
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
            // What this node wrote under its own name it does not go on with.
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

    /// Gives a chain away that this process wrote and nobody here goes on with, since its workspace was deleted: what
    /// was not sent stays unsent.
    ///
    /// # Errors
    /// No answer, or what is there cannot be.
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

    /// Whether nothing is left of a chain that was emptied.
    fn has_gone(&self, tenant: &Tenant, found: &Found) -> Result<bool, NotRestored> {
        Ok(found.is_gone(&self.driver.chain.edge(tenant)?))
    }

    /// Why it is not to be emptied now, if so.
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
        // Of one that was emptied nothing can be restored, however young that is.
        if found.emptied_by().is_some() {
            return Ok(None);
        }
        is_young(&self.driver, &deleted.tenant, (newest, deleted.kept))
    }

    /// It was taken: says that all rows are gone, collects, and gives it away.
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
            // What may stand of it is found by the next step.
            other => return Err(NotRestored::Away(format!("it was taken, and {other:?}"))),
        };
        let mut collector = Collector::new(holder.epoch(), self.retention);
        collector.note(noted, self.driver.ticks.now());
        let done = self.once(tenant, &mut collector);
        known.collector = Some(collector);
        self.give(tenant, &mut holder)?;
        Ok(came_to(done?, erased))
    }

    /// It was emptied and given away: removes what is left.
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

/// What a collection came to, where all up to a record is to go.
fn came_to(done: Collected, erased: u64) -> Emptied {
    if done.gone >= erased { Emptied::Done(done) } else { Emptied::Waiting(done) }
}

/// The manifest of a store that has lost all that these records bring, and comes behind them.
fn manifest_behind(found: &Found, now: Micros) -> Result<Vec<u8>, OpenError> {
    let Head { store, seq, .. } = found.newest.head;
    let (mut before, mut last_log) = (None, 0);
    for record in &found.records {
        let numbers: Vec<u64> = match &record.kind {
            Kind::Take | Kind::Give { .. } => Vec::new(),
            Kind::Step(pieces) => pieces.iter().map(|piece| piece.number).collect(),
            Kind::Full(full) => {
                before = Some(Listing::read(&full.manifest)?);
                full.logs.iter().map(|log| log.number).collect()
            }
        };
        last_log = numbers.into_iter().fold(last_log, u64::max);
    }
    // Nothing was ever in the chain, and what was sent for it may lie there.
    let first = || Listing::first(StoreId(u128::from_le_bytes(store.0)), now);
    before.unwrap_or_else(first).emptied(seq, last_log)
}

fn not_made(error: OpenError) -> NotRestored {
    NotRestored::Damage(Damage::new("REM-72", error.to_string()))
}
