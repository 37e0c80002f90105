//! The default workspace `local`, open for the whole life of the server.
//!
//! Replaces the workspace when its store changes its role, and runs maintenance of the current store. Does not know the
//! reason of a role change.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use engine::BackgroundWorkers;

use crate::workspace::Workspace;
use recalld_common::slug::LOCAL_WORKSPACE;

/// Handle of the default workspace `local`.
pub struct Local {
    now: RwLock<Arc<Workspace>>,
    on_news: OnceLock<Arc<dyn Fn() + Send + Sync>>,
    upkeep: Mutex<Option<BackgroundWorkers>>,
    /// True if maintenance runs on the current store and on each replacement.
    is_kept: AtomicBool,
}

impl Local {
    /// Wraps the workspace opened at the start.
    pub fn new(workspace: Workspace) -> Self {
        let now = RwLock::new(Arc::new(workspace));
        let (upkeep, is_kept) = (Mutex::default(), AtomicBool::new(false));
        Self { now, on_news: OnceLock::new(), upkeep, is_kept }
    }

    /// Workspace name, `local`.
    pub fn name(&self) -> &'static str {
        LOCAL_WORKSPACE
    }

    /// The current workspace. The handle remains valid after a replacement, but refers to the old workspace.
    pub fn get(&self) -> Arc<Workspace> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers `tell` to be called after each commit of the current store and of each replacement. `tell` must be
    /// quick and must not block. Only the first registration is effective.
    pub fn tell_of_news(&self, tell: impl Fn() + Send + Sync + 'static) {
        let tell = self.on_news.get_or_init(|| Arc::new(tell));
        tell_by(&self.get(), tell);
    }

    /// Starts maintenance of the current store and of each replacement.
    ///
    /// # Errors
    /// Returns an error if the system cannot create a thread.
    pub fn begin_upkeep(&self) -> io::Result<()> {
        self.is_kept.store(true, Ordering::SeqCst);
        let upkeep = BackgroundWorkers::start(Arc::clone(&self.get().store))?;
        *self.upkeep() = Some(upkeep);
        Ok(())
    }

    /// Pauses maintenance until [`Self::put`] replaces the workspace.
    pub fn rest(&self) {
        // Join the maintenance threads without the lock.
        let upkeep = self.upkeep().take();
        drop(upkeep);
    }

    /// Stops maintenance.
    pub fn end_upkeep(&self) {
        self.is_kept.store(false, Ordering::SeqCst);
        self.rest();
    }

    fn upkeep(&self) -> MutexGuard<'_, Option<BackgroundWorkers>> {
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the workspace; if maintenance was on, starts it for the new store.
    ///
    /// # Errors
    /// Returns an error if the system cannot create a maintenance thread; the workspace is replaced nevertheless.
    pub fn put(&self, workspace: Workspace) -> io::Result<()> {
        let workspace = Arc::new(workspace);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&workspace);
        if let Some(tell) = self.on_news.get() {
            tell_by(&workspace, tell);
            tell();
        }
        if self.is_kept.load(Ordering::SeqCst) { self.begin_upkeep() } else { Ok(()) }
    }

    /// Exclusive access for tests, before the workspace is shared.
    ///
    /// # Panics
    /// Panics if another handle of the workspace exists.
    pub fn change<T>(&self, change: impl FnOnce(&mut Workspace) -> T) -> T {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::get_mut(&mut now).expect("nothing is served yet"))
    }
}

fn tell_by(workspace: &Workspace, tell: &Arc<dyn Fn() + Send + Sync>) {
    let tell = Arc::clone(tell);
    workspace.store.on_commit(move || tell());
}
