//! A workspace that was deleted: all that lies of it on the storage goes, but for what says so
//! (`format-spec/remote.md`, Emptying).
//!
//! Owns one step at a time: what was done is read in the chain, so whoever ends in the middle is followed by whoever
//! comes next. Must not know who deleted it, nor when.

use engine::far::Listing;
use engine::os::clock::Micros;
use engine::{OpenError, StoreId};

use crate::alone::Sweeper;
use crate::core::{Claim, Collected, Collector, Committed, Found, Holder, Took, find, holds};
use crate::fault::Damage;
use crate::history::{NotRestored, run};
use crate::holds::Holds;
use crate::limits::FIND_TRIES_MAX;
use crate::names::Tenant;
use crate::node::Node;
use crate::record::{Full, Head, Kind, Record};

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

impl Emptying {
    /// Nothing yet.
    #[must_use]
    pub fn new(node: &Node) -> Self {
        let claim = Claim::new(node.writer().clone(), node.lease());
        Self { claim, collector: None }
    }
}

/// Whether a full record, its number and that of the record before say that all rows are gone.
fn says_so(full: &Full, number: u64) -> bool {
    full.erased + 1 == number
        && full.files.is_empty()
        && full.logs.is_empty()
        && Listing::read(&full.manifest).is_ok_and(|listing| listing.is_empty())
}

impl Found {
    /// The epoch that emptied the chain, where all rows are gone and none came since (REM-72).
    #[must_use]
    pub fn emptied_by(&self) -> Option<u64> {
        emptied_by(&self.records)
    }
}

/// The same of the records that lead to one from its base, those that bring something.
pub(crate) fn emptied_by(records: &[Record]) -> Option<u64> {
    let [record] = records else { return None };
    let Kind::Full(full) = &record.kind else { return None };
    says_so(full, record.head.number).then_some(record.head.epoch)
}

impl Sweeper {
    /// Goes on with emptying a workspace, which nobody is to open again, and does not wait. Before it is taken `may` is
    /// asked, with what all nodes say that they have. Once it came to [`Emptied::Done`] another call changes nothing.
    ///
    /// # Errors
    /// No answer, or what is there cannot be. The next call goes on.
    pub fn empty(
        &self,
        tenant: &Tenant,
        known: &mut Emptying,
        may: &dyn Fn(&[Holds]) -> Result<(), String>,
    ) -> Result<Emptied, NotRestored> {
        for _ in 0..FIND_TRIES_MAX {
            let found = run(&self.driver, tenant, async |port| find(&port, None).await)??;
            let Some(found) = found else { return Ok(Emptied::Done(Collected::default())) };
            if let Some(epoch) = found.emptied_by() {
                if self.driver.chain.edge(tenant)?.gone + 1 >= found.newest.head.base {
                    return Ok(Emptied::Done(Collected::default()));
                }
                if found.newest.given.is_some() && found.newest.head.epoch == epoch {
                    return self.go_on(tenant, known, &found);
                }
            }
            // After the chain was read: who took it before that said before what it has.
            let said = run(&self.driver, tenant, async |port| holds(&port).await)??;
            if let Err(why) = may(&said) {
                return Ok(Emptied::Spared(why));
            }
            if !self.node.may_take(&mut known.claim, &found) {
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
                Took::Held(holder) => return self.wipe(tenant, known, *holder, manifest),
                Took::Again => {}
                Took::Unsure(why) | Took::Refused(why) => return Err(NotRestored::Away(why)),
                Took::Lost(lost) => return Err(lost.into()),
            }
        }
        Err(NotRestored::Away("others write its chain faster than it can be taken".into()))
    }

    /// It was taken: says that all rows are gone, collects, and gives it away.
    fn wipe(
        &self,
        tenant: &Tenant,
        known: &mut Emptying,
        mut holder: Holder,
        manifest: Vec<u8>,
    ) -> Result<Emptied, NotRestored> {
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
