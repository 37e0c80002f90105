//! Where the entries of a ledger are brought, and how long callers wait for that.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::ledger::{AppendError, Ledger, Reader};
use recalld_replication::limits::{CARRY_WAIT_MAX, FAR_HANG};
use recalld_replication::{LedgerBringer, LedgerSource, LedgerVolume};

use super::Shared;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value as Field};

/// Why a call was not recorded.
#[derive(Debug)]
pub enum Unrecorded {
    /// The ledger took no entry.
    Append(AppendError),
    /// The entry is on this disk, and may not survive the loss of this machine, as it must before the answer.
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

/// Where entries survive the loss of this machine.
#[derive(Debug)]
pub struct Elsewhere {
    /// Brings them there.
    pub bringer: Arc<LedgerBringer>,
    /// Whether the entry of a write is there before its call is answered (REM-82).
    pub is_awaited: bool,
}

/// How long the end of a ledger waits until its last entries are elsewhere. What is not goes with the next start.
const LAST_WAIT: Duration = Duration::from_secs(5);

impl Elsewhere {
    /// It is this ledger's entries that are brought.
    pub(super) fn bring_of(&self, ledger: &Arc<Shared>) {
        let source: Arc<dyn LedgerSource> = Arc::clone(ledger) as _;
        self.bringer.of(Arc::downgrade(&source));
    }

    /// Returns once all that is on disk is there too, where that is to be awaited.
    pub(super) fn await_all(&self, ledger: &Shared) -> Result<(), Unrecorded> {
        if !self.is_awaited {
            return Ok(());
        }
        let state = ledger.state();
        let Some(end) = state.ledger.as_ref().map(Ledger::synced_end) else {
            return Err(AppendError::Closed(state.why.clone()).into());
        };
        drop(state);
        // While the remote is away, calls that would wait for it are many.
        let wait = if self.bringer.trouble().is_some() { FAR_HANG } else { CARRY_WAIT_MAX };
        self.bringer.bring(end, wait).map_err(|why| Unrecorded::NotBrought(why.to_string()))
    }

    /// A ledger has ended: its last entries are waited for, not for long.
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
            // Closed, all of it is on disk.
            None if state.closing => Reader::open(&self.folder),
            None => return Err(state.why.clone()),
        };
        let reader = reader.map_err(|error| error.to_string())?;
        if reader.is_blank() {
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
