//! Release of a store's directory while snapshots are still read.
//!
//! Order of steps: running work ends, new work is rejected, the log is closed, and then the directory's lock is
//! released.

use std::sync::PoisonError;

use crate::store::{Store, StoreRole};

impl Store {
    /// Releases the directory for good, so that another store can open it. From then on each write is rejected with
    /// `why`, and the last snapshot stays readable; a [replica](Store::open_replica) must not be
    /// [refreshed](Store::refresh) any more. Waits for a running seal, compaction or erasure.
    pub fn release(&self, why: &str) {
        if let StoreRole::Leader(writer) = &self.role {
            let _no_job = self.rewriting.lock();
            let _no_seal = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
            if let Ok(mut writer) = writer.lock() {
                let _told_at_opening = writer.close();
                let _the_first_reason_stays = self.stop_reason.set(why.to_owned());
            }
        }
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(lock);
    }
}
