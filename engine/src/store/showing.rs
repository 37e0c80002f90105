//! Publication of commits: log syncs, replication, snapshots and the commit listener.
//!
//! A snapshot is published after its sync and its replication. The replication gate (`carrying`) decides when a state
//! may be visible, and the group commit (`settle`) selects the syncing thread.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::error::WriteError;
use crate::ids::Seq;
use crate::manifest::Manifest;
use crate::part::Part;
use crate::reading::snapshot::Snapshot;
use crate::store::figures::Tally;
use crate::store::writer::Writer;
use crate::store::{Store, Tell};

impl Store {
    /// Registers a listener that is called after each publication of a snapshot, by the publishing thread and possibly
    /// under the writer's lock. The listener must be quick, wait for nothing and call nothing of the store. Only the
    /// first listener is accepted; returns false for any other.
    pub fn tell_of_news(&self, tell: impl Fn() + Send + Sync + 'static) -> bool {
        self.on_news.set(Tell(Box::new(tell))).is_ok()
    }

    /// Snapshot as of the last acknowledged write.
    pub fn snapshot(&self) -> Snapshot {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Syncs everything written, waits for its replication, and publishes it; returns its newest commit. Called by one
    /// thread at a time.
    pub(super) fn sync_log(&self) -> Result<Seq, WriteError> {
        let (snapshot, bytes, ()) = self.sync_with(|_| ())?;
        let seq = snapshot.seq();
        self.carry(seq)?;
        self.show_snapshot(snapshot, bytes);
        self.catch_up();
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
            let (found, mark) = (look(&writer), writer.mark());
            (writer.syncer(), mark, writer.snapshot(), writer.bytes_on_disk(), found)
        };
        let synced = syncer.map_or(Ok(()), |syncer| syncer.sync());
        if let Err(error) = synced {
            return Err(self.lock_writer()?.stop(error));
        }
        Tally::count(&self.tally.syncs);
        if let Some(error) = self.stop_error() {
            // After a known failure nothing is acknowledged.
            return Err(error);
        }
        self.tell_synced(mark);
        Ok((snapshot, bytes, found))
    }

    /// Blocks until everything written before the call survives a power cut and, with a synchronous [replication
    /// sink](crate::Ground::far), is replicated. With [`Durability::Interval`](crate::Durability::Interval), the
    /// background workers call this at each interval.
    pub fn sync(&self) -> Result<(), WriteError> {
        let seq = self.writer()?.last_seq();
        self.settling.settle(seq, || self.sync_log(), || self.stop_error())
    }

    /// Returns the manifest and segments for a backup, consistent and on disk. Commits not replicated yet are included,
    /// as after a restart, so a backup is possible while replication fails.
    pub(crate) fn to_copy(&self) -> Result<(Manifest, Vec<Part>), WriteError> {
        let (snapshot, bytes, copied) = self.sync_with(what_to_copy)?;
        if self.may_show(snapshot.seq()) {
            self.show_snapshot(snapshot, bytes);
        }
        Ok(copied)
    }

    /// Publishes all commits, which are on disk as a manifest was just written. If not all of them are replicated,
    /// publishes nothing, as the writer's lock must not wait for a network.
    pub(crate) fn show_settled(&self, writer: &mut Writer) {
        if self.may_show(writer.last_seq()) {
            self.show(writer);
            self.settling.note(writer.last_seq());
        }
    }

    pub(super) fn show(&self, writer: &mut Writer) {
        self.show_snapshot(writer.snapshot(), writer.bytes_on_disk());
    }

    /// Publishes a snapshot, unless a newer one is visible already.
    pub(super) fn show_snapshot(&self, snapshot: Snapshot, bytes_on_disk: u64) {
        let mut shown = self.shown.write().unwrap_or_else(PoisonError::into_inner);
        if snapshot.view <= shown.view {
            return;
        }
        self.bytes_on_disk.store(bytes_on_disk, Ordering::Relaxed);
        *shown = snapshot;
        drop(shown);
        if let Some(Tell(tell)) = self.on_news.get() {
            tell();
        }
    }
}

fn what_to_copy(writer: &Writer) -> (Manifest, Vec<Part>) {
    let manifest = Manifest { last_seq: writer.last_seq(), ..writer.manifest.clone() };
    (manifest, writer.rows.all().to_vec())
}
