//! Replication gate: commits are acknowledged and visible only once the replication sink has replicated them.
//!
//! Separates commits on this machine's disk from acknowledged ones; the sink is known only as a [`Far`]. Without a
//! sink, every call passes at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{Remedy, WriteError};
use crate::ids::Seq;
use crate::store::Store;
use crate::store::far::{Far, LogMark, NotAdmitted, NotCarried};

/// Replication state of a store.
#[derive(Debug)]
pub(super) struct Carrying {
    far: Arc<dyn Far>,
    /// True if writes are acknowledged, and visible, only once they are replicated.
    acknowledges: bool,
    /// Admitted writes that have not ended.
    waiting: AtomicUsize,
    /// True if a state was not published because some of its commits were not replicated.
    is_behind: AtomicBool,
}

/// Admitted write, counted until it is dropped.
#[derive(Debug)]
pub(super) struct Waiting<'a>(Option<&'a Carrying>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(carrying) = self.0 {
            carrying.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Carrying {
    pub(super) fn by(far: &Arc<dyn Far>) -> Self {
        Self {
            far: Arc::clone(far),
            acknowledges: far.acknowledges(),
            waiting: AtomicUsize::new(0),
            is_behind: AtomicBool::new(false),
        }
    }

    /// Returns true if writes are acknowledged only once they are replicated.
    pub(super) fn acknowledges(&self) -> bool {
        self.acknowledges
    }

    /// Newest commit that may be visible, if `seq` is the newest one on disk.
    pub(super) fn shown_to(&self, seq: Seq) -> Seq {
        if self.acknowledges { self.far.carried().min(seq) } else { seq }
    }
}

impl Store {
    /// Checks with the sink that a batch may be logged now. The returned guard must live until the write has ended.
    pub(super) fn admit(&self) -> Result<Waiting<'_>, WriteError> {
        let Some(carrying) = &self.carrying else { return Ok(Waiting(None)) };
        let before = carrying.waiting.fetch_add(1, Ordering::AcqRel);
        let waiting = Waiting(Some(carrying));
        match carrying.far.admits(before) {
            Ok(()) => Ok(waiting),
            Err(NotAdmitted::Busy(why)) => {
                Err(WriteError::Postponed { why, remedy: Remedy::RetryLater })
            }
            Err(NotAdmitted::Fenced(why)) => Err(self.fenced(why)),
        }
    }

    /// Reports to the sink that a log is on disk up to `mark`.
    pub(super) fn tell_synced(&self, mark: Option<LogMark>) {
        if let (Some(carrying), Some(mark)) = (&self.carrying, mark) {
            carrying.far.synced(mark);
        }
    }

    /// Blocks until all commits up to `seq`, which are on disk, may be acknowledged. Called by one thread at a time.
    pub(super) fn carry(&self, seq: Seq) -> Result<(), WriteError> {
        let Some(carrying) = self.carrying.as_ref().filter(|it| it.acknowledges) else {
            return Ok(());
        };
        match carrying.far.carry(seq) {
            Ok(()) => Ok(()),
            Err(NotCarried::Unknown(why)) => Err(WriteError::Unsure(why)),
            Err(NotCarried::Fenced(why)) => Err(self.fenced(why)),
        }
    }

    /// Returns true if a state with newest commit `seq` may be published. Otherwise the state is published once it is
    /// replicated.
    pub(super) fn may_show(&self, seq: Seq) -> bool {
        let Some(carrying) = &self.carrying else { return true };
        let may = carrying.shown_to(seq) == seq;
        if !may {
            carrying.is_behind.store(true, Ordering::SeqCst);
        }
        may
    }

    /// Publishes commits that were held back, as far as they are replicated by now.
    pub(super) fn catch_up(&self) {
        let Some(carrying) = &self.carrying else { return };
        if carrying.is_behind.swap(false, Ordering::SeqCst)
            && let Ok(mut writer) = self.writer()
        {
            self.show_settled(&mut writer);
        }
    }

    /// Publishes everything and releases the waiting writes, if all commits are replicated by now. For a sink that
    /// replicates commits after [`Far::carry`] gave up; waits for no network.
    pub fn show_carried(&self) {
        let acknowledges = self.carrying.as_ref().is_some_and(Carrying::acknowledges);
        if acknowledges && let Ok(mut writer) = self.writer() {
            // Replicated commits are on disk, too.
            self.show_settled(&mut writer);
        }
    }

    /// Stops the writer: the store belongs to another writer, so further log entries would be lost.
    fn fenced(&self, why: String) -> WriteError {
        let _the_first_reason_stays = self.stopped.set(why.clone());
        self.stop_error().unwrap_or(WriteError::Stopped(why))
    }
}
