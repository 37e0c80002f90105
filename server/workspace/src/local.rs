//! The workspace `local`, which is open all the time: whoever has it now.
//!
//! Owns the change from one to the next, where its store changes its role, and the upkeep of whichever it is. Must
//! not know why it changes.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use engine::Upkeep;

use crate::workspace::Workspace;
use recalld_common::slug::LOCAL_WORKSPACE;

/// The workspace `local`.
pub struct Local {
    now: RwLock<Arc<Workspace>>,
    on_news: OnceLock<Arc<dyn Fn() + Send + Sync>>,
    upkeep: Mutex<Option<Upkeep>>,
    /// Whether whichever store it is is kept.
    is_kept: AtomicBool,
}

impl Local {
    /// It, as it was opened first.
    pub fn new(workspace: Workspace) -> Self {
        let now = RwLock::new(Arc::new(workspace));
        let (upkeep, is_kept) = (Mutex::default(), AtomicBool::new(false));
        Self { now, on_news: OnceLock::new(), upkeep, is_kept }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        LOCAL_WORKSPACE
    }

    /// It, as it is now. Whoever keeps it keeps what it was.
    pub fn get(&self) -> Arc<Workspace> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has `tell` called whenever its store shows something new, whichever that is: it must be quick and wait for
    /// nothing. The first stays.
    pub fn tell_of_news(&self, tell: impl Fn() + Send + Sync + 'static) {
        let tell = self.on_news.get_or_init(|| Arc::new(tell));
        tell_by(&self.get(), tell);
    }

    /// Keeps its store from now on, whichever that is.
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn begin_upkeep(&self) -> io::Result<()> {
        self.is_kept.store(true, Ordering::SeqCst);
        let upkeep = Upkeep::start(Arc::clone(&self.get().store))?;
        *self.upkeep() = Some(upkeep);
        Ok(())
    }

    /// Leaves its store alone until another one is put in its place.
    pub fn rest(&self) {
        // Its end is waited for without the lock.
        let upkeep = self.upkeep().take();
        drop(upkeep);
    }

    /// Keeps it no longer.
    pub fn end_upkeep(&self) {
        self.is_kept.store(false, Ordering::SeqCst);
        self.rest();
    }

    fn upkeep(&self) -> MutexGuard<'_, Option<Upkeep>> {
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another one in its place, which is kept as the one before was.
    ///
    /// # Errors
    /// The system gives no threads to keep it; it is in place.
    pub fn put(&self, workspace: Workspace) -> io::Result<()> {
        let workspace = Arc::new(workspace);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&workspace);
        if let Some(tell) = self.on_news.get() {
            tell_by(&workspace, tell);
            tell();
        }
        if self.is_kept.load(Ordering::SeqCst) { self.begin_upkeep() } else { Ok(()) }
    }

    /// Changes the workspace before anything is served; for tests.
    ///
    /// # Panics
    /// Somebody else has the workspace.
    pub fn change<T>(&self, change: impl FnOnce(&mut Workspace) -> T) -> T {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::get_mut(&mut now).expect("nothing is served yet"))
    }
}

fn tell_by(workspace: &Workspace, tell: &Arc<dyn Fn() + Send + Sync>) {
    let tell = Arc::clone(tell);
    workspace.store.tell_of_news(move || tell());
}
