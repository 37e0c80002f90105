use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::Store;
use engine::os::clock::Clock;

use crate::core::{Given, Mark};
use crate::driver::Driver;
use crate::follow::{Moved, PartialDisk, Tracker};
use crate::limits::{FOLLOW_PAUSE_MAX, FOLLOW_PAUSE_MIN, FOLLOW_WARM_FOR};
use crate::record::Head;
use crate::ticks::Ticks;

/// Observer of followed records. Called once they are visible here, with the delay of each since its creation, by the
/// wall clocks of this machine and of the writer; without delays if the store failed to show them.
pub type RecordObserver = Arc<dyn Fn(&[Duration]) + Send + Sync>;

/// Background thread that applies the record log to a followed store, until this value is dropped.
pub struct Following {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Tracker>>,
}

/// Status of a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Age {
    /// Staleness: all commits acknowledged longer ago than this are visible; `None` if unknown.
    pub stale: Option<Duration>,
    /// Header of the newest visible record.
    pub at: Head,
    /// Release of the epoch with that record, and the node named to acquire the workspace.
    pub given: Option<Given>,
    /// Time for which that record has been the newest.
    pub at_for: Duration,
    /// Last error; cleared by the next success.
    pub trouble: Option<String>,
}

struct Shared {
    driver: Driver,
    observer: RecordObserver,
    clock: Arc<dyn Clock>,
    kept: Arc<PartialDisk>,
    known: Mutex<Known>,
    changed: Condvar,
}

struct Known {
    fresh: Option<Ticks>,
    at: Mark,
    at_since: Ticks,
    trouble: Option<String>,
    used: Option<Ticks>,
    is_ended: bool,
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Following")
            .field("at", &self.shared.known().at.head)
            .finish_non_exhaustive()
    }
}

impl Following {
    /// Starts to apply the record log of `tracker` to `store`. `clock` is the wall clock.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(
        driver: Driver,
        tracker: Tracker,
        (store, kept): (Arc<Store>, Arc<PartialDisk>),
        at: Mark,
        (clock, observer): (Arc<dyn Clock>, RecordObserver),
    ) -> io::Result<Self> {
        let driver = Driver { halt: Arc::default(), ..driver };
        let fresh = tracker.fresh();
        let at_since = tracker.at_since();
        let known = Known { fresh, at, at_since, trouble: None, used: None, is_ended: false };
        let (known, changed) = (Mutex::new(known), Condvar::new());
        let shared = Arc::new(Shared { driver, observer, clock, kept, known, changed });
        let theirs = Arc::clone(&shared);
        let run = move || theirs.run(tracker, &store);
        let thread = thread::Builder::new().name("follow".to_owned()).spawn(run)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Current status.
    #[must_use]
    pub fn age(&self) -> Age {
        let known = self.shared.known();
        let now = self.shared.driver.ticks.now();
        let stale = known.fresh.map(|fresh| now - fresh);
        let Mark { head: at, given, .. } = known.at.clone();
        let trouble = known.trouble.clone().or_else(|| self.shared.kept.trouble());
        Age { stale, at, given, at_for: now - known.at_since, trouble }
    }

    /// Notes a read: the follower polls more often for a while.
    pub fn touch(&self) {
        self.shared.kept.touch();
        let mut known = self.shared.known();
        let now = self.shared.driver.ticks.now();
        let was_cold = known.used.is_none_or(|used| now - used > FOLLOW_WARM_FOR);
        known.used = Some(now);
        if was_cold {
            self.shared.changed.notify_all();
        }
    }

    /// Stops the thread and returns its log tailer, so that no record is read twice. `None` if the thread panicked.
    #[must_use]
    pub fn end(mut self) -> Option<Tracker> {
        self.stop()
    }

    fn stop(&mut self) -> Option<Tracker> {
        self.shared.driver.halt.raise();
        self.shared.known().is_ended = true;
        self.shared.changed.notify_all();
        self.thread.take().and_then(|thread| thread.join().ok())
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut tracker: Tracker, store: &Store) -> Tracker {
        tracker.drive_with(self.driver.clone());
        let mut pause = FOLLOW_PAUSE_MIN;
        while !self.known().is_ended {
            let moved = tracker.look();
            let is_news = matches!(moved, Moved::On(_));
            let mut delays = Vec::new();
            let trouble = self.show(&mut tracker, store, moved, &mut delays);
            let is_right = trouble.is_none();
            {
                let mut known = self.known();
                known.fresh = tracker.fresh();
                known.trouble = trouble;
                if let Some(at) = tracker.at().filter(|at| at.hash != known.at.hash) {
                    known.at.clone_from(at);
                    known.at_since = tracker.at_since();
                }
            }
            if is_news {
                (self.observer)(&delays);
            }
            // There may be more records than this poll returned.
            if is_news && is_right {
                pause = FOLLOW_PAUSE_MIN;
                continue;
            }
            pause = self.wait(pause);
        }
        tracker
    }

    /// Publishes the result of a poll in the store, and adds the delays of the new records. Returns the error, if any.
    fn show(
        &self,
        tracker: &mut Tracker,
        store: &Store,
        moved: Moved,
        delays: &mut Vec<Duration>,
    ) -> Option<String> {
        match moved {
            Moved::Newest | Moved::Over => None,
            Moved::Empty => Some("the chain has no record any more".into()),
            Moved::Away(why) | Moved::Disk(why) => Some(why),
            Moved::Damage(damage) => Some(damage.to_string()),
            Moved::On(made_at) => {
                if let Err(error) = store.refresh() {
                    return Some(error.to_string());
                }
                for made_at in made_at {
                    let lag = self.clock.now().0.saturating_sub(made_at);
                    delays.push(Duration::from_micros(u64::try_from(lag).unwrap_or_default()));
                }
                tracker.settled().err().map(|error| error.to_string())
            }
        }
    }

    /// Waits for `pause`, or until the first read after a time without reads. Returns the next pause.
    fn wait(&self, pause: Duration) -> Duration {
        let known = self.known();
        if known.is_ended {
            return pause;
        }
        let now = self.driver.ticks.now();
        let is_warm = known.used.is_some_and(|used| now - used <= FOLLOW_WARM_FOR);
        let waited = self.changed.wait_timeout(known, pause);
        let (_known, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        match is_warm || !waited.timed_out() {
            true => FOLLOW_PAUSE_MIN,
            false => FOLLOW_PAUSE_MAX.min(pause * 2),
        }
    }
}
