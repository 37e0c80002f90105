//! The thread that changes the role of a workspace where that is due, and has old objects removed.
//!
//! Owns when that is looked at, and the change of `local`, which is open all the time; a tenant's workspace is opened
//! anew by whoever asks for it next.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use remote::Halt;

use crate::encoders::Encoders;
use crate::log::{self, Level, Value};
use crate::parts::Parts;
use crate::recall::Meaning;
use crate::seats::Seats;

/// How long after one look at the role of `local` the next one comes.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long after one collection the next one comes.
const COLLECT_EVERY: Duration = Duration::from_secs(3600);
/// How long after the start the first one comes: by then records are known for long enough to go.
const COLLECT_FIRST: Duration = Duration::from_secs(600);

/// That thread, until this is dropped.
pub(crate) struct KeepSeats {
    halt: Arc<Halt>,
    thread: Option<JoinHandle<()>>,
}

impl KeepSeats {
    /// Begins, where there is a remote.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(parts: &Arc<Parts>) -> io::Result<Self> {
        let halt = Arc::new(Halt::default());
        let Some(seats) = parts.seats.clone() else { return Ok(Self { halt, thread: None }) };
        let (theirs, parts) = (Arc::clone(&halt), Arc::clone(parts));
        let run = move || run(&theirs, &parts, &seats);
        let thread = thread::Builder::new().name("seats".to_owned()).spawn(run)?;
        Ok(Self { halt, thread: Some(thread) })
    }
}

impl Drop for KeepSeats {
    fn drop(&mut self) {
        self.halt.raise();
        if let Some(thread) = self.thread.take() {
            let _its_panic_is_on_stderr = thread.join();
        }
    }
}

fn run(halt: &Halt, parts: &Parts, seats: &Seats) {
    let mut collect_at = Instant::now() + COLLECT_FIRST;
    while !halt.wait(LOOK_EVERY) {
        if seats.wants_change(parts.local.name())
            && let Err(why) = change_local(parts, seats)
        {
            log::event(
                Level::Error,
                "the workspace local is not open",
                &[("why", Value::Text(&why))],
            );
        }
        if Instant::now() >= collect_at {
            seats.collect();
            collect_at = Instant::now() + COLLECT_EVERY;
        }
    }
}

/// Opens `local` anew, in whatever role can be had.
fn change_local(parts: &Parts, seats: &Seats) -> Result<(), String> {
    let before = parts.local.get();
    let had_upkeep = parts.local.end_upkeep();
    let store = seats.reopen(parts.local.name(), &before.store).map_err(|why| why.to_string())?;
    let embedder = before.encoders.view().embedder;
    let role = if store.follows() { "followed" } else { "written" };
    let encoders = Encoders::bind(store, embedder).map_err(|error| error.to_string())?;
    let meaning = Meaning::new(parts.encoding.kernels, parts.threads.clone());
    parts.local.put(before.over(encoders, meaning));
    if had_upkeep {
        parts.local.begin_upkeep().map_err(|error| error.to_string())?;
    }
    let fields = [("workspace", Value::Text(&parts.local.name())), ("is", Value::Text(&role))];
    log::event(Level::Info, "the role of a workspace changed", &fields);
    Ok(())
}
