//! What brings a store's writes into its chain: begun, asked how far it is, made to collect, and ended.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::far::Far;
use engine::os::clock::{Clock, Random};
use engine::{Seq, Store};

use super::carried::Carried;
use super::shared::{CarryWhen, Inner, Over, Shared};
use super::state::State;
use super::{sending, writing};
use crate::core::{Collected, Collector, Holder, Lost, Retention};
use crate::driver::Driver;
use crate::names::{DataKey, NodeId};
use crate::record::Record;
use crate::ticks::Ticks;

/// How a workspace is carried.
#[derive(Debug, Clone, Copy)]
pub struct CarryHow {
    /// When a write is acknowledged.
    pub when: CarryWhen,
    /// How far back it can be had as it was.
    pub retention: Retention,
}

/// Brings what a store writes into its chain, for as long as this node holds it.
pub struct Carrier {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// How far a carrier is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The epoch that it writes.
    pub epoch: u64,
    /// The number of the newest record.
    pub record: u64,
    /// The newest commit in the chain.
    pub seq: Seq,
    /// Bytes of logs that are on this disk and not in the chain.
    pub unsent_bytes: u64,
    /// Files that are on their way.
    pub unsent_files: usize,
    /// How long the oldest of all that has waited.
    pub unsent_for: Duration,
    /// What went wrong last, until something goes right.
    pub trouble: Option<String>,
    /// Why it is over, if it is.
    pub over: Option<Over>,
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

impl Carrier {
    /// The carrier of an epoch that was just taken. `records` are those that led to it, of which the first is a full
    /// one or record 1. Its store is opened with [`Carrier::far`], and then told to [`Carrier::carry_for`]. With
    /// `carried` it goes on with files where the epoch before ended, and remembers how far it came itself.
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn start(
        driver: Driver,
        holder: Holder,
        records: &[Record],
        (clock, random): (Arc<dyn Clock>, Arc<dyn Random>),
        (CarryHow { when, retention }, mut carried): (CarryHow, Option<Carried>),
    ) -> std::io::Result<Self> {
        let mark = holder.newest();
        let mut state = State::of_chain(records);
        state.resume(
            carried.as_mut().map(|list| std::mem::take(&mut list.left)).unwrap_or_default(),
        );
        let inner = Inner {
            state,
            record: mark.head.number,
            known: holder.known(),
            confirms: false,
            trouble: None,
            over: None,
            give: None,
            gives_up: false,
            is_abandoned: false,
            is_ended: false,
            noted: Vec::new(),
        };
        // Ended by itself, whatever else the driver is used for.
        let driver = Driver { halt: Arc::default(), ..driver };
        let shared = Arc::new(Shared {
            driver,
            tenant: mark.head.tenant.clone(),
            clock,
            random,
            when,
            epoch: holder.epoch(),
            collector: Mutex::new(Collector::new(holder.epoch(), retention)),
            carried: carried.map(Mutex::new),
            inner: Mutex::new(inner),
            changed: Condvar::new(),
            store: OnceLock::new(),
        });
        let (writes, sends) = (Arc::clone(&shared), Arc::clone(&shared));
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let threads = vec![
            spawn("carry").spawn(move || writing::run(&writes, holder))?,
            spawn("send").spawn(move || sending::run(&sends))?,
        ];
        Ok(Self { shared, threads })
    }

    /// What the store is opened with.
    #[must_use]
    pub fn far(&self) -> Arc<dyn Far> {
        Arc::clone(&self.shared) as Arc<dyn Far>
    }

    /// The store that was opened with it, which is told when commits are carried that nobody waits for.
    pub fn carry_for(&self, store: &Arc<Store>) {
        let _the_first_stays = self.shared.store.set(Arc::downgrade(store));
    }

    /// Something may have left this folder's files that the chain has still, and no record says so: the next full one
    /// ends history. Said before the store is opened, that is its first.
    pub fn owes_erasure(&self) {
        self.shared.change(|inner| inner.state.owes_erasure = true);
    }

    /// How far it is.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let inner = self.shared.lock();
        let now = self.shared.driver.ticks.now();
        let state = &inner.state;
        Standing {
            epoch: self.shared.epoch,
            record: inner.record,
            seq: state.seq,
            unsent_bytes: state.unsent_bytes(),
            unsent_files: state.files.values().filter(|sent| sent.way.is_some()).count(),
            unsent_for: state.unsent_since.map_or(Duration::ZERO, |since| now - since),
            trouble: inner.trouble.clone(),
            over: inner.over.clone(),
        }
    }

    /// A moment just before its newest record was sent: [`Node::covers`](crate::Node::covers) tells by it
    /// whether what is here is all there is.
    #[must_use]
    pub fn known(&self) -> Ticks {
        self.shared.lock().known
    }

    /// Has a full record written although nothing is new: after a lease that was over, one shows that nobody else came,
    /// or that somebody did.
    pub fn confirm(&self) {
        self.shared.change(|inner| inner.confirms = true);
    }

    /// Whether it writes no more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.lock().over.is_some()
    }

    /// Waits until all that the store has told is in the chain; whether it is, after this long at most.
    #[must_use]
    pub fn settle(&self, patience: Duration) -> bool {
        let inner = self.shared.lock();
        let has_unsent = |inner: &mut Inner| inner.over.is_none() && inner.state.has_unsent();
        let waited = self.shared.changed.wait_timeout_while(inner, patience, has_unsent);
        let inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        !inner.state.has_unsent()
    }

    /// Removes what no longer counts, and says what that was; `None` where all was over first. One at a time.
    ///
    /// # Errors
    /// No answer, or records that cannot be. What was not removed is removed by the next collection.
    pub fn collect(&self) -> Option<Result<Collected, Lost>> {
        let shared = &self.shared;
        let mut collector = shared.collector.lock().unwrap_or_else(PoisonError::into_inner);
        // What the list has is not removed.
        if shared.lock().state.is_list_due {
            shared.write_list();
        }
        let is_clean = shared.lock().state.is_clean();
        let now = shared.driver.ticks.now();
        shared.lock().noted.drain(..).for_each(|noted| collector.note(noted, now));
        let is_live = |key: &DataKey| {
            let inner = shared.lock();
            inner.state.is_live(key) || inner.noted.iter().any(|noted| noted.keys.contains(key))
        };
        let at = shared.clock.now().0;
        shared.driver.run(&shared.tenant, async |port| {
            let done = collector.collect(&port, at, &is_live).await?;
            if is_clean {
                collector.tell_gone(&port, &done).await?;
            }
            Ok(done)
        })
    }

    /// Gives the epoch away once all is in the chain, and waits for it this long at most. The store is closed: it
    /// tells nothing more. Whether it was given.
    #[must_use]
    pub fn give(&self, to: Option<NodeId>, patience: Duration) -> bool {
        self.shared.change(|inner| inner.give = Some(to));
        self.is_given_within(patience)
    }

    /// Gives the epoch away at once: nobody wants what is not in the chain, and it stays on this disk. A record that
    /// is under way is waited for, all of it this long at most. The store is closed. Whether it was given.
    #[must_use]
    pub fn give_up(&self, patience: Duration) -> bool {
        self.shared.change(|inner| inner.gives_up = true);
        self.is_given_within(patience)
    }

    fn is_given_within(&self, patience: Duration) -> bool {
        let (inner, changed) = (self.shared.lock(), &self.shared.changed);
        let waited = changed.wait_timeout_while(inner, patience, |inner| inner.over.is_none());
        let inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        inner.over == Some(Over::Given)
    }
}

impl Drop for Carrier {
    /// What is not in the chain by now stays on this disk.
    fn drop(&mut self) {
        self.shared.driver.halt.raise();
        self.shared.change(|inner| inner.is_ended = true);
        for thread in self.threads.drain(..) {
            let _its_panic_is_on_stderr = thread.join();
        }
    }
}
