//! The control store among nodes: one node writes it, the others follow, by a chain on their remote
//! (format-spec/remote.md, The control store).
//!
//! Owns this node's part in that chain, and whether what is here may be told. A change is in the chain before it is in
//! the file here, so the file is never ahead of what others will have. Must not know what records of the store mean,
//! nor who asks for them.

mod between;
mod carrying;
mod following;
mod leading;
mod marker;
mod place;
mod rows;
mod sealed;
mod seen;
mod signed;
mod taking;
#[cfg(test)]
mod tests;
mod through;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::os::clock::{Clock, Random};
use remote::core::Claim;
use remote::{Driver, Head, Node, NodeId, Nonce, Tenant, Ticks};

pub use between::PATH;
pub use marker::{MARKER, node_of};
pub use through::{ThroughWriter, serve};

use self::carrying::Carrying;
use self::following::Reader;
use self::leading::Lead;
use self::sealed::Seals;
use self::seen::Seen;
use crate::auth::ClusterSecret;
use crate::cluster::Peer;
use crate::control::{Control, ControlError};
use crate::log::{self, Level, Value};

/// What is said first of a control store that is one of several nodes'.
pub const SHARED: &str = "shared with other nodes";
/// Where tables lie on their way to the remote or from it.
const FOLDER: &str = "control.far";
/// How long after one look at the chain the next one comes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The least time between two looks, however many ask for one.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(100);
/// How long somebody waits for a look.
const LOOK_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long after one collection the next one comes.
const COLLECT_EVERY: Duration = Duration::from_secs(3600);
/// How long a start waits between two looks.
const START_PAUSE: Duration = Duration::from_millis(250);
/// How long a change waits for the remote before nobody knows.
const CARRY_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long an end waits for the store to be given away, and as long again for what is called off then.
const END_WAIT_MAX: Duration = Duration::from_secs(5);
/// How often a start looks until the store is what the chain says.
const START_TRIES_MAX: usize = 8;

/// What a node's part in the control store's chain is made of.
pub struct With {
    /// Where chains and objects are.
    pub driver: Driver,
    /// What this node is called.
    pub name: NodeId,
    /// This node, if it may write.
    pub node: Option<Arc<Node>>,
    /// What all nodes share.
    pub secret: Arc<ClusterSecret>,
    /// How old what is here may be when it is told.
    pub stale_max: Duration,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
}

/// How long what waits for the remote waits.
#[derive(Debug, Clone, Copy)]
struct Patience {
    carry: Duration,
    end: Duration,
}

impl Patience {
    const MOST: Self = Self { carry: CARRY_WAIT_MAX, end: END_WAIT_MAX };
}

/// This node's part in the control store, until it is dropped.
pub struct ControlChain {
    shared: Arc<Shared>,
    /// What other nodes said to this one.
    seen: Seen,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How the control store stands here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlStands {
    /// This node writes it, and may answer for it.
    Leads,
    /// What is here is so old; `None` where nobody can tell.
    Follows {
        /// How old.
        age: Option<Duration>,
        /// Who writes it, if that is known and it gives signs of life.
        writer: Option<Peer>,
        /// That node's process.
        run: Option<Nonce>,
    },
}

/// What the thread, and whoever asks the store, share.
struct Shared {
    with: With,
    patience: Patience,
    tenant: Tenant,
    seals: Seals,
    folder: std::path::PathBuf,
    /// Where this node writes it. Held while a record is made.
    lead: Mutex<Option<Lead>>,
    known: Mutex<Known>,
    /// Somebody wants a look, one is over, or all is.
    changed: Condvar,
}

#[derive(Default)]
struct Known {
    /// A moment just before the newest record of this node was sent, where it writes.
    leads: Option<Ticks>,
    /// A moment of which all that was changed before it is here.
    fresh: Option<Ticks>,
    /// The newest record that is here.
    at: Option<Head>,
    /// Whether the store here is what the chain says at all.
    is_whole: bool,
    /// Whether its writer seems to be gone.
    is_free: bool,
    trouble: Option<String>,
    /// How many looks began, and ended.
    looks: (u64, u64),
    /// What this node wrote last may be in the chain and is not here: its epoch is over.
    is_missed: bool,
    is_wanted: bool,
    /// All is to end.
    is_ended: bool,
    /// All has ended.
    is_over: bool,
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

    fn begin(mut reader: Reader) -> Result<Self, String> {
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
    /// Whether there was need to.
    pub fn catch_up(&self) -> bool {
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
    fn begin(
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

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The epoch of this node, if it has one that goes on.
    fn lead(&self) -> MutexGuard<'_, Option<Lead>> {
        let mut lead = self.lead.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut self.known().is_missed) {
            *lead = None;
        }
        lead
    }

    /// Waits so long for its thread to end; whether it has.
    fn wait_until_over(&self, thread: &JoinHandle<()>) -> bool {
        let goes_on = |known: &mut Known| !known.is_over && !thread.is_finished();
        let waited = self.changed.wait_timeout_while(self.known(), self.patience.end, goes_on);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over || thread.is_finished()
    }

    fn now(&self) -> Ticks {
        self.with.driver.ticks.now()
    }

    /// Whether this node's word is all there is: nobody else can have written meanwhile.
    fn covers(&self, known: Ticks) -> bool {
        self.with.node.as_ref().is_some_and(|node| node.covers(known))
    }

    fn is_ready(&self) -> bool {
        let known = self.known();
        known.leads.is_some() || (known.is_whole && known.fresh.is_some())
    }

    fn stands(&self) -> ControlStands {
        let known = self.known();
        if let Some(leads) = known.leads {
            if self.covers(leads) {
                return ControlStands::Leads;
            }
            let age = self.with.node.as_ref().and_then(|node| node.lapsed_for());
            return ControlStands::Follows { age, writer: None, run: None };
        }
        let fresh = known.fresh.filter(|_| known.is_whole);
        let age = fresh.map(|fresh| self.now() - fresh);
        let own = self.with.node.as_ref().map(|node| &node.writer().node);
        let writer = known.at.as_ref().filter(|at| !known.is_free && own != Some(&at.node));
        let run = writer.map(|at| at.run);
        let writer = writer.map(|at| Peer {
            node: at.node.to_string(),
            url: Some(at.url.clone()).filter(|url| !url.is_empty()),
        });
        ControlStands::Follows { age, writer, run }
    }

    fn catch_up(&self) -> bool {
        let mut known = self.known();
        if known.leads.is_some() {
            return false;
        }
        // One that began before may have missed it.
        let wanted = known.looks.0 + 1;
        known.is_wanted = true;
        self.changed.notify_all();
        let waits = |known: &mut Known| known.looks.1 < wanted && !known.is_ended;
        drop(self.changed.wait_timeout_while(known, LOOK_WAIT_MAX, waits));
        true
    }

    fn told(&self) -> Result<String, String> {
        let (number, trouble) = {
            let known = self.known();
            (known.at.as_ref().map_or(0, |at| at.number), known.trouble.clone())
        };
        let (age, writer) = match self.stands() {
            ControlStands::Leads => {
                return Ok(format!("{SHARED}; this node writes it, record {number}"));
            }
            ControlStands::Follows { age, writer, .. } => (age, writer),
        };
        let who = writer.map_or_else(
            || "no node writes it now".to_owned(),
            |Peer { node, .. }| format!("node {node} writes it"),
        );
        let why = trouble.map(|why| format!("; {why}")).unwrap_or_default();
        match age {
            Some(age) if age <= self.with.stale_max => Ok(format!(
                "{SHARED}; {who}; all of {} s ago is here, up to record {number}{why}",
                age.as_secs()
            )),
            Some(age) => Err(format!(
                "{SHARED}; {who}; no word of it for {} s, record {number} is here{why}",
                age.as_secs()
            )),
            None => Err(format!("{SHARED}; {who}; no word of it since the start{why}")),
        }
    }

    /// Somebody else writes it, or nobody does.
    fn elsewhere(&self) -> ControlError {
        let trouble = self.known().trouble.clone();
        let why = match self.stands() {
            ControlStands::Follows { writer: Some(Peer { node, url }), .. } => {
                let at = url.map(|url| format!(", at {url}")).unwrap_or_default();
                format!("tenants, their keys and quotas are changed by node {node}{at}; ask there")
            }
            _ => {
                let why = trouble.map(|why| format!(" ({why})")).unwrap_or_default();
                format!(
                    "no node changes tenants and their keys now; one is about to: try again{why}"
                )
            }
        };
        ControlError::far(why)
    }

    fn may_read(&self) -> Result<(), ControlError> {
        let most = self.with.stale_max;
        match self.stands() {
            ControlStands::Leads => Ok(()),
            ControlStands::Follows { age: Some(age), .. } if age <= most => Ok(()),
            ControlStands::Follows { age, .. } => {
                let trouble = self.known().trouble.clone().unwrap_or_default();
                let most = most.as_secs();
                Err(ControlError::far(match age {
                    Some(age) => format!(
                        "what is known here of tenants and keys is {} s old; at most {most} s are allowed ({trouble})",
                        age.as_secs()
                    ),
                    None => {
                        format!(
                            "how old what is known here of tenants and keys is, nobody can tell ({trouble})"
                        )
                    }
                }))
            }
        }
    }

    fn may_write(&self) -> Result<(), ControlError> {
        if self.known().leads.is_some() { Ok(()) } else { Err(self.elsewhere()) }
    }

    /// What is in the chain comes back to this store as to any other.
    fn missed(&self) {
        self.known().is_missed = true;
        self.lost();
    }

    /// Whether what is made for the epoch of this node is still wanted.
    fn lead_goes_on(&self) -> bool {
        !self.known().is_ended
    }

    /// Ends the epoch of this node where it is over.
    fn drop_if_over(&self, mut lead: MutexGuard<'_, Option<Lead>>) {
        let is_over = lead.take_if(|lead| lead.is_over()).is_some();
        drop(lead);
        if is_over {
            self.lost();
        }
    }

    /// This node does not write it from here on: what is here now is all there was, and is looked at as a copy
    /// (NOD-30).
    fn grows_old(&self) {
        let mut known = self.known();
        let Some(leads) = known.leads.take() else { return };
        let until = if self.covers(leads) { self.now() } else { leads };
        known.fresh = known.fresh.max(Some(until));
    }

    /// This node writes it no more.
    fn lost(&self) {
        self.grows_old();
        self.known().is_wanted = true;
        self.changed.notify_all();
        log::event(Level::Warn, "this node writes the control store no more; it follows", &[]);
    }
}

fn tell(level: Level, what: &'static str, why: &str) {
    log::event(level, what, &[("why", Value::Text(&why))]);
}
