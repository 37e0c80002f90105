//! A replication sink with scripted outcomes, which records the store's calls.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use engine::Seq;
use engine::os::disk::{Disk, DiskRead};
use engine::replication_sink::{
    PublishedManifest, ReplicationError, ReplicationSink, SinkRejectedError, WalPosition,
};

use crate::patience::PATIENCE;

/// A call of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Admission of a batch, with the number of waiting batches.
    Admits(usize),
    /// A log began.
    BeganLog(WalPosition),
    /// A log was synced.
    Synced(WalPosition),
    /// A manifest was published: its number, logs, newest commit, whether it must lead and whether it ends an erasure.
    Published(u64, Vec<WalPosition>, Seq, [bool; 2]),
    /// An index was published.
    Indexed(String),
    /// Replication of all commits up to this one was requested.
    Carry(Seq),
}

/// Outcome of a `wait_replicated` call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carries {
    /// Success at once.
    AtOnce,
    /// Blocks until the outcome is changed.
    Later,
    /// Failure.
    Never(ReplicationError),
}

/// Callback before the replication of a commit.
type Look = Box<dyn Fn(Seq) + Send + Sync>;

/// A sink for tests. Clones share the recorded calls.
#[derive(Clone)]
pub struct ScriptedFar {
    acknowledges: bool,
    state: Arc<(Mutex<State>, Condvar)>,
}

struct State {
    told: Vec<Told>,
    logs: BTreeMap<u64, (WalPosition, Box<dyn DiskRead>)>,
    refuses: Option<SinkRejectedError>,
    carries: Carries,
    carried: Seq,
    look: Option<Look>,
}

impl fmt::Debug for ScriptedFar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.state().told).finish()
    }
}

impl ScriptedFar {
    /// Makes a sink that replicates everything at once. `acknowledges` decides if writes wait for the replication.
    pub fn new(acknowledges: bool) -> Self {
        let state = State {
            told: Vec::new(),
            logs: BTreeMap::new(),
            refuses: None,
            carries: Carries::AtOnce,
            carried: 0,
            look: None,
        };
        Self { acknowledges, state: Arc::new((Mutex::new(state), Condvar::new())) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the calls since the last call of this method.
    pub fn told(&self) -> Vec<Told> {
        std::mem::take(&mut self.state().told)
    }

    /// Rejects batches from now on, or admits them.
    pub fn refuse(&self, why: Option<SinkRejectedError>) {
        self.state().refuses = why;
    }

    /// Sets the outcome of `wait_replicated` calls from now on, including waiting ones.
    pub fn carries(&self, how: Carries) {
        self.state().carries = how;
        self.state.1.notify_all();
    }

    /// Marks all commits up to `seq` as replicated without a `wait_replicated` call.
    pub fn has_carried(&self, seq: Seq) {
        self.state().carried = seq;
    }

    /// Sets the callback before each replication.
    pub fn at_carry(&self, look: impl Fn(Seq) + Send + Sync + 'static) {
        self.state().look = Some(Box::new(look));
    }

    /// The bytes of a log up to the newest mark that was reported.
    ///
    /// # Panics
    /// There is no such log, or it is unreadable.
    pub fn log(&self, number: u64) -> Vec<u8> {
        let state = self.state();
        let (mark, file) = state.logs.get(&number).expect("the log was told of");
        let mut bytes = vec![0; usize::try_from(mark.end).expect("a test's log is small")];
        file.read_at(0, &mut bytes).expect("it is readable up to the mark");
        bytes
    }
}

impl State {
    fn note(&mut self, mark: WalPosition) {
        let log = self.logs.get_mut(&mark.log).expect("a log is told of when it begins");
        if mark.end > log.0.end {
            log.0 = mark;
        }
    }
}

impl ReplicationSink for ScriptedFar {
    fn is_synchronous(&self) -> bool {
        self.acknowledges
    }

    fn admit(&self, waiting: usize) -> Result<(), SinkRejectedError> {
        let mut state = self.state();
        state.told.push(Told::Admits(waiting));
        state.refuses.clone().map_or(Ok(()), Err)
    }

    fn on_log_created(&self, mark: WalPosition, file: Box<dyn DiskRead>) {
        let mut state = self.state();
        state.told.push(Told::BeganLog(mark));
        state.logs.insert(mark.log, (mark, file));
    }

    fn on_log_synced(&self, mark: WalPosition) {
        let mut state = self.state();
        state.told.push(Told::Synced(mark));
        state.note(mark);
    }

    fn on_manifest_published(&self, published: &PublishedManifest<'_>) {
        let mut state = self.state();
        let flags = [published.is_barrier, published.completes_erasure];
        let (number, logs) = (published.manifest.number(), published.logs.to_vec());
        logs.iter().for_each(|&mark| state.note(mark));
        state.told.push(Told::Published(number, logs, published.last_seq, flags));
    }

    fn on_index_created(&self, name: &str, _disk: &dyn Disk) {
        self.state().told.push(Told::Indexed(name.to_owned()));
    }

    fn wait_replicated(&self, seq: Seq) -> Result<(), ReplicationError> {
        let look = {
            let mut state = self.state();
            state.told.push(Told::Carry(seq));
            state.look.take()
        };
        if let Some(look) = look {
            look(seq);
            self.state().look.get_or_insert(look);
        }
        let waits = |state: &mut State| state.carries == Carries::Later;
        let state = self.state.1.wait_timeout_while(self.state(), PATIENCE, waits);
        let (mut state, out_of_time) = state.unwrap_or_else(PoisonError::into_inner);
        if out_of_time.timed_out() {
            return Err(ReplicationError::Indeterminate("waited in vain".to_owned()));
        }
        if let Carries::Never(why) = &state.carries {
            return Err(why.clone());
        }
        state.carried = state.carried.max(seq);
        Ok(())
    }

    fn replicated_seq(&self) -> Seq {
        self.state().carried
    }
}
