//! This node's part in the chain, from its start to its end.

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

/// Where tables lie on their way to the remote or from it.
const FOLDER: &str = "control.far";

/// How long a start waits between two looks.
const START_PAUSE: Duration = Duration::from_millis(250);
/// How often a start looks until the store is what the chain says.
const START_TRIES_MAX: usize = 8;

/// This node's part in the control store, until it is dropped.
pub struct ControlChain {
    pub(super) shared: Arc<Shared>,
    /// What other nodes said to this one.
    pub(super) seen: Seen,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ControlChain {
    /// Brings the control store to what the chain says, and keeps it there. A writer begins the chain where there is
    /// none, with what the store has.
    ///
    /// # Errors
    /// The remote did not answer, the secret is another one, or this node has tenants of its own.
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

    /// How it stands.
    pub fn stands(&self) -> ControlStands {
        self.shared.stands()
    }

    /// Looks whether others changed something, and returns once what was changed before is here, or after a while.
    pub fn catch_up(&self) -> CaughtUp {
        self.shared.catch_up()
    }

    /// Who writes it and how old what is here is, for people.
    ///
    /// # Errors
    /// The same, where it is too old to be answered with.
    pub fn told(&self) -> Result<String, String> {
        self.shared.told()
    }

    /// Gives the store away, for another node to write it, and follows no more. A remote that does not answer is not
    /// waited for: others take the store then once this node's lease is over.
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
    /// This node's part, without a thread yet.
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
