//! What a server does by itself about erasures in backups, and on a remote: what a backup or a node out of reach still
//! holds, or a process that was cut short left, goes as soon as it can be reached.
//!
//! Looks at its start and at intervals from then on. Erasing in the store itself is its upkeep's.

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

/// In the ledger.
const OPERATION: &str = "recalld erase: upkeep";

/// The thread; it ends when this is dropped.
pub struct EraseLater {
    cancel: CancellationToken,
    _ticker: Ticker,
}

impl EraseLater {
    /// Looks now, and then `every` so often.
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
        // What it is at is called off; then the thread ends.
        self.cancel.cancel();
    }
}

/// Erases in the backups that can be reached. A backup that is away is no error.
fn attempt(admin: &StoreAdmin, cancel: &CancellationToken) -> Result<(), KeepError> {
    let mend_far = "mend it; until then what was erased is not known to be gone from the remote";
    erase_far::go_on(admin).map_err(|why| KeepError::failed(why, mend_far))?;
    let mend = "mend it; until then what it names is not erased in backups";
    let known = Known::read(&admin.data).map_err(|why| KeepError::failed(why, mend))?;
    // Looked at before the turn is taken, so that a place that does not answer holds nobody up.
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
