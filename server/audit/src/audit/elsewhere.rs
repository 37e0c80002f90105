//! Replication of ledger entries to a remote.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::ledger::{AppendError, Ledger, LedgerReader};
use recalld_replication::limits::{CARRY_WAIT_MAX, FAR_HANG};
use recalld_replication::{LedgerBringer, LedgerSource, LedgerVolume};

use super::Shared;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value as Field};

/// Reason for not recording a call.
#[derive(Debug)]
pub enum Unrecorded {
    /// The ledger rejected the entry.
    Append(AppendError),
    /// The entry is on the local disk but not replicated, as required before the response.
    NotBrought(String),
}

impl fmt::Display for Unrecorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append(error) => error.fmt(f),
            Self::NotBrought(why) => {
                write!(f, "the entry is on this disk, and the remote did not take it: {why}")
            }
        }
    }
}

impl std::error::Error for Unrecorded {}

impl From<AppendError> for Unrecorded {
    fn from(error: AppendError) -> Self {
        Self::Append(error)
    }
}

/// Replication target, where entries survive the loss of this machine.
#[derive(Debug)]
pub struct Elsewhere {
    /// Uploads the entries.
    pub bringer: Arc<LedgerBringer>,
    /// True if the entry of a write must be replicated before the response (REM-82).
    pub is_awaited: bool,
}

/// Longest wait for the upload of the last entries on close. The rest is uploaded after the next start.
const LAST_WAIT: Duration = Duration::from_secs(5);

impl Elsewhere {
    /// Attaches the uploader to this ledger.
    pub(super) fn bring_of(&self, ledger: &Arc<Shared>) {
        let source: Arc<dyn LedgerSource> = Arc::clone(ledger) as _;
        self.bringer.of(Arc::downgrade(&source));
    }

    /// Waits until all synced entries are replicated, if required.
    pub(super) fn await_all(&self, ledger: &Shared) -> Result<(), Unrecorded> {
        if !self.is_awaited {
            return Ok(());
        }
        let state = ledger.state();
        let Some(end) = state.ledger.as_ref().map(Ledger::synced_end) else {
            return Err(AppendError::Closed(state.why.clone()).into());
        };
        drop(state);
        // Shorter during an outage of the remote, when many calls would wait.
        let wait = if self.bringer.trouble().is_some() { FAR_HANG } else { CARRY_WAIT_MAX };
        self.bringer.bring(end, wait).map_err(|why| Unrecorded::NotBrought(why.to_string()))
    }

    /// Waits up to [`LAST_WAIT`] for the upload of a closed ledger's last entries.
    pub(super) fn await_last(&self) {
        if let Err(why) = self.bringer.bring_all(LAST_WAIT) {
            let fields = [("why", Field::Text(&why))];
            log::event(Level::Warn, "the ledger's last entries are on this disk alone", &fields);
        }
    }
}

impl LedgerSource for Shared {
    fn volumes(&self) -> Result<Vec<LedgerVolume>, String> {
        let state = self.state();
        let reader = match &state.ledger {
            Some(ledger) => ledger.synced_reader(),
            // A closed ledger is fully synced.
            None if state.closing => LedgerReader::open(&self.folder),
            None => return Err(state.why.clone()),
        };
        let reader = reader.map_err(|error| error.to_string())?;
        if reader.is_empty() {
            return Ok(Vec::new());
        }
        let volume = |(first_seq, path, bytes): (u64, &Path, u64)| LedgerVolume {
            first_seq,
            path: path.to_owned(),
            bytes,
        };
        Ok(reader.volumes().map(volume).collect())
    }
}
