//! Garbage collection of a workspace without a leader: acquires, collects and releases it.

use std::sync::Arc;

use engine::os::clock::{Clock, Random};

use crate::core::{
    Claim, Collected, Collector, Committed, Holder, Lost, Retention, Stamp, Took, find,
};
use crate::driver::Driver;
use crate::hex::Nonce;
use crate::history::{NotRestored, run};
use crate::limits::{CHAIN_KEPT_MIN, FIND_TRIES_MAX, PAUSE_MIN};
use crate::names::Tenant;
use crate::node::Node;
use crate::record::{Head, Kind};

/// Outcome of the garbage collection of a workspace that may have a leader.
#[derive(Debug)]
pub enum Swept {
    /// Collected and released.
    Done(Collected),
    /// The writer of this record is the leader, and alive.
    Held(Box<Head>),
    /// There is no full record, so no record can be removed.
    Nothing,
}

/// Collects workspaces without a local store.
#[derive(Debug)]
pub struct Sweeper {
    /// Access to record logs and objects.
    pub driver: Driver,
    /// Node that acquires the workspaces for the duration of a collection.
    pub node: Arc<Node>,
    /// Retention of records.
    pub retention: Retention,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// Source of random bytes.
    pub random: Arc<dyn Random>,
}

impl Sweeper {
    /// Acquires a workspace without a leader, collects garbage and releases it. With `waits`, the call lasts until
    /// records may be removed that this node did not know before (REM-30).
    ///
    /// # Errors
    /// The storage did not respond, or its content is damaged.
    pub fn sweep(&self, tenant: &Tenant, waits: bool) -> Result<Swept, NotRestored> {
        let mut claim = Claim::new(self.node.writer().clone(), self.node.lease());
        let mut was_watched = false;
        for _ in 0..FIND_TRIES_MAX {
            let found = run(&self.driver, tenant, async |port| find(&port, None).await)??;
            let Some(found) = found.filter(|found| found.newest.head.base > 0) else {
                return Ok(Swept::Nothing);
            };
            if !self.node.may_take(&mut claim, &found) {
                // Watch the writer for `knows_after`; only then is it known to be alive or gone.
                if std::mem::replace(&mut was_watched, true) {
                    // The observer itself failed, so the writer's state is unknown.
                    if let Some(why) = self.node.trouble() {
                        return Err(NotRestored::Away(why));
                    }
                    return Ok(Swept::Held(Box::new(found.newest.head)));
                }
                // The wait must be longer than `knows_after`, not equal.
                self.driver.halt.wait(self.node.knows_after(&found.newest) + PAUSE_MIN);
                continue;
            }
            let (store, stamp) = (found.newest.head.store, self.stamp());
            let took = run(&self.driver, tenant, async |port| {
                claim.take(&port, Some(&found), store, stamp).await
            })?;
            match took {
                Took::Held(holder) => return self.collect(tenant, *holder, waits).map(Swept::Done),
                Took::Again => {}
                Took::Unsure(why) | Took::Refused(why) => return Err(NotRestored::Away(why)),
                Took::Lost(lost) => return Err(lost.into()),
            }
        }
        Err(NotRestored::Away("others write its chain faster than it can be taken".into()))
    }

    fn collect(
        &self,
        tenant: &Tenant,
        mut holder: Holder,
        waits: bool,
    ) -> Result<Collected, NotRestored> {
        let mut collector = Collector::new(holder.epoch(), self.retention);
        let mut done = self.once(tenant, &mut collector);
        if waits && done.as_ref().is_ok_and(|done| done.waiting > 0) {
            self.driver.halt.wait(CHAIN_KEPT_MIN);
            let first = done;
            done = self.once(tenant, &mut collector).and_then(|next| {
                let first = first?;
                let (records, objects) =
                    (first.records + next.records, first.objects + next.objects);
                Ok(Collected { records, objects, ..next })
            });
        }
        let given = self.give(tenant, &mut holder);
        done.and_then(|done| given.map(|()| done))
    }

    /// Releases the workspace after the collection.
    pub(crate) fn give(&self, tenant: &Tenant, holder: &mut Holder) -> Result<(), NotRestored> {
        let seq = holder.newest().head.seq;
        let stamp = self.stamp();
        let given = run(&self.driver, tenant, async |port| {
            holder.commit(&port, Kind::Give { to: None }, seq, stamp).await
        })?;
        match given {
            Committed::Done(_) | Committed::Fenced(_) => Ok(()),
            other => Err(NotRestored::Away(format!(
                "it was collected, and not given back: {other:?}; it is free once the sign of life of {} is over",
                self.node.writer().node
            ))),
        }
    }

    /// Runs one collection of an epoch that uploads nothing.
    pub(crate) fn once(
        &self,
        tenant: &Tenant,
        collector: &mut Collector,
    ) -> Result<Collected, NotRestored> {
        let at = self.clock.now().0;
        let done: Result<Collected, Lost> = run(&self.driver, tenant, async |port| {
            let done = collector.collect(&port, at, &|_| false).await?;
            collector.tell_gone(&port, &done).await?;
            Ok(done)
        })?;
        Ok(done?)
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { at: self.clock.now().0, nonce: Nonce::drawn(&*self.random) }
    }
}
