//! What a server does by itself about erasures in backups: what a backup out of reach still holds, or
//! a process that was cut short left, goes as soon as the backup can be reached.
//!
//! Looks at its start and at intervals from then on. Erasing in the store itself is its upkeep's.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use engine::ledger::Outcome;
use serde_json::json;

use super::erase_backups;
use super::keeping::{KeepError, Keeper, Note};
use super::known::Known;
use crate::auth::LOCAL_WORKSPACE;
use crate::log::{self, Level};
use crate::net::Cancel;
use crate::parts::{Caller, Parts};

/// In the ledger.
const OPERATION: &str = "recalld erase: upkeep";

/// The thread; it ends when this is dropped.
pub struct EraseLater {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    cancel: Cancel,
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl EraseLater {
    /// Looks now, and then `every` so often.
    pub fn start(parts: Arc<Parts>, every: Duration) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let theirs = Arc::clone(&stop);
        let name = "backup-erasures".to_owned();
        let work = move || {
            let mut told = None;
            loop {
                let why = attempt(&parts, &theirs.cancel).err().map(|error| error.to_string());
                if let Some(why) = why.as_ref().filter(|_| why != told) {
                    log::event(Level::Warn, &why.to_string(), &[]);
                }
                told = why;
                if !theirs.wait(every) {
                    return;
                }
            }
        };
        let thread = Some(thread::Builder::new().name(name).spawn(work)?);
        Ok(Self { stop, thread })
    }
}

impl Drop for EraseLater {
    fn drop(&mut self) {
        self.stop.cancel.raise();
        *self.stop.is_over() = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _its_panic_is_on_stderr = thread.join();
        }
    }
}

impl Stop {
    fn is_over(&self) -> MutexGuard<'_, bool> {
        self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits; gives whether to go on.
    fn wait(&self, every: Duration) -> bool {
        let (mut is_over, began) = (self.is_over(), Instant::now());
        while !*is_over {
            let Some(left) = every.checked_sub(began.elapsed()) else { break };
            let waited = self.changed.wait_timeout(is_over, left);
            is_over = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !*is_over
    }
}

/// Erases in the backups that can be reached. A backup that is away is no error.
fn attempt(parts: &Parts, cancel: &Cancel) -> Result<(), KeepError> {
    let mend = "mend it; until then what it names is not erased in backups";
    let known = Known::read(&parts.data).map_err(|why| KeepError::failed(why, mend))?;
    // Looked at before the turn is taken, so that a place that does not answer holds nobody up.
    if !erase_backups::is_due(&known) {
        return Ok(());
    }
    let caller = Caller::local_operator(LOCAL_WORKSPACE);
    let keeper = Keeper::of(parts, &caller, cancel, &|_, _, _| {});
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
