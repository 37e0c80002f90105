//! State that a shipper's two threads and its store share, and the replication sink that the store calls.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use engine::os::clock::{Clock, Random};
use engine::os::disk::{Disk, DiskRead};
use engine::replication_sink::{
    PublishedManifest, ReplicationError, ReplicationSink, SinkRejectedError, WalPosition,
};
use engine::{Seq, Store};

use super::carried::Carried;
use super::state::{Keys, State};
use crate::core::{Collector, Noted, Stamp};
use crate::driver::Driver;
use crate::hex::Nonce;
use crate::limits::{CARRY_WAIT_MAX, FAR_HANG, FAR_WAITERS_MAX, PART_BYTES};
use crate::names::{DataKey, NodeId, Tenant};
use crate::ticks::Ticks;

/// Point at which a write is acknowledged, and the delay of uploads that no write waits for.
#[derive(Debug, Clone, Copy)]
pub enum CarryWhen {
    /// Once the write would survive the loss of this machine.
    Acknowledging,
    /// Once the write is on the local disk; the upload follows after this delay.
    Following(Duration),
}

/// Reason why a shipper has stopped writing records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    /// The epoch was released.
    Given,
    /// Another writer has the workspace, as the text describes.
    Fenced(String),
    /// The record to be written breaks a rule, or the local disk could not be read.
    Broken(String),
}

pub(super) struct Shared {
    pub(super) driver: Driver,
    pub(super) tenant: Tenant,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    pub(super) when: CarryWhen,
    pub(super) epoch: u64,
    /// Garbage collector, with its state between collections.
    pub(super) collector: Mutex<Collector>,
    /// List of uploaded parts that no record references; `None` if the list is not saved. Lock order: before `inner`.
    pub(super) carried: Option<Mutex<Carried>>,
    pub(super) inner: Mutex<Inner>,
    pub(super) changed: Condvar,
    pub(super) store: OnceLock<Weak<Store>>,
}

pub(super) struct Inner {
    pub(super) state: State,
    /// Number of the newest record.
    pub(super) record: u64,
    /// A time just before the newest record was sent.
    pub(super) known: Ticks,
    /// True if a record is requested to confirm that no other node has written the workspace.
    pub(super) confirms: bool,
    pub(super) trouble: Option<String>,
    pub(super) over: Option<Over>,
    /// Requested release, to be written once everything is in the record log. The inner value names the node to acquire
    /// next, if any.
    pub(super) give: Option<Option<NodeId>>,
    /// True if the epoch is to be released at once, without further uploads.
    pub(super) gives_up: bool,
    /// True if a write has timed out: the store must be notified once the commit is in the record log.
    pub(super) is_abandoned: bool,
    /// True once the shipper is dropped.
    pub(super) is_ended: bool,
    /// Records that were not reported to the collector yet.
    pub(super) noted: Vec<Noted>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carrier").field("tenant", &self.tenant).finish_non_exhaustive()
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

    /// Returns true while the threads must go on.
    pub(super) fn goes_on(&self) -> bool {
        self.lock().goes_on()
    }

    /// Returns true while uploads may go on.
    pub(super) fn sends(&self) -> bool {
        self.lock().sends()
    }

    /// Counts uploaded bytes of a file. Once `PART_BYTES` are reached, the list of uploaded parts is written.
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

    /// Writes the list of uploaded parts that no record references. If the write fails, these parts are uploaded again
    /// after a restart, and nothing in the earlier list is removed.
    pub(super) fn write_list(&self) {
        let Some(carried) = &self.carried else { return };
        let carried = carried.lock().unwrap_or_else(PoisonError::into_inner);
        let list = self.lock().state.list();
        if carried.write(&list).is_ok() {
            self.lock().state.list_written(&list);
        }
    }

    /// Changes the state and wakes all waiters.
    pub(super) fn change(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Makes the store publish commits in the record log whose write has timed out.
    pub(super) fn show(&self) {
        let was_abandoned = std::mem::take(&mut self.lock().is_abandoned);
        if was_abandoned && let Some(store) = self.store.get().and_then(Weak::upgrade) {
            store.release_replicated();
        }
    }

    /// Stops the shipper if a reported file could not be read from the local disk, and wakes all waiters.
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
    pub(super) fn goes_on(&self) -> bool {
        !self.is_ended && self.over.is_none()
    }

    pub(super) fn sends(&self) -> bool {
        self.goes_on() && !self.gives_up
    }
}

impl Keys for Shared {
    fn key(&self) -> DataKey {
        DataKey { epoch: self.epoch, nonce: self.nonce() }
    }
}

impl Over {
    /// Reason as text for a person.
    fn why(&self) -> String {
        match self {
            Self::Given => "the workspace was given away".to_owned(),
            Self::Fenced(why) => why.clone(),
            Self::Broken(why) => format!("it cannot be carried away: {why}"),
        }
    }
}

impl ReplicationSink for Shared {
    fn is_synchronous(&self) -> bool {
        matches!(self.when, CarryWhen::Acknowledging)
    }

    fn admit(&self, waiting: usize) -> Result<(), SinkRejectedError> {
        let inner = self.lock();
        if let Some(over) = &inner.over {
            return Err(SinkRejectedError::Fenced(over.why()));
        }
        if !self.is_synchronous() {
            return Ok(());
        }
        if waiting >= FAR_WAITERS_MAX {
            let why = format!("{waiting} writes wait for the remote");
            return Err(SinkRejectedError::Busy(why));
        }
        let since = inner.state.unsent_since.filter(|_| inner.state.unsent_bytes() > 0);
        let waits = since.map_or(Duration::ZERO, |since| self.driver.ticks.now() - since);
        if waits <= FAR_HANG {
            return Ok(());
        }
        let why = inner.trouble.as_deref().unwrap_or("it is slow");
        let seconds = waits.as_secs();
        Err(SinkRejectedError::Busy(format!(
            "the remote has not taken a write for {seconds} s ({why})"
        )))
    }

    fn on_log_created(&self, mark: WalPosition, file: Box<dyn DiskRead>) {
        self.change(|inner| inner.state.began_log(mark, file, self.driver.ticks.now()));
    }

    fn on_log_synced(&self, mark: WalPosition) {
        self.change(|inner| inner.state.synced(mark, self.driver.ticks.now()));
    }

    fn on_manifest_published(&self, published: &PublishedManifest<'_>) {
        let told = self.lock().state.published(published, self, self.driver.ticks.now());
        self.broken(told);
    }

    fn on_index_created(&self, name: &str, disk: &dyn Disk) {
        let told = self.lock().state.indexed(name, disk, self);
        self.broken(told);
    }

    fn wait_replicated(&self, seq: Seq) -> Result<(), ReplicationError> {
        let inner = self.lock();
        let waits = |inner: &mut Inner| inner.over.is_none() && inner.state.shown < seq;
        let waited = self.changed.wait_timeout_while(inner, CARRY_WAIT_MAX, waits);
        let mut inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        if inner.state.shown >= seq {
            return Ok(());
        }
        if let Some(over) = &inner.over {
            return Err(ReplicationError::Fenced(over.why()));
        }
        inner.is_abandoned = true;
        let why = inner.trouble.clone().unwrap_or_else(|| "it did not answer".to_owned());
        Err(ReplicationError::Indeterminate(format!("the remote did not take it in time ({why})")))
    }

    fn replicated_seq(&self) -> Seq {
        self.lock().state.shown
    }
}
