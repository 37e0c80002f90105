//! A small store in memory with two segments, a state file and a log of several commits.

use std::ops::Range;
use std::sync::Arc;

use crate::ground;
use crate::listing::{Asked, listing};
use crate::memory_disk::{Files, MemoryDisk};
use crate::reseal;
use crate::sample::{self, Seals};
use engine::Store;
use serde_json::Value;

const SEED: u64 = 11;
const SEALS: Seals = Seals(&[1, 2]);

/// The store's files, and its expected contents.
pub struct SmallStore {
    /// Files as a killed writer leaves them.
    pub files: Files,
    /// Files as an orderly closed writer leaves them.
    pub closed: Files,
    /// Names to look up in the listing.
    pub asked: Asked,
    /// The listing after each commit; commit `n` is at `n - 1`.
    pub shown: Vec<Value>,
    /// Number of commits in segments.
    pub sealed: usize,
}

impl SmallStore {
    /// Makes the store; the result is always the same.
    ///
    /// # Panics
    /// The engine rejects a step.
    #[expect(clippy::new_without_default, reason = "making it takes time")]
    pub fn new() -> Self {
        let first = made(&Asked::default());
        // Ids repeat, so the second store can be listed with the names of the first.
        Self { asked: first.asked.clone(), ..made(&first.asked) }
    }

    /// Opens the files and lists everything.
    pub fn read(&self, files: Files) -> Result<Value, String> {
        let ground = ground::still(Arc::new(MemoryDisk::holding(files)), SEED);
        let store = Store::open(ground, ground::unmerged()).map_err(|error| error.to_string())?;
        listing(&store.snapshot(), &self.asked).map_err(|error| error.to_string())
    }

    /// Name of the newest log.
    ///
    /// # Panics
    /// There is no log.
    pub fn log_name(&self) -> &str {
        let mut logs = self.files.keys().filter(|name| name.starts_with("log-"));
        logs.next_back().expect("the last commits are in a log")
    }

    /// Byte ranges of the log's frames.
    ///
    /// # Panics
    /// The log is invalid.
    pub fn frames(&self) -> Vec<Range<usize>> {
        reseal::frames(&self.files[self.log_name()])
    }
}

fn made(asked: &Asked) -> SmallStore {
    let disk = MemoryDisk::default();
    let ground = ground::still(Arc::new(disk.clone()), SEED);
    let store = Store::open(ground, ground::unmerged()).expect("a new store opens");
    let mut shown = Vec::new();
    let written = sample::furnish(&store, SEALS, |store, _| {
        shown.push(listing(&store.snapshot(), asked).expect("no damage"));
    });
    let written = written.expect("the disk works");
    let asked = Asked::of(&store.snapshot(), &written).expect("no damage");
    let files = disk.files();
    drop(store);
    SmallStore { files, closed: disk.files(), asked, shown, sealed: 3 }
}
