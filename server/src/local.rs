//! The workspace `local`, which is open all the time: whoever has it now.
//!
//! Owns the change from one to the next, where its store changes its role, and the upkeep of whichever it is. Must
//! not know why it changes.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use engine::Upkeep;

use crate::auth::LOCAL_WORKSPACE;
use crate::workspace::Workspace;

/// The workspace `local`.
pub struct Local {
    now: RwLock<Arc<Workspace>>,
    on_news: OnceLock<Arc<dyn Fn() + Send + Sync>>,
    upkeep: Mutex<Option<Upkeep>>,
}

impl Local {
    /// It, as it was opened first.
    pub fn new(workspace: Workspace) -> Self {
        let now = RwLock::new(Arc::new(workspace));
        Self { now, on_news: OnceLock::new(), upkeep: Mutex::default() }
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
        let upkeep = Upkeep::start(Arc::clone(&self.get().store))?;
        *self.upkeep() = Some(upkeep);
        Ok(())
    }

    /// Keeps it no longer. Whether it did.
    pub fn end_upkeep(&self) -> bool {
        // Its end is waited for without the lock.
        let upkeep = self.upkeep().take();
        upkeep.is_some()
    }

    fn upkeep(&self) -> std::sync::MutexGuard<'_, Option<Upkeep>> {
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another one in its place.
    pub fn put(&self, workspace: Workspace) {
        let workspace = Arc::new(workspace);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&workspace);
        if let Some(tell) = self.on_news.get() {
            tell_by(&workspace, tell);
            tell();
        }
    }

    /// It, where nobody else has it: tests change it so before anything is served.
    pub fn only(&mut self) -> Option<&mut Workspace> {
        Arc::get_mut(self.now.get_mut().unwrap_or_else(PoisonError::into_inner))
    }
}

fn tell_by(workspace: &Workspace, tell: &Arc<dyn Fn() + Send + Sync>) {
    let tell = Arc::clone(tell);
    workspace.store.tell_of_news(move || tell());
}
