//! Lifecycle of this node's metastore replication, from start to shutdown.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use recalld_replication::core::Claim;
use recalld_replication::{Driver, Tenant};

use super::carrying::Carrying;
use super::following::{LOOK_EVERY, Reader};
use super::sealed::Seals;
use super::seen::Seen;
use super::shared::{CaughtUp, ControlStands, Patience, Shared, With, tell};
use recalld_metastore::Control;
use recalld_telemetry::log::Level;

/// Directory of table files during upload and download.
const FOLDER: &str = "control.far";

/// Pause between two polls during the start.
const START_PAUSE: Duration = Duration::from_millis(250);
/// Maximum polls of a start until the metastore matches the record log.
const START_TRIES_MAX: usize = 8;

/// This node's replica of the metastore. Dropping the value ends the replication.
pub struct ControlChain {
    pub(super) shared: Arc<Shared>,
    /// Replay guard for messages received from other nodes.
    pub(super) seen: Seen,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ControlChain {
    /// Brings the metastore up to date with the record log and follows the log from then on. If there is no record log,
    /// a node that may write starts one from its own metastore.
    ///
    /// # Errors
    /// The remote did not respond, the secret differs, or this node has tenants of its own.
    pub fn open(data: &Path, control: &Arc<Control>, with: With) -> Result<Self, String> {
        let reader = Reader::begin(data, control, with, Patience::MOST)?;
        Self::begin(reader)
    }

    pub(super) fn begin(mut reader: Reader) -> Result<Self, String> {
        let shared = Arc::clone(&reader.shared);
        for tries in 1.. {
            match reader.turn() {
                Ok(()) if shared.is_ready() => break,
                Ok(()) if tries < START_TRIES_MAX => {
                    shared.known().trouble = reader.awaited();
                    shared.with.driver.halt.wait(START_PAUSE);
                }
                Ok(()) => break,
                Err(why) if tries < START_TRIES_MAX && !reader.is_final() => {
                    shared.known().trouble = Some(why);
                    shared.with.driver.halt.wait(LOOK_EVERY);
                }
                Err(why) => return Err(why),
            }
        }
        let thread = thread::Builder::new().name("control".to_owned());
        let thread = thread.spawn(move || reader.run()).map_err(|error| error.to_string())?;
        Ok(Self { shared, seen: Seen::default(), thread: Mutex::new(Some(thread)) })
    }

    /// Replication status.
    pub fn stands(&self) -> ControlStands {
        self.shared.stands()
    }

    /// Polls the record log. Returns once all earlier changes are applied here, or after a timeout.
    pub fn catch_up(&self) -> CaughtUp {
        self.shared.catch_up()
    }

    /// Leader and age of the local copy, in words for operators.
    ///
    /// # Errors
    /// If the local copy is too old to be read, these words are the error.
    pub fn told(&self) -> Result<String, String> {
        self.shared.told()
    }

    /// Releases the epoch, so that another node can acquire it, and stops following. If the remote does not respond,
    /// the call returns without a release; other nodes then acquire the metastore when this node's lease has expired.
    pub fn end(&self) {
        self.shared.known().is_ended = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        let mut is_over = self.shared.wait_until_over(&thread);
        if !is_over {
            self.shared.with.driver.halt.raise();
            is_over = self.shared.wait_until_over(&thread);
        }
        if is_over {
            let _its_panic_is_on_stderr = thread.join();
        } else {
            let why = "the remote does not answer";
            tell(Level::Warn, "the control store was not given away", why);
        }
    }
}

impl Drop for ControlChain {
    fn drop(&mut self) {
        self.end();
    }
}

impl Reader {
    /// Creates this node's replica, without a thread.
    pub(super) fn begin(
        data: &Path,
        control: &Arc<Control>,
        with: With,
        patience: Patience,
    ) -> Result<Self, String> {
        let halt = Arc::default();
        let with = With { driver: Driver { halt, ..with.driver }, ..with };
        let shared = Arc::new(Shared {
            tenant: Tenant::control(),
            seals: Seals(Arc::clone(&with.secret)),
            folder: data.join(FOLDER),
            lead: Mutex::default(),
            known: Mutex::default(),
            changed: Condvar::new(),
            patience,
            with,
        });
        control.carry_by(Arc::new(Carrying(Arc::clone(&shared))));
        let claim = shared.with.node.as_ref();
        let claim = claim.map(|node| Claim::new(node.writer().clone(), node.lease()));
        Self::open(data, &shared, control, claim)
    }
}
