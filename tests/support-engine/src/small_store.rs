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

/// The store's files, and what it must show.
pub struct SmallStore {
    /// As a killed writer leaves them.
    pub files: Files,
    /// As a writer leaves them that closes in good order.
    pub closed: Files,
    /// What to ask it for.
    pub asked: Asked,
    /// The listing after each commit; that of commit `n` at `n - 1`.
    pub shown: Vec<Value>,
    /// How many of the commits are in segments.
    pub sealed: usize,
}

impl SmallStore {
    /// Makes it; always the same.
    ///
    /// # Panics
    /// When the engine refuses what it is made of.
    #[expect(clippy::new_without_default, reason = "making it takes time")]
    pub fn new() -> Self {
        let first = made(&Asked::default());
        // Ids repeat, so a second making can be asked for what the first has written.
        Self { asked: first.asked.clone(), ..made(&first.asked) }
    }

    /// Opens files and reads all there is.
    pub fn read(&self, files: Files) -> Result<Value, String> {
        let ground = ground::still(Arc::new(MemoryDisk::holding(files)), SEED);
        let store = Store::open(ground, ground::unmerged()).map_err(|error| error.to_string())?;
        listing(&store.snapshot(), &self.asked).map_err(|error| error.to_string())
    }

    /// Name of the newest log.
    ///
    /// # Panics
    /// When there is none.
    pub fn log_name(&self) -> &str {
        let mut logs = self.files.keys().filter(|name| name.starts_with("log-"));
        logs.next_back().expect("the last commits are in a log")
    }

    /// Where the frames of the log lie.
    ///
    /// # Panics
    /// When the log is not one.
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
