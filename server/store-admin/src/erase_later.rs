//! Background erasure in backups and on a remote: erases what an unreachable backup or node or an interrupted process
//! left, as soon as possible.
//!
//! Runs at start and then periodically. The store's own maintenance erases in the store itself.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use engine::ledger::Outcome;
use serde_json::json;

use crate::admin_state::StoreAdmin;
use crate::erase_backups;
use crate::erase_far;
use crate::keep_error::KeepError;
use crate::keeping::{Keeper, Note};
use crate::known::Known;
use recalld_common::cancel::CancellationToken;
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_policy::Caller;
use recalld_telemetry::log;
use recalld_telemetry::log::Level;
use recalld_telemetry::ticker::Ticker;

/// Operation of the ledger entry.
const OPERATION: &str = "recalld erase: upkeep";

/// Background thread; ends when dropped.
pub struct EraseLater {
    cancel: CancellationToken,
    _ticker: Ticker,
}

impl EraseLater {
    /// Starts the thread, which runs now and then at the interval `every`.
    pub fn start(admin: Arc<StoreAdmin>, every: Duration) -> io::Result<Self> {
        let cancel = CancellationToken::new();
        let theirs = cancel.clone();
        let mut told = None;
        let work = move || {
            let why = attempt(&admin, &theirs).err().map(|error| error.to_string());
            if let Some(why) = why.as_ref().filter(|_| why != told) {
                log::event(Level::Warn, &why.to_string(), &[]);
            }
            told = why;
        };
        Ok(Self { cancel, _ticker: Ticker::start("backup-erasures", every, work)? })
    }
}

impl Drop for EraseLater {
    fn drop(&mut self) {
        // Cancels the current run, after which the thread ends.
        self.cancel.cancel();
    }
}

/// Erases in reachable backups. An unreachable backup is not an error.
fn attempt(admin: &StoreAdmin, cancel: &CancellationToken) -> Result<(), KeepError> {
    let mend_far = "mend it; until then what was erased is not known to be gone from the remote";
    erase_far::go_on(admin).map_err(|why| KeepError::failed(why, mend_far))?;
    let mend = "mend it; until then what it names is not erased in backups";
    let known = Known::read(&admin.data).map_err(|why| KeepError::failed(why, mend))?;
    // Checked without the job permit, so that an unresponsive disk does not block other jobs.
    if !erase_backups::is_due(&known) {
        return Ok(());
    }
    let caller = Caller::local_operator(LOCAL_WORKSPACE);
    let local = admin.local.get();
    let keeper = Keeper::of(admin, &local, &caller, cancel, &|_, _, _| {});
    let _turn = keeper.turn()?;
    let lost = erase_backups::erase(&keeper)?;
    let failed: Vec<String> =
        lost.iter().filter_map(|it| Some(format!("{}: {}", it.path, it.why.as_ref()?))).collect();
    if failed.len() < lost.len() {
        let outcome = if failed.is_empty() { Outcome::Done } else { Outcome::Failed };
        keeper.record(Note { outcome, ..Note::of(OPERATION, &json!({})) })?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    let why = format!("backups that still hold what was erased: {}", failed.join(", "));
    Err(KeepError::failed(why, "the server tries again"))
}
