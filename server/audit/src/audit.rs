//! Audit log of one workspace: every governed call has an audit entry before its response is sent.

mod elsewhere;
mod events;

pub use elsewhere::{Elsewhere, Unrecorded};
pub use events::Events;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::ledger::{
    Anchor, AppendError, Decision, EntryDraft, Ledger, LedgerOpenError, LedgerOptions,
    LedgerReader, Outcome, ReadError, TouchedItem,
};
use engine::os::clock::{Clock, Random};
use serde::Serialize;
use sha2::{Digest, Sha256};

use self::events::{COUNTED_TOGETHER_MAX, Past};
use crate::AuditSync;
use recalld_auth::Signer;
use recalld_common::names;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value as Field};

/// Rule name of calls without an item decision: the scope admitted the call.
pub const BY_SCOPE: &str = "scope";

/// The audit entry of one governed call.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The tool or operation.
    pub tool: &'static str,
    /// The calling principal.
    pub principal: String,
    /// SHA-256 of the arguments.
    pub arguments: [u8; 32],
    /// The policy decision.
    pub decision: Decision,
    /// The deciding rule.
    pub rule: String,
    /// Affected items with the effect on each, sensitivity events first.
    pub touched: Vec<TouchedItem>,
    /// Outcome of the call.
    pub outcome: Outcome,
}

/// The receipt of a recorded call, as returned to the caller.
#[derive(Debug, Clone, Serialize)]
pub struct Receipt {
    receipt_id: String,
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    at: String,
}

impl Receipt {
    /// Removes decision and rule, for calls whose decision would reveal the existence of an item.
    #[must_use]
    pub fn undecided(self) -> Self {
        Self { decision: None, rule: None, ..self }
    }
}

/// Interval between attempts to reopen a failed ledger, in microseconds.
const REOPEN_MICROS: u64 = 1_000_000;

/// The ledger of one workspace, and the thread that syncs entries within 50 ms. A failed ledger is reopened from its
/// files, so that calls resume once the fault is over (LED-20).
pub struct Audit {
    shared: Arc<Shared>,
    flusher: Mutex<Option<JoinHandle<()>>>,
    /// True if every entry, even of a read, is synced before the response.
    is_always_synced: bool,
    /// Replication of the entries, if configured.
    elsewhere: Option<Elsewhere>,
    /// Sensitivity events from before the ledger was opened. Locked separately, so that calls are recorded during the
    /// count.
    past: Mutex<Past>,
}

/// Checkpoint anchor: the last checkpoint of a ledger, stored elsewhere so that truncation is detected (LED-19).
pub struct Anchoring {
    /// The last stored checkpoint.
    pub last: Option<Anchor>,
    /// Stores a synced checkpoint. Called by the ledger's thread and on close.
    pub keep: Box<dyn Fn(Anchor) + Send + Sync>,
}

struct Shared {
    state: Mutex<State>,
    /// Last result of [`Audit::is_failing`].
    was_failing: AtomicBool,
    changed: Condvar,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    keep: Box<dyn Fn(Anchor) + Send + Sync>,
    folder: PathBuf,
    tenant: [u8; 32],
    signer: Signer,
}

struct State {
    ledger: Option<Ledger>,
    /// The error to report while `ledger` is `None`.
    why: String,
    /// Number of times the ledger was opened: a sync begun on one instance must not complete on the next.
    openings: u64,
    /// Time of the last attempt to open the ledger.
    opened_micros: u64,
    /// The last checkpoint known to be synced. A ledger without this checkpoint is rejected.
    last: Option<Anchor>,
    /// Sensitivity events since [`Audit::open`].
    events: Events,
    /// Time of the oldest entry that may not be synced.
    appended_micros: u64,
    closing: bool,
}

impl State {
    /// The last synced checkpoint.
    fn anchor(&self) -> Option<Anchor> {
        self.ledger.as_ref().and_then(Ledger::synced_anchor)
    }

    /// The reason why no calls can be recorded; `None` while recording works.
    fn failure(&self) -> Option<&str> {
        self.ledger.as_ref().map_or(Some(&self.why), Ledger::failure)
    }
}

/// Microseconds since the Unix epoch; 0 for earlier times.
fn micros(clock: &dyn Clock) -> u64 {
    clock.now().0.max(0).unsigned_abs()
}

impl Audit {
    /// Opens or creates the ledger in `folder`, without an anchor.
    pub fn open(
        folder: &Path,
        workspace: &str,
        signer: Signer,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self, LedgerOpenError> {
        let anchoring = Anchoring { last: None, keep: Box::new(|_| ()) };
        Self::open_anchored(folder, workspace, signer, (clock, random), anchoring)
    }

    /// Opens or creates the ledger in `folder`, with a checkpoint anchor.
    pub fn open_anchored(
        folder: &Path,
        workspace: &str,
        signer: Signer,
        (clock, random): (Arc<dyn Clock>, Arc<dyn Random>),
        Anchoring { last, keep }: Anchoring,
    ) -> Result<Self, LedgerOpenError> {
        let tenant = Sha256::digest(workspace.as_bytes()).into();
        let with = LedgerOptions { tenant, signer: Box::new(signer.clone()), anchor: last };
        let ledger = Ledger::open(folder, with)?;
        // The reader ends here: later entries are counted as they are recorded.
        let past = ledger.reader().map_err(LedgerOpenError::Read)?;
        let past = Mutex::new(Past::of(past));
        let state = State {
            ledger: Some(ledger),
            why: "the ledger is closed".to_owned(),
            openings: 1,
            opened_micros: micros(&*clock),
            last,
            events: Events::default(),
            appended_micros: 0,
            closing: false,
        };
        let (state, was_failing) = (Mutex::new(state), AtomicBool::new(false));
        let (changed, folder) = (Condvar::new(), folder.to_owned());
        let shared =
            Shared { state, was_failing, changed, clock, random, keep, folder, tenant, signer };
        let shared = Arc::new(shared);
        let flusher = std::thread::Builder::new().name("ledger".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.flush_until_closed()
        });
        let flusher = Mutex::new(flusher.ok());
        Ok(Self { shared, flusher, is_always_synced: false, elsewhere: None, past })
    }

    /// Applies the setting `audit.sync`: with `Always`, entries of reads are synced before the response, too.
    #[must_use]
    pub fn syncing(mut self, sync: AuditSync) -> Self {
        self.is_always_synced = sync == AuditSync::Always;
        self
    }

    /// Attaches replication of the entries.
    #[must_use]
    pub fn brought(mut self, elsewhere: Option<Elsewhere>) -> Self {
        if let Some(elsewhere) = &elsewhere {
            elsewhere.bring_of(&self.shared);
        }
        self.elsewhere = elsewhere;
        self
    }

    /// Records a call. With `at_once`, as for writes, waits for the sync, and for replication if required. With
    /// `AuditSync::Always`, every call waits for the sync.
    pub fn record(&self, trace: &Trace, at_once: bool) -> Result<Receipt, Unrecorded> {
        let at = self.shared.clock.now();
        let mut receipt = [0; 16];
        self.shared.random.fill(&mut receipt);
        let draft = EntryDraft {
            at_micros: at.0.max(0).unsigned_abs(),
            receipt,
            tool: trace.tool,
            principal: &trace.principal,
            decision: trace.decision,
            rule: &trace.rule,
            arguments: trace.arguments,
            touched: &trace.touched,
            outcome: trace.outcome,
        };
        let mut state = self.shared.mended();
        if state.ledger.is_none() {
            return Err(AppendError::Closed(state.why.clone()).into());
        }
        let closed = || AppendError::Closed("the ledger is closed".to_owned());
        let ledger = state.ledger.as_mut().ok_or_else(closed)?;
        let was_synced = ledger.is_synced();
        let seq = ledger.append(&draft)?.seq;
        let waits = at_once || self.is_always_synced;
        let ticket = if waits { ledger.begin_sync(draft.at_micros)? } else { None };
        if was_synced {
            state.appended_micros = draft.at_micros;
        }
        state.events = state.events.plus(Events::of(&trace.touched));
        let openings = state.openings;
        drop(state);
        if let Some(ticket) = ticket {
            let done = ticket.run(); // others append while the disk works
            let mut state = self.shared.state();
            if state.openings != openings {
                let why = "the ledger was opened anew meanwhile".to_owned();
                return Err(AppendError::Closed(why).into());
            }
            state.ledger.as_mut().ok_or_else(closed)?.end_sync(done)?;
        }
        if at_once && let Some(elsewhere) = &self.elsewhere {
            elsewhere.await_all(&self.shared)?;
        }
        self.shared.changed.notify_one();
        Ok(Receipt {
            receipt_id: format!("rcp_{}", engine::hex(&receipt)),
            seq,
            decision: Some(trace.decision.word()),
            rule: Some(trace.rule.clone()),
            at: names::time(at),
        })
    }

    /// The number of sensitivity events of all calls so far; `None` if `is_over` cancels the count. The first caller
    /// counts the entries from before the ledger was opened, and the next resumes the count. Only callers of this
    /// function wait for the count.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn sensitivity_events(
        &self,
        is_over: impl FnMut() -> bool,
    ) -> Result<Option<Events>, ReadError> {
        let before = self.events_before(COUNTED_TOGETHER_MAX, is_over)?;
        Ok(before.map(|before| before.plus(self.shared.state().events)))
    }

    /// Events from before the ledger was opened, counted in steps of `entries_max` entries.
    fn events_before(
        &self,
        entries_max: usize,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<Option<Events>, ReadError> {
        loop {
            let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
            if past.count_on(entries_max)? {
                return Ok(Some(past.events));
            }
            drop(past);
            if is_over() {
                return Ok(None);
            }
        }
    }

    /// Signs and syncs all entries so far. Returns their files, oldest first, with the length of each in bytes. A copy
    /// of exactly these bytes verifies, whatever is appended meanwhile.
    pub fn settled_files(&self) -> Result<Vec<(PathBuf, u64)>, String> {
        let now = micros(&*self.shared.clock);
        let mut state = self.shared.mended();
        let why = state.why.clone();
        let ledger = state.ledger.as_mut().ok_or(why)?;
        ledger.sign_and_sync(now).map_err(|error| error.to_string())?;
        let reader = ledger.reader().map_err(|error| error.to_string())?;
        Ok(reader.files().map(|(path, bytes)| (path.to_owned(), bytes)).collect())
    }

    /// A reader of the entries so far, without later entries.
    ///
    /// # Errors
    /// The ledger is closed or cannot be read; carries the cause.
    pub fn reader(&self) -> Result<LedgerReader, String> {
        let state = self.shared.mended();
        let ledger = state.ledger.as_ref().ok_or_else(|| state.why.clone())?;
        ledger.reader().map_err(|error| error.to_string())
    }

    /// Number of entries, and the age of the oldest unsynced entry. The age is `None` if all are synced or the ledger
    /// is closed.
    pub fn progress(&self) -> (u64, Option<Duration>) {
        let state = self.shared.state();
        let Some(ledger) = &state.ledger else { return (0, None) };
        let (entries, _) = ledger.head();
        if ledger.is_synced() {
            return (entries, None);
        }
        let now = micros(&*self.shared.clock);
        let waits = now.saturating_sub(state.appended_micros);
        (entries, Some(Duration::from_micros(waits)))
    }

    /// The reason why no calls can be recorded; `None` while recording works. Reopens a failed ledger if the retry is
    /// due.
    pub fn failure(&self) -> Option<String> {
        self.shared.mended().failure().map(str::to_owned)
    }

    /// Returns true if no calls can be recorded. Never blocks: if the ledger is locked, possibly by a disk operation,
    /// the last result is returned.
    pub fn is_failing(&self) -> bool {
        let Ok(state) = self.shared.state.try_lock() else {
            return self.shared.was_failing.load(Ordering::Relaxed);
        };
        let is_failing = state.failure().is_some();
        self.shared.was_failing.store(is_failing, Ordering::Relaxed);
        is_failing
    }
}

impl Audit {
    /// Signs and syncs all entries and stores the last checkpoint; later calls are rejected. Shutdown calls this
    /// explicitly, so as not to wait for a running call that still owns the ledger.
    pub fn close(&self) {
        self.shared.state().closing = true;
        self.shared.changed.notify_one();
        let flusher = self.flusher.lock().unwrap_or_else(PoisonError::into_inner).take();
        if flusher.is_some_and(|flusher| flusher.join().is_err()) {
            log::event(Level::Error, "the ledger's thread had panicked", &[]);
        }
        let ledger = self.shared.state().ledger.take();
        let now = micros(&*self.shared.clock);
        match ledger.map(|ledger| ledger.close(now)) {
            Some(Ok(Some(anchor))) => (self.shared.keep)(anchor),
            Some(Err(error)) => {
                let fields = [("error", Field::Text(&error))];
                log::event(Level::Error, "the ledger did not close cleanly", &fields);
            }
            Some(Ok(None)) | None => {}
        }
        if let Some(elsewhere) = &self.elsewhere {
            elsewhere.await_last();
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state and reopens a failed ledger if the retry is due. All files are read anew; a ledger shorter than
    /// its last checkpoint is rejected (LED-19).
    fn mended(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        let now = micros(&*self.clock);
        let since = state.opened_micros;
        let is_time = now < since || now - since >= REOPEN_MICROS;
        if state.closing || state.failure().is_none() || !is_time {
            return state;
        }
        state.opened_micros = now;
        state.last = state.anchor().or(state.last);
        if let Some(why) = state.ledger.take().and_then(|failed| Some(failed.failure()?.to_owned()))
        {
            state.why = why;
        }
        let seal = Box::new(self.signer.clone());
        let with = LedgerOptions { tenant: self.tenant, signer: seal, anchor: state.last };
        match Ledger::open(&self.folder, with) {
            Ok(ledger) => {
                state.ledger = Some(ledger);
                state.openings += 1;
                log::event(Level::Info, "the ledger takes entries again", &[]);
            }
            Err(error) => state.why = error.to_string(),
        }
        self.changed.notify_one();
        state
    }

    /// Signs and syncs when due. A failure is stored in the ledger, which then rejects entries.
    fn flush_until_closed(&self) {
        let mut state = self.state();
        let mut kept = state.anchor();
        while !state.closing {
            let now = micros(&*self.clock);
            let due = state.ledger.as_ref().and_then(Ledger::due);
            let Some(due) = due else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if due > now {
                let wait = Duration::from_micros(due - now);
                let waited = self.changed.wait_timeout(state, wait);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let ticket = state.ledger.as_mut().map(|ledger| ledger.tick(now));
            let Some(Ok(Some(ticket))) = ticket else { continue };
            let openings = state.openings;
            drop(state);
            let done = ticket.run(); // callers append while the disk works
            state = self.state();
            if state.openings != openings {
                continue;
            }
            if let Some(Err(error)) = state.ledger.as_mut().map(|ledger| ledger.end_sync(done)) {
                let fields = [("error", Field::Text(&error))];
                log::event(Level::Error, "the ledger could not be synced", &fields);
            }
            let anchor = state.anchor();
            if let Some(newer) = anchor.filter(|_| anchor != kept) {
                kept = anchor;
                drop(state);
                (self.keep)(newer); // callers append meanwhile
                state = self.state();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::ledger::Effect;
    use engine::os::clock::{SystemClock, SystemRandom};

    use super::*;

    fn open(folder: &Path) -> Audit {
        let signer = Signer::from_seed(&[5; 32]);
        Audit::open(folder, "local", signer, Arc::new(SystemClock), Arc::new(SystemRandom)).unwrap()
    }

    /// Records a call that withheld two items, redacted one and read one.
    fn record(audit: &Audit) {
        let touched = [Effect::Withheld, Effect::Withheld, Effect::Redacted, Effect::Read]
            .map(|effect| TouchedItem { effect, item: [7; 16] });
        let trace = Trace {
            tool: "recall",
            principal: "ada".to_owned(),
            arguments: [0; 32],
            decision: Decision::Deny,
            rule: "rule".to_owned(),
            touched: touched.to_vec(),
            outcome: Outcome::Done,
        };
        audit.record(&trace, false).unwrap();
    }

    #[test]
    fn entries_of_reads_are_on_disk_at_once_where_that_is_set() {
        let name = format!("recalld-audit-sync-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let audit = open(&folder).syncing(AuditSync::Always);
        for entries in 1..=20 {
            record(&audit);
            assert_eq!(audit.progress(), (entries, None), "it waits for the disk");
        }
        drop(audit);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_ledger_that_is_closed_keeps_its_checkpoint_and_takes_no_more() {
        let folder = std::env::temp_dir().join(format!("recalld-audit-end-{}", std::process::id()));
        let kept = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&kept);
        let keep = Box::new(move |anchor: Anchor| *keep.lock().unwrap() = Some(anchor.seq));
        let anchoring = Anchoring { last: None, keep };
        let with: (Arc<dyn Clock>, Arc<dyn Random>) =
            (Arc::new(SystemClock), Arc::new(SystemRandom));
        let signer = Signer::from_seed(&[5; 32]);
        let audit = Audit::open_anchored(&folder, "local", signer, with, anchoring).unwrap();
        (0..3).for_each(|_| record(&audit));
        audit.close();
        assert_eq!(*kept.lock().unwrap(), Some(3), "although somebody still has it");
        assert!(audit.failure().is_some());
        audit.close(); // a second time, nothing
        drop(audit);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn sensitivity_events_are_counted_across_restarts_and_hold_up_no_call() {
        let folder = std::env::temp_dir().join(format!("recalld-audit-{}", std::process::id()));
        let audit = open(&folder);
        let times = |calls: u64| Events { open: calls, withheld: 2 * calls };
        assert_eq!(audit.sensitivity_events(|| false).unwrap().unwrap(), times(0));
        (0..5).for_each(|_| record(&audit));
        assert_eq!(audit.sensitivity_events(|| false).unwrap().unwrap(), times(5));
        drop(audit);

        let audit = open(&folder);
        record(&audit); // before anybody asks
        let mut beside = 0;
        // A cancelled count resumes at its position.
        assert_eq!(audit.events_before(2, || true).unwrap(), None);
        assert_eq!(audit.past.lock().unwrap().next_seq, 3);
        let before = audit.events_before(1, || {
            // Recorded during the count, and counted once.
            assert!(audit.shared.state.try_lock().is_ok(), "the count holds what calls need");
            assert!(audit.past.try_lock().is_ok(), "others go on with the count");
            record(&audit);
            beside += 1;
            false
        });
        assert_eq!((before.unwrap(), beside), (Some(times(5)), 3));
        assert_eq!(audit.sensitivity_events(|| false).unwrap(), Some(times(9)));
        drop(audit);
        assert_eq!(open(&folder).sensitivity_events(|| false).unwrap(), Some(times(9)));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
