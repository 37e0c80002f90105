//! A store that lets go of its directory, while whoever has it still reads what it showed.
//!
//! Owns the order: what is being done there ends, nothing more is begun, the log ends in good order, and only then
//! somebody else may have the directory.

use std::sync::PoisonError;

use crate::store::{Role, Store};

impl Store {
    /// Lets go of the directory for good, for another opening of it. From then on each write is answered with
    /// `why`, and what was shown last can still be read; a store that [follows](Store::follow) must not be
    /// [refreshed](Store::refresh) any more. Waits for a seal, a compaction or an erasure that is at work.
    pub fn release(&self, why: &str) {
        if let Role::Writes(writer) = &self.role {
            let _no_job = self.compacting.take();
            let _no_seal = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
            if let Ok(mut writer) = writer.lock() {
                let _told_at_opening = writer.close();
                let _the_first_reason_stays = self.stopped.set(why.to_owned());
            }
        }
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(lock);
    }
}
