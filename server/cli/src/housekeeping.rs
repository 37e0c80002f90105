//! Periodic tasks of a server: flushes of quota usage, metastore sweeps and audit entries of failed sign-ins.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recalld_replication::limits::{DELETED_SLACK, FOLLOW_PAUSE_MAX};

use recalld_api::app_state::AppState;
use recalld_api::operator::admin::remove_deleted;
use recalld_cluster::seats::GIVE_WAIT_MAX;
use recalld_metastore::{Control, ControlError, SWEPT_TOGETHER_MAX};
use recalld_policy::limits::CALL_TIME_MAX;
use recalld_policy::meter::{METER_FLUSH_EVERY, METER_FLUSH_SHARED_EVERY};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};
use recalld_telemetry::ticker::Ticker;

/// Interval of metastore sweeps, and of re-reads of the access tokens' signing keys.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

// A node that still uploads a workspace deleted elsewhere is no evidence that the workspace is alive. The slack covers
// the longest delay: the node learns of the deletion, waits for a running call, sweeps, and releases the lease.
const _: () = assert!(
    DELETED_SLACK.as_secs()
        > FOLLOW_PAUSE_MAX.as_secs()
            + CALL_TIME_MAX.as_secs()
            + SWEEP_EVERY.as_secs()
            + GIVE_WAIT_MAX.as_secs()
);

/// Interval at which failed sign-ins are written to the ledgers.
const ATTEMPTS_EVERY: Duration = Duration::from_secs(1);

/// The task threads. Dropping the value ends them and closes the meter.
pub struct Housekeeping {
    parts: Arc<AppState>,
    /// Ended before the last usage is written.
    tickers: Option<[Ticker; 3]>,
}

impl Housekeeping {
    /// Starts the threads.
    ///
    /// # Errors
    /// If a thread cannot be spawned.
    pub fn start(parts: Arc<AppState>) -> io::Result<Self> {
        let [metered, swept, refused] = [(); 3].map(|()| Arc::clone(&parts));
        let mut told = None;
        let mut flushed: Option<Instant> = None;
        let flush = Ticker::start("meter", METER_FLUSH_EVERY, move || {
            if metered.control_chain.is_some() && told.is_none() && is_early(flushed) {
                return;
            }
            flushed = Some(Instant::now());
            let why = metered.meter.flush(metered.clock.now()).err().map(|why| why.to_string());
            // Logged once per cause, because the flush is retried twice a second.
            if let Some(why) = why.as_ref().filter(|_| why != told) {
                let fields = [("why", Value::Text(why))];
                log::event(Level::Error, "what was used cannot be written; calls wait", &fields);
            }
            told = why;
        })?;
        let sweep = Ticker::start("control", SWEEP_EVERY, move || sweep(&swept))?;
        let attempts = Ticker::start("sign-ins", ATTEMPTS_EVERY, move || write_attempts(&refused))?;
        Ok(Self { parts, tickers: Some([flush, sweep, attempts]) })
    }
}

impl Drop for Housekeeping {
    fn drop(&mut self) {
        drop(self.tickers.take());
        if let Some(authority) = &self.parts.authority {
            authority.attempts.write_last(
                &self.parts.control,
                &self.parts.tenants,
                self.parts.clock.now(),
            );
        }
        if let Err(why) = self.parts.meter.close(self.parts.clock.now()) {
            let fields = [("why", Value::Text(&why))];
            log::event(Level::Warn, "what was used last could not be written", &fields);
        }
    }
}

/// Returns true if a flush can be deferred, because the last one is recent. Only a shared metastore defers flushes.
fn is_early(flushed: Option<Instant>) -> bool {
    flushed.is_some_and(|at| at.elapsed() < METER_FLUSH_SHARED_EVERY)
}

/// Writes failed sign-ins to the ledgers.
fn write_attempts(parts: &AppState) {
    if let Some(authority) = &parts.authority {
        authority.attempts.write(&parts.control, &parts.tenants, parts.clock.now());
    }
}

/// Batches per sweep. A day's expired sign-ins are removed within minutes, and other writers run between the batches.
const SWEEPS_MAX: usize = 64;

fn sweep_all(control: &Control) -> Result<(), ControlError> {
    for _ in 0..SWEEPS_MAX {
        if control.sweep()? < SWEPT_TOGETHER_MAX {
            break;
        }
    }
    Ok(())
}

/// Removes expired records. Does not create a missing metastore.
fn sweep(parts: &AppState) {
    if !parts.control.exists() {
        return;
    }
    if parts.control_chain.is_some()
        && let Err(why) = remove_deleted(parts)
    {
        let fields = [("why", Value::Text(&why))];
        log::event(Level::Warn, "the store of a deleted workspace was not removed", &fields);
    }
    let swept = sweep_all(&parts.control);
    let read = parts.authority.as_ref().map_or(Ok(()), |it| it.read_keys(&parts.control));
    // The follower thread already reports that another node leads the metastore, or that its leader does not respond.
    let is_told = |why: &ControlError| matches!(why, ControlError::Far { .. });
    if let Some(why) = swept.and(read).err().filter(|why| !is_told(why)) {
        let fields = [("why", Value::Text(&why))];
        log::event(Level::Warn, "the control store could not be swept; tried again", &fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_waits_only_behind_what_was_just_written() {
        let now = Instant::now();
        assert!(!is_early(None) && is_early(Some(now)));
        assert!(now.checked_sub(METER_FLUSH_SHARED_EVERY).is_none_or(|at| !is_early(Some(at))));
    }
}
