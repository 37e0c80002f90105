//! Replication gate: commits are acknowledged and visible only once the replication sink has replicated them.
//!
//! Separates commits on this machine's disk from acknowledged ones; the sink is known only as a [`ReplicationSink`].
//! Without a sink, every call passes at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{Remedy, WriteError};
use crate::ids::Seq;
use crate::store::Store;
use crate::store::replication_sink::{
    ReplicationError, ReplicationSink, SinkRejectedError, WalPosition,
};

/// Replication state of a store.
#[derive(Debug)]
pub(super) struct ReplicationGate {
    sink: Arc<dyn ReplicationSink>,
    /// True if writes are acknowledged, and visible, only once they are replicated.
    is_synchronous: bool,
    /// Admitted writes that have not ended.
    writes_in_flight: AtomicUsize,
    /// True if a state was not published because some of its commits were not replicated.
    has_unpublished: AtomicBool,
}

/// Admitted write, counted until it is dropped.
#[derive(Debug)]
pub(super) struct AdmittedWrite<'a>(Option<&'a ReplicationGate>);

impl Drop for AdmittedWrite<'_> {
    fn drop(&mut self) {
        if let Some(carrying) = self.0 {
            carrying.writes_in_flight.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl ReplicationGate {
    pub(super) fn new(far: &Arc<dyn ReplicationSink>) -> Self {
        Self {
            sink: Arc::clone(far),
            is_synchronous: far.is_synchronous(),
            writes_in_flight: AtomicUsize::new(0),
            has_unpublished: AtomicBool::new(false),
        }
    }

    /// Returns true if writes are acknowledged only once they are replicated.
    pub(super) fn is_synchronous(&self) -> bool {
        self.is_synchronous
    }

    /// Newest commit that may be visible, if `seq` is the newest one on disk.
    pub(super) fn visible_seq(&self, seq: Seq) -> Seq {
        if self.is_synchronous { self.sink.replicated_seq().min(seq) } else { seq }
    }
}

impl Store {
    /// Checks with the sink that a batch may be logged now. The returned guard must live until the write has ended.
    pub(super) fn admit(&self) -> Result<AdmittedWrite<'_>, WriteError> {
        let Some(carrying) = &self.replication_gate else { return Ok(AdmittedWrite(None)) };
        let before = carrying.writes_in_flight.fetch_add(1, Ordering::AcqRel);
        let waiting = AdmittedWrite(Some(carrying));
        match carrying.sink.admit(before) {
            Ok(()) => Ok(waiting),
            Err(SinkRejectedError::Busy(why)) => {
                Err(WriteError::Postponed { why, remedy: Remedy::RetryLater })
            }
            Err(SinkRejectedError::Fenced(why)) => Err(self.stop_fenced(why)),
        }
    }

    /// Reports to the sink that a log is on disk up to `mark`.
    pub(super) fn report_synced(&self, mark: Option<WalPosition>) {
        if let (Some(carrying), Some(mark)) = (&self.replication_gate, mark) {
            carrying.sink.on_log_synced(mark);
        }
    }

    /// Blocks until all commits up to `seq`, which are on disk, may be acknowledged. Called by one thread at a time.
    pub(super) fn wait_replicated(&self, seq: Seq) -> Result<(), WriteError> {
        let Some(carrying) = self.replication_gate.as_ref().filter(|it| it.is_synchronous) else {
            return Ok(());
        };
        match carrying.sink.wait_replicated(seq) {
            Ok(()) => Ok(()),
            Err(ReplicationError::Indeterminate(why)) => Err(WriteError::Indeterminate(why)),
            Err(ReplicationError::Fenced(why)) => Err(self.stop_fenced(why)),
        }
    }

    /// Returns true if a state with newest commit `seq` may be published. Otherwise the state is published once it is
    /// replicated.
    pub(super) fn can_publish(&self, seq: Seq) -> bool {
        let Some(carrying) = &self.replication_gate else { return true };
        let may = carrying.visible_seq(seq) == seq;
        if !may {
            carrying.has_unpublished.store(true, Ordering::SeqCst);
        }
        may
    }

    /// Publishes commits that were held back, as far as they are replicated by now.
    pub(super) fn publish_replicated(&self) {
        let Some(carrying) = &self.replication_gate else { return };
        if carrying.has_unpublished.swap(false, Ordering::SeqCst)
            && let Ok(mut writer) = self.writer()
        {
            self.publish_durable(&mut writer);
        }
    }

    /// Publishes everything and releases the waiting writes, if all commits are replicated by now. For a sink that
    /// replicates commits after [`ReplicationSink::wait_replicated`] gave up; waits for no network.
    pub fn release_replicated(&self) {
        let acknowledges =
            self.replication_gate.as_ref().is_some_and(ReplicationGate::is_synchronous);
        if acknowledges && let Ok(mut writer) = self.writer() {
            // Replicated commits are on disk, too.
            self.publish_durable(&mut writer);
        }
    }

    /// Stops the writer: the store belongs to another writer, so further log entries would be lost.
    fn stop_fenced(&self, why: String) -> WriteError {
        let _the_first_reason_stays = self.stop_reason.set(why.clone());
        self.stop_error().unwrap_or(WriteError::Stopped(why))
    }
}
