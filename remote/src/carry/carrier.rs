//! What a store tells, and what it waits for.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::far::{Far, LogMark, NotAdmitted, NotCarried, Published};
use engine::os::clock::{Clock, Random};
use engine::os::disk::{Disk, DiskRead};
use engine::{Seq, Store};

use super::carried::Carried;
use super::state::{Keys, State};
use super::{sending, writing};
use crate::core::{Collected, Collector, Holder, Lost, Noted, Retention, Stamp};
use crate::driver::Driver;
use crate::hex::Nonce;
use crate::limits::{CARRY_WAIT_MAX, FAR_HANG, FAR_WAITERS_MAX, PART_BYTES};
use crate::names::{DataKey, NodeId, Tenant};
use crate::record::Record;

/// How a workspace is carried.
#[derive(Debug, Clone, Copy)]
pub struct CarryHow {
    /// When a write is acknowledged.
    pub when: CarryWhen,
    /// How far back it can be had as it was.
    pub retention: Retention,
}

/// When a write is acknowledged, and how long what is not awaited may wait.
#[derive(Debug, Clone, Copy)]
pub enum CarryWhen {
    /// Once it would survive the loss of this machine.
    Acknowledging,
    /// Once it is on this machine's disk; it follows after so long.
    Following(Duration),
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

/// Why a carrier writes no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    /// The epoch was given away.
    Given,
    /// Another one writes the workspace by now.
    Fenced(String),
    /// What would have been written breaks a rule, or this disk could not be read.
    Broken(String),
}

/// What both threads and the store share.
pub(super) struct Shared {
    pub(super) driver: Driver,
    pub(super) tenant: Tenant,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    pub(super) when: CarryWhen,
    epoch: u64,
    /// What is remembered between collections.
    collector: Mutex<Collector>,
    /// Where is remembered what lies there that no record names; `None` where nothing is. Locked before `inner`.
    carried: Option<Mutex<Carried>>,
    pub(super) inner: Mutex<Inner>,
    pub(super) changed: Condvar,
    store: OnceLock<Weak<Store>>,
}

pub(super) struct Inner {
    pub(super) state: State,
    /// The number of the newest record.
    pub(super) record: u64,
    pub(super) trouble: Option<String>,
    pub(super) over: Option<Over>,
    /// Whom the epoch is to be given to, once all is in the chain.
    pub(super) give: Option<Option<NodeId>>,
    /// A write gave up waiting: when its commit is in the chain, the store must be told.
    pub(super) is_abandoned: bool,
    /// Nobody wants anything more.
    pub(super) is_ended: bool,
    /// Records that a collection does not know of yet.
    pub(super) noted: Vec<Noted>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carrier").field("tenant", &self.tenant).finish_non_exhaustive()
    }
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
            trouble: None,
            over: None,
            give: None,
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
        let mut inner = self.shared.lock();
        inner.give = Some(to);
        self.shared.changed.notify_all();
        let waited =
            self.shared.changed.wait_timeout_while(inner, patience, |inner| inner.over.is_none());
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

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn nonce(&self) -> Nonce {
        Nonce::drawn(&*self.random)
    }

    pub(super) fn stamp(&self) -> Stamp {
        Stamp { at: self.clock.now().0, nonce: self.nonce() }
    }

    /// Whether the threads are to go on.
    pub(super) fn goes_on(&self) -> bool {
        self.lock().goes_on()
    }

    /// So many bytes of a file were put. Once they are many, it is remembered which.
    pub(super) fn put(&self, bytes: u64) {
        let is_much = {
            let state = &mut self.lock().state;
            state.unlisted += bytes;
            state.unlisted >= PART_BYTES
        };
        if is_much {
            self.write_list();
        }
    }

    /// Remembers what lies there that no record names. Where that fails it is sent again after a restart, and nothing
    /// that an earlier list has is removed.
    pub(super) fn write_list(&self) {
        let Some(carried) = &self.carried else { return };
        let carried = carried.lock().unwrap_or_else(PoisonError::into_inner);
        let list = self.lock().state.list();
        if carried.write(&list).is_ok() {
            self.lock().state.list_written(&list);
        }
    }

    /// Something is over, or changed.
    pub(super) fn change(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Commits are in the chain that a write gave up waiting for: the store shows them.
    pub(super) fn show(&self) {
        let was_abandoned = std::mem::take(&mut self.lock().is_abandoned);
        if was_abandoned && let Some(store) = self.store.get().and_then(Weak::upgrade) {
            store.show_carried();
        }
    }

    /// What the store told could not be read from its disk.
    fn broken(&self, told: Result<(), engine::DiskError>) {
        if let Err(error) = told {
            self.change(|inner| {
                inner.over.get_or_insert(Over::Broken(error.to_string()));
            });
        }
        self.changed.notify_all();
    }
}

impl Inner {
    /// The same.
    pub(super) fn goes_on(&self) -> bool {
        !self.is_ended && self.over.is_none()
    }
}

impl Keys for Shared {
    fn key(&self) -> DataKey {
        DataKey { epoch: self.epoch, nonce: self.nonce() }
    }
}

impl Over {
    /// For people.
    fn why(&self) -> String {
        match self {
            Self::Given => "the workspace was given away".to_owned(),
            Self::Fenced(why) => why.clone(),
            Self::Broken(why) => format!("it cannot be carried away: {why}"),
        }
    }
}

impl Far for Shared {
    fn acknowledges(&self) -> bool {
        matches!(self.when, CarryWhen::Acknowledging)
    }

    fn admits(&self, waiting: usize) -> Result<(), NotAdmitted> {
        let inner = self.lock();
        if let Some(over) = &inner.over {
            return Err(NotAdmitted::Fenced(over.why()));
        }
        if !self.acknowledges() {
            return Ok(());
        }
        if waiting >= FAR_WAITERS_MAX {
            let why = format!("{waiting} writes wait for the remote");
            return Err(NotAdmitted::Busy(why));
        }
        let since = inner.state.unsent_since.filter(|_| inner.state.unsent_bytes() > 0);
        let waits = since.map_or(Duration::ZERO, |since| self.driver.ticks.now() - since);
        if waits <= FAR_HANG {
            return Ok(());
        }
        let why = inner.trouble.as_deref().unwrap_or("it is slow");
        let seconds = waits.as_secs();
        Err(NotAdmitted::Busy(format!("the remote has not taken a write for {seconds} s ({why})")))
    }

    fn began_log(&self, mark: LogMark, file: Box<dyn DiskRead>) {
        self.change(|inner| inner.state.began_log(mark, file, self.driver.ticks.now()));
    }

    fn synced(&self, mark: LogMark) {
        self.change(|inner| inner.state.synced(mark, self.driver.ticks.now()));
    }

    fn published(&self, published: &Published<'_>) {
        let told = self.lock().state.published(published, self, self.driver.ticks.now());
        self.broken(told);
    }

    fn indexed(&self, name: &str, disk: &dyn Disk) {
        let told = self.lock().state.indexed(name, disk, self);
        self.broken(told);
    }

    fn carry(&self, seq: Seq) -> Result<(), NotCarried> {
        let inner = self.lock();
        let waits = |inner: &mut Inner| inner.over.is_none() && inner.state.shown < seq;
        let waited = self.changed.wait_timeout_while(inner, CARRY_WAIT_MAX, waits);
        let mut inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        if inner.state.shown >= seq {
            return Ok(());
        }
        if let Some(over) = &inner.over {
            return Err(NotCarried::Fenced(over.why()));
        }
        inner.is_abandoned = true;
        let why = inner.trouble.clone().unwrap_or_else(|| "it did not answer".to_owned());
        Err(NotCarried::Unknown(format!("the remote did not take it in time ({why})")))
    }

    fn carried(&self) -> Seq {
        self.lock().state.shown
    }
}
