//! A store that is carried away: what is asked before a write, and what is carried before it is shown.
//!
//! Owns the gate between what is on this machine's disk and what is acknowledged and shown; knows no more of
//! who carries it than [`Far`]. A store without one passes through all of this at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{Remedy, WriteError};
use crate::ids::Seq;
use crate::store::Store;
use crate::store::far::{Far, LogMark, NotAdmitted, NotCarried};

/// What a store keeps of whoever carries it.
#[derive(Debug)]
pub(super) struct Carrying {
    far: Arc<dyn Far>,
    /// Whether writes are acknowledged, and shown, only once they are carried.
    acknowledges: bool,
    /// Writes that were admitted and have not ended.
    waiting: AtomicUsize,
    /// Whether a state was not shown because not all of it was carried.
    is_behind: AtomicBool,
}

/// A write that was admitted.
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

    /// Whether writes are acknowledged only once they are carried.
    pub(super) fn acknowledges(&self) -> bool {
        self.acknowledges
    }

    /// The newest commit that may be shown, where `seq` is the newest one on disk.
    pub(super) fn shown_to(&self, seq: Seq) -> Seq {
        if self.acknowledges { self.far.carried().min(seq) } else { seq }
    }
}

impl Store {
    /// Whether a batch may be logged now. What this gives is held until the write has ended.
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

    /// Tells that a log is on disk up to the mark.
    pub(super) fn tell_synced(&self, mark: Option<LogMark>) {
        if let (Some(carrying), Some(mark)) = (&self.carrying, mark) {
            carrying.far.synced(mark);
        }
    }

    /// Returns once all up to commit `seq`, which is on disk, may be acknowledged. One thread at a time
    /// comes here.
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

    /// Whether a state may be shown whose newest commit is `seq`. Where it may not, it is once that is
    /// carried.
    pub(super) fn may_show(&self, seq: Seq) -> bool {
        let Some(carrying) = &self.carrying else { return true };
        let may = carrying.shown_to(seq) == seq;
        if !may {
            carrying.is_behind.store(true, Ordering::SeqCst);
        }
        may
    }

    /// Shows what could not be shown before, as far as all of it is carried by now.
    pub(super) fn catch_up(&self) {
        let Some(carrying) = &self.carrying else { return };
        if carrying.is_behind.swap(false, Ordering::SeqCst)
            && let Ok(mut writer) = self.writer()
        {
            self.show_settled(&mut writer);
        }
    }

    /// Shows everything, and lets those that wait for it go on, if all of it is carried by now. For
    /// whoever carries what [`Far::carry`] gave up: waits for no network.
    pub fn show_carried(&self) {
        let acknowledges = self.carrying.as_ref().is_some_and(Carrying::acknowledges);
        if acknowledges && let Ok(mut writer) = self.writer() {
            // What is carried is on disk, too.
            self.show_settled(&mut writer);
        }
    }

    /// The writer stops: what it would log from now on is nobody's.
    fn fenced(&self, why: String) -> WriteError {
        let _the_first_reason_stays = self.stopped.set(why.clone());
        self.stop_error().unwrap_or(WriteError::Stopped(why))
    }
}
