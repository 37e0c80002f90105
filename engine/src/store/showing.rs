//! From the log to what is acknowledged and shown: syncs, snapshots, and who is told of them.
//!
//! Owns the order of a sync, a carry and a new snapshot; whether a state may be shown yet is asked of
//! `carrying`, and who syncs for whom of `settle`.

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
    /// Has `tell` called whenever a new snapshot is shown, by the thread that showed it and while it
    /// may hold the writer: it must be quick, wait for nothing and ask nothing of the store. The first
    /// stays; gives whether it was this one.
    pub fn tell_of_news(&self, tell: impl Fn() + Send + Sync + 'static) -> bool {
        self.on_news.set(Tell(Box::new(tell))).is_ok()
    }

    /// The store as of the last acknowledged write.
    pub fn snapshot(&self) -> Snapshot {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Brings everything that is written to disk, has it carried, and shows it. Gives the newest commit
    /// of it. One thread at a time comes here.
    pub(super) fn sync_log(&self) -> Result<Seq, WriteError> {
        let (snapshot, bytes, ()) = self.sync_with(|_| ())?;
        let seq = snapshot.seq();
        self.carry(seq)?;
        self.show_snapshot(snapshot, bytes);
        self.catch_up();
        Ok(seq)
    }

    /// Brings everything that is written to disk. Gives a snapshot of it, bytes of all files, and what
    /// `look` finds where exactly that is written.
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
            // Nothing is acknowledged once it is known that something failed.
            return Err(error);
        }
        self.tell_synced(mark);
        Ok((snapshot, bytes, found))
    }

    /// Returns once everything that was written before the call survives a power cut, and is carried
    /// where a [far](crate::Ground::far) acknowledges. With
    /// [`Durability::Interval`](crate::Durability::Interval) this is what upkeep calls at each interval.
    pub fn sync(&self) -> Result<(), WriteError> {
        let seq = self.writer()?.last_seq();
        self.settling.settle(seq, || self.sync_log(), || self.stop_error())
    }

    /// What a backup copies: a manifest and parts that say the same, all of it on disk. What is not
    /// carried yet is in it, as it is after a restart: while nothing can be carried a backup can be made.
    pub(crate) fn to_copy(&self) -> Result<(Manifest, Vec<Part>), WriteError> {
        let (snapshot, bytes, copied) = self.sync_with(what_to_copy)?;
        if self.may_show(snapshot.seq()) {
            self.show_snapshot(snapshot, bytes);
        }
        Ok(copied)
    }

    /// Shows everything, all of which is on disk: a manifest was just put in place. While not all of it
    /// is carried, nothing: no network is waited for with the writer in hand.
    pub(crate) fn show_settled(&self, writer: &mut Writer) {
        if self.may_show(writer.last_seq()) {
            self.show(writer);
            self.settling.note(writer.last_seq());
        }
    }

    pub(super) fn show(&self, writer: &mut Writer) {
        self.show_snapshot(writer.snapshot(), writer.bytes_on_disk());
    }

    /// Shows a snapshot, unless a newer one is shown by now.
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
