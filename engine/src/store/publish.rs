//! Publication of commits: log syncs, replication, snapshots and the commit listener.
//!
//! A snapshot is published after its sync and its replication. `replication_gate` decides when a state may be visible,
//! and `group_commit` selects the syncing thread.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::error::WriteError;
use crate::ids::Seq;
use crate::manifest::Manifest;
use crate::query::snapshot::Snapshot;
use crate::segment_snapshot::SegmentSnapshot;
use crate::store::metrics::Counters;
use crate::store::writer::Writer;
use crate::store::{CommitListener, Store};

impl Store {
    /// Registers a listener that is called after each publication of a snapshot, by the publishing thread and possibly
    /// under the writer's lock. The listener must be quick, wait for nothing and call nothing of the store. Only the
    /// first listener is accepted; returns false for any other.
    pub fn on_commit(&self, tell: impl Fn() + Send + Sync + 'static) -> bool {
        self.commit_listener.set(CommitListener(Box::new(tell))).is_ok()
    }

    /// Snapshot as of the last acknowledged write.
    pub fn snapshot(&self) -> Snapshot {
        self.visible.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Syncs everything written, waits for its replication, and publishes it; returns its newest commit. Called by one
    /// thread at a time.
    pub(super) fn sync_log(&self) -> Result<Seq, WriteError> {
        let (snapshot, bytes, ()) = self.sync_with(|_| ())?;
        let seq = snapshot.seq();
        self.wait_replicated(seq)?;
        self.publish_snapshot(snapshot, bytes);
        self.publish_replicated();
        Ok(seq)
    }

    /// Syncs everything written. Returns its snapshot, the bytes of all files, and the result of `look` at exactly that
    /// state.
    fn sync_with<T>(
        &self,
        look: impl FnOnce(&Writer) -> T,
    ) -> Result<(Snapshot, u64, T), WriteError> {
        let (syncer, mark, snapshot, bytes, found) = {
            let mut writer = self.writer()?;
            let (found, mark) = (look(&writer), writer.log_position());
            (writer.syncer(), mark, writer.snapshot(), writer.bytes_on_disk(), found)
        };
        let synced = syncer.map_or(Ok(()), |syncer| syncer.sync());
        if let Err(error) = synced {
            return Err(self.lock_writer()?.stop(error));
        }
        Counters::increment(&self.counters.syncs);
        if let Some(error) = self.stop_error() {
            // After a known failure nothing is acknowledged.
            return Err(error);
        }
        self.report_synced(mark);
        Ok((snapshot, bytes, found))
    }

    /// Blocks until everything written before the call survives a power cut and, with a synchronous [replication
    /// sink](crate::Env::replication_sink), is replicated. With [`Durability::Interval`](crate::Durability::Interval),
    /// the background workers call this at each interval.
    pub fn sync(&self) -> Result<(), WriteError> {
        let seq = self.writer()?.last_seq();
        self.group_commit.wait_durable(seq, || self.sync_log(), || self.stop_error())
    }

    /// Returns the manifest and segments for a backup, consistent and on disk. Commits not replicated yet are included,
    /// as after a restart, so a backup is possible while replication fails.
    pub(crate) fn backup_state(&self) -> Result<(Manifest, Vec<SegmentSnapshot>), WriteError> {
        let (snapshot, bytes, copied) = self.sync_with(backup_contents)?;
        if self.can_publish(snapshot.seq()) {
            self.publish_snapshot(snapshot, bytes);
        }
        Ok(copied)
    }

    /// Publishes all commits, which are on disk as a manifest was just written. If not all of them are replicated,
    /// publishes nothing, as the writer's lock must not wait for a network.
    pub(crate) fn publish_durable(&self, writer: &mut Writer) {
        if self.can_publish(writer.last_seq()) {
            self.publish(writer);
            self.group_commit.mark_durable(writer.last_seq());
        }
    }

    pub(super) fn publish(&self, writer: &mut Writer) {
        self.publish_snapshot(writer.snapshot(), writer.bytes_on_disk());
    }

    /// Publishes a snapshot, unless a newer one is visible already.
    pub(super) fn publish_snapshot(&self, snapshot: Snapshot, bytes_on_disk: u64) {
        let mut shown = self.visible.write().unwrap_or_else(PoisonError::into_inner);
        if snapshot.view <= shown.view {
            return;
        }
        self.bytes_on_disk.store(bytes_on_disk, Ordering::Relaxed);
        *shown = snapshot;
        drop(shown);
        if let Some(CommitListener(tell)) = self.commit_listener.get() {
            tell();
        }
    }
}

fn backup_contents(writer: &Writer) -> (Manifest, Vec<SegmentSnapshot>) {
    let manifest = Manifest { last_seq: writer.last_seq(), ..writer.manifest.clone() };
    (manifest, writer.segments.all().to_vec())
}
