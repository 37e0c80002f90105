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
pub(crate) const LOG_HEADER_BYTES: usize = 64;
const FRAME_HEAD_BYTES: usize = 32;
const FRAME_HEAD_CRC: usize = 28;

/// Makes the checksums of a log's frame right for what it holds now (log.md, Log).
pub(crate) fn reseal_frame(log: &mut [u8], frame: &Range<usize>) {
    let place = [&log[16..40], &(frame.start as u64).to_le_bytes()].concat();
    let place = crc32c::crc32c(&place);
    let frame = &mut log[frame.clone()];
    let head = crc32c::crc32c_append(place, &frame[8..FRAME_HEAD_CRC]);
    let crc = crc32c::crc32c_append(head, &frame[FRAME_HEAD_BYTES..]);
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c::crc32c_append(place, &frame[..FRAME_HEAD_CRC]);
    frame[FRAME_HEAD_CRC..FRAME_HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// The store's files, and what it must show.
pub(crate) struct SmallStore {
    /// As a killed writer leaves them.
    pub(crate) files: Files,
    /// As a writer leaves them that closes in good order.
    pub(crate) closed: Files,
    pub(crate) asked: Asked,
    /// The listing after each commit; that of commit `n` at `n - 1`.
    pub(crate) shown: Vec<Value>,
    /// How many of the commits are in segments.
    pub(crate) sealed: usize,
}

impl SmallStore {
    pub(crate) fn new() -> Self {
        let first = made(&Asked::default());
        // Ids repeat, so a second making can be asked for what the first has written.
        Self { asked: first.asked.clone(), ..made(&first.asked) }
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
