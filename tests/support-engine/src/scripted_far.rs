//! A far that does as it is told, and keeps what a store tells it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use engine::Seq;
use engine::far::{Far, LogMark, NotAdmitted, NotCarried, Published};
use engine::os::disk::{Disk, DiskRead};

use crate::patience::PATIENCE;

/// What a store told or asked, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Whether it may log a batch, while so many wait.
    Admits(usize),
    /// A log began.
    BeganLog(LogMark),
    /// A log is synced.
    Synced(LogMark),
    /// A manifest is in place: its number, logs, newest commit, whether it must lead and whether it ends
    /// an erasure.
    Published(u64, Vec<LogMark>, Seq, [bool; 2]),
    /// An index is there.
    Indexed(String),
    /// All up to a commit is to be carried.
    Carry(Seq),
}

/// How a call of `carry` ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carries {
    /// At once, and well.
    AtOnce,
    /// Once this changes.
    Later,
    /// Not.
    Never(NotCarried),
}

/// What is done when a commit is to be carried, before it is.
type Look = Box<dyn Fn(Seq) + Send + Sync>;

/// A far for tests. Clones share what they were told.
#[derive(Clone)]
pub struct ScriptedFar {
    acknowledges: bool,
    state: Arc<(Mutex<State>, Condvar)>,
}

struct State {
    told: Vec<Told>,
    logs: BTreeMap<u64, (LogMark, Box<dyn DiskRead>)>,
    refuses: Option<NotAdmitted>,
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
    /// One that carries all at once, whether or not that is what acknowledges.
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

    /// All that it was told since this was asked last.
    pub fn told(&self) -> Vec<Told> {
        std::mem::take(&mut self.state().told)
    }

    /// Refuses batches from now on, or takes them.
    pub fn refuse(&self, why: Option<NotAdmitted>) {
        self.state().refuses = why;
    }

    /// Says how `carry` ends from now on, for those too that wait.
    pub fn carries(&self, how: Carries) {
        self.state().carries = how;
        self.state.1.notify_all();
    }

    /// Has carried all up to a commit, without anybody waiting for it.
    pub fn has_carried(&self, seq: Seq) {
        self.state().carried = seq;
    }

    /// Has this done whenever a commit is to be carried.
    pub fn at_carry(&self, look: impl Fn(Seq) + Send + Sync + 'static) {
        self.state().look = Some(Box::new(look));
    }

    /// The bytes of a log up to the newest mark that was told of it.
    ///
    /// # Panics
    /// When there is no such log, or it cannot be read.
    pub fn log(&self, number: u64) -> Vec<u8> {
        let state = self.state();
        let (mark, file) = state.logs.get(&number).expect("the log was told of");
        let mut bytes = vec![0; usize::try_from(mark.end).expect("a test's log is small")];
        file.read_at(0, &mut bytes).expect("it is readable up to the mark");
        bytes
    }
}

impl State {
    fn note(&mut self, mark: LogMark) {
        let log = self.logs.get_mut(&mark.log).expect("a log is told of when it begins");
        if mark.end > log.0.end {
            log.0 = mark;
        }
    }
}

impl Far for ScriptedFar {
    fn acknowledges(&self) -> bool {
        self.acknowledges
    }

    fn admits(&self, waiting: usize) -> Result<(), NotAdmitted> {
        let mut state = self.state();
        state.told.push(Told::Admits(waiting));
        state.refuses.clone().map_or(Ok(()), Err)
    }

    fn began_log(&self, mark: LogMark, file: Box<dyn DiskRead>) {
        let mut state = self.state();
        state.told.push(Told::BeganLog(mark));
        state.logs.insert(mark.log, (mark, file));
    }

    fn synced(&self, mark: LogMark) {
        let mut state = self.state();
        state.told.push(Told::Synced(mark));
        state.note(mark);
    }

    fn published(&self, published: &Published<'_>) {
        let mut state = self.state();
        let flags = [published.must_lead, published.ends_erasure];
        let (number, logs) = (published.listing.number(), published.logs.to_vec());
        logs.iter().for_each(|&mark| state.note(mark));
        state.told.push(Told::Published(number, logs, published.last_seq, flags));
    }

    fn indexed(&self, name: &str, _disk: &dyn Disk) {
        self.state().told.push(Told::Indexed(name.to_owned()));
    }

    fn carry(&self, seq: Seq) -> Result<(), NotCarried> {
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
            return Err(NotCarried::Unknown("waited in vain".to_owned()));
        }
        if let Carries::Never(why) = &state.carries {
            return Err(why.clone());
        }
        state.carried = state.carried.max(seq);
        Ok(())
    }

    fn carried(&self) -> Seq {
        self.state().carried
    }
}
