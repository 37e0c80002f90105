//! Connection of one node to its objects: a test can cut the connection, and hook an event into each put.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use recalld_replication::{About, Away, Counts, Folder, Key, Objects, Tried};

/// Hook between the storage of an object and the response to its writer.
type Event = Box<dyn FnMut(&Key) -> Result<(), Away> + Send>;

pub(crate) struct Wire {
    folder: Folder,
    is_cut: Mutex<bool>,
    mended: Condvar,
    /// Number of callers that wait for a conditional put.
    waiting: Mutex<usize>,
    event: Mutex<Option<Event>>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

impl Wire {
    pub(crate) fn over(root: &Path) -> Self {
        Self {
            folder: Folder::open(root, Arc::new(Counts::default())).unwrap(),
            is_cut: Mutex::new(false),
            mended: Condvar::new(),
            waiting: Mutex::new(0),
            event: Mutex::new(None),
        }
    }

    /// Blocks all requests until `mend`.
    pub(crate) fn cut(&self) {
        *self.is_cut.lock().unwrap() = true;
    }

    pub(crate) fn mend(&self) {
        *self.is_cut.lock().unwrap() = false;
        self.mended.notify_all();
    }

    /// Number of callers that wait for a conditional put. Only records are put conditionally; heartbeats are plain
    /// puts.
    pub(crate) fn waiting(&self) -> usize {
        *self.waiting.lock().unwrap()
    }

    /// Runs this hook after each put.
    pub(crate) fn after_each_put(
        &self,
        event: impl FnMut(&Key) -> Result<(), Away> + Send + 'static,
    ) {
        *self.event.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(event));
    }

    fn pass(&self) {
        let mut is_cut = self.is_cut.lock().unwrap();
        while *is_cut {
            is_cut = self.mended.wait(is_cut).unwrap();
        }
    }

    /// Runs the hook: one call at a time, and never nested.
    fn happens(&self, key: &Key) -> Result<(), Away> {
        let event = self.event.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut event) = event else { return Ok(()) };
        let done = event(key);
        self.event.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(event);
        done
    }
}

impl Objects for Wire {
    fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), Away> {
        self.pass();
        self.folder.put(key, bytes)?;
        self.happens(key)
    }

    fn put_new(&self, key: &Key, bytes: &[u8]) -> Tried {
        *self.waiting.lock().unwrap() += 1;
        self.pass();
        *self.waiting.lock().unwrap() -= 1;
        match (self.folder.put_new(key, bytes), self.happens(key)) {
            (Tried::Made, Err(away)) => Tried::Unsure(away.why),
            (tried, _) => tried,
        }
    }

    fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Away> {
        self.pass();
        self.folder.get(key, range, most)
    }

    fn head(&self, key: &Key) -> Result<Option<About>, Away> {
        self.pass();
        self.folder.head(key)
    }

    fn list(&self, prefix: &str, after: Option<&Key>, most: usize) -> Result<Vec<About>, Away> {
        self.pass();
        self.folder.list(prefix, after, most)
    }

    fn remove(&self, keys: &[Key]) -> Result<(), Away> {
        self.pass();
        self.folder.remove(keys)
    }
}
