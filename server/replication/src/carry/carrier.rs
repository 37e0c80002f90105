use std::fmt;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::os::clock::{Clock, Random};
use engine::replication_sink::ReplicationSink;
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

/// Configuration of a [`Carrier`].
#[derive(Debug, Clone, Copy)]
pub struct CarryHow {
    /// Point at which a write is acknowledged.
    pub when: CarryWhen,
    /// Retention of the workspace's history.
    pub retention: Retention,
}

/// Ships a store's writes into its record log while this node leads the workspace.
pub struct Carrier {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Progress of a [`Carrier`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Epoch of the records that are written.
    pub epoch: u64,
    /// Number of the newest record.
    pub record: u64,
    /// Newest commit in the record log.
    pub seq: Seq,
    /// WAL bytes on the local disk that are not in the record log.
    pub unsent_bytes: u64,
    /// Files whose upload is not complete.
    pub unsent_files: usize,
    /// Time for which the oldest data outside of the record log has waited.
    pub unsent_for: Duration,
    /// Last error; cleared when the next record is committed.
    pub trouble: Option<String>,
    /// Reason why the shipper stopped; `None` while the shipper runs.
    pub over: Option<Over>,
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

impl Carrier {
    /// Starts the shipper of a newly acquired epoch. `records` are the records that led to the epoch; the first is a
    /// full record or record 1. The store is opened with [`Carrier::far`] and then passed to [`Carrier::carry_for`].
    /// With `carried`, uploads continue where the previous epoch stopped, and their progress is saved for the next
    /// epoch.
    ///
    /// # Errors
    /// The threads cannot be started.
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
        // The shipper has a shutdown signal of its own, so it stops independently of other users of the driver.
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

    /// Replication sink with which the store is opened.
    #[must_use]
    pub fn far(&self) -> Arc<dyn ReplicationSink> {
        Arc::clone(&self.shared) as Arc<dyn ReplicationSink>
    }

    /// Attaches the store that was opened with [`Carrier::far`]. The store is notified of commits in the record log
    /// that no write waits for any more.
    pub fn carry_for(&self, store: &Arc<Store>) {
        let _the_first_stays = self.shared.store.set(Arc::downgrade(store));
    }

    /// Marks an erasure as due: data may be gone from the local files that the record log still has, and no record
    /// states so. The next full record then ends history. If called before the store is opened, that is the store's
    /// first full record.
    pub fn owes_erasure(&self) {
        self.shared.change(|inner| inner.state.owes_erasure = true);
    }

    /// Current progress.
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

    /// A time just before the newest record was sent. [`Node::covers`](crate::Node::covers) uses this time to decide if
    /// the local state is complete.
    #[must_use]
    pub fn known(&self) -> Ticks {
        self.shared.lock().known
    }

    /// Requests a full record although nothing is new. After an expired lease, such a record shows whether another node
    /// has written the workspace.
    pub fn confirm(&self) {
        self.shared.change(|inner| inner.confirms = true);
    }

    /// Returns true if the shipper has stopped writing records.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.lock().over.is_some()
    }

    /// Waits until all that the store has reported is in the record log, at most for `patience`. Returns true if all of
    /// it is.
    #[must_use]
    pub fn settle(&self, patience: Duration) -> bool {
        let inner = self.shared.lock();
        let has_unsent = |inner: &mut Inner| inner.over.is_none() && inner.state.has_unsent();
        let waited = self.shared.changed.wait_timeout_while(inner, patience, has_unsent);
        let inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        !inner.state.has_unsent()
    }

    /// Removes garbage once and reports the removed amounts; `None` if the shipper stopped first. Concurrent calls run
    /// one at a time.
    ///
    /// # Errors
    /// The storage did not respond, or a record is invalid. The next collection removes the rest.
    pub fn collect(&self) -> Option<Result<Collected, Lost>> {
        let shared = &self.shared;
        let mut collector = shared.collector.lock().unwrap_or_else(PoisonError::into_inner);
        // Objects in the list on disk are not removed, so a due list is written first.
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

    /// Releases the epoch once everything is in the record log, and waits for the release at most for `patience`. The
    /// store must be closed, so that it reports nothing more. Returns true if the epoch was released.
    #[must_use]
    pub fn give(&self, to: Option<NodeId>, patience: Duration) -> bool {
        self.shared.change(|inner| inner.give = Some(to));
        self.is_given_within(patience)
    }

    /// Releases the epoch at once. Data that is not in the record log is not needed any more and stays on the local
    /// disk. A record in flight is awaited; `patience` bounds the whole call. The store must be closed. Returns true if
    /// the epoch was released.
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
    /// Stops both threads. Data that is not in the record log by now stays on the local disk.
    fn drop(&mut self) {
        self.shared.driver.halt.raise();
        self.shared.change(|inner| inner.is_ended = true);
        for thread in self.threads.drain(..) {
            let _its_panic_is_on_stderr = thread.join();
        }
    }
}
