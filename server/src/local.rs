//! The workspace `local`, which is open all the time: whoever has it now.
//!
//! Owns the change from one to the next, where its store changes its role. Must not know why it does.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::auth::LOCAL_WORKSPACE;
use crate::workspace::Workspace;

/// The workspace `local`.
pub struct Local {
    now: RwLock<Arc<Workspace>>,
    on_news: OnceLock<Arc<dyn Fn() + Send + Sync>>,
}

impl Local {
    /// It, as it was opened first.
    pub fn new(workspace: Workspace) -> Self {
        Self { now: RwLock::new(Arc::new(workspace)), on_news: OnceLock::new() }
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
