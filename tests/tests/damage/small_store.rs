//! A small store in memory with two segments, a state file and a log of several commits.

use std::ops::Range;
use std::sync::Arc;

use engine::Store;
use serde_json::Value;
use tests::ground;
use tests::listing::{Asked, listing};
use tests::memory_disk::{Files, MemoryDisk};
use tests::sample::{self, Seals};

const SEED: u64 = 11;
const SEALS: Seals = Seals(&[1, 2]);
const LOG_HEADER_BYTES: usize = 64;
const FRAME_HEAD_BYTES: usize = 32;

/// The store's files, and what it must show.
pub(crate) struct SmallStore {
    pub(crate) files: Files,
    pub(crate) asked: Asked,
    /// The listing after each commit; that of commit `n` at `n - 1`.
    pub(crate) shown: Vec<Value>,
    /// How many of the commits are in segments.
    pub(crate) sealed: usize,
}

impl SmallStore {
    pub(crate) fn new() -> Self {
        let (_, asked, _) = made(&Asked::default());
        // Ids repeat, so a second making can be asked for what the first has written.
        let (files, _, shown) = made(&asked);
        Self { files, asked, shown, sealed: 3 }
    }

    /// Opens files and reads all there is.
    pub(crate) fn read(&self, files: Files) -> Result<Value, String> {
        let ground = ground::still(Arc::new(MemoryDisk::holding(files)), SEED);
        let store = Store::open(ground, ground::unmerged()).map_err(|error| error.to_string())?;
        listing(&store.snapshot(), &self.asked).map_err(|error| error.to_string())
    }

    pub(crate) fn log_name(&self) -> &str {
        let mut logs = self.files.keys().filter(|name| name.starts_with("log-"));
        logs.next_back().expect("the last commits are in a log")
    }

    /// Where the frames of the log lie.
    pub(crate) fn frames(&self) -> Vec<Range<usize>> {
        let log = &self.files[self.log_name()];
        let mut frames = Vec::new();
        let mut at = LOG_HEADER_BYTES;
        while at < log.len() {
            let length = u32::from_le_bytes(log[at..at + 4].try_into().expect("four bytes"));
            let end = at + FRAME_HEAD_BYTES + length as usize;
            frames.push(at..end);
            at = end;
        }
        frames
    }
}

fn made(asked: &Asked) -> (Files, Asked, Vec<Value>) {
    let disk = MemoryDisk::default();
    let ground = ground::still(Arc::new(disk.clone()), SEED);
    let store = Store::open(ground, ground::unmerged()).expect("a new store opens");
    let mut shown = Vec::new();
    let written = sample::furnish(&store, SEALS, |store, _| {
        shown.push(listing(&store.snapshot(), asked).expect("no damage"));
    });
    let written = written.expect("the disk works");
    let asked = Asked::of(&store.snapshot(), &written).expect("no damage");
    (disk.files(), asked, shown)
}
