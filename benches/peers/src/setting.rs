//! What every benchmark is handed, and the small acts that all of them share.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Advice;
use rustix::time::ClockId;

use crate::corpus::{Corpus, Outcome};
use crate::report::Report;

/// One run of the program.
#[derive(Debug)]
pub struct Setting {
    /// Where stores are made.
    pub folder: PathBuf,
    /// A run that only shows that everything works.
    pub quick: bool,
    pub corpus: Corpus,
    pub report: Report,
}

impl Setting {
    /// `full`, or `quick` in a quick run.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// Bytes of all files in a folder.
pub fn folder_bytes(folder: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// Asks the system to forget what it has cached of a folder's files. It needs no privilege, works
/// on pages that are on disk and that nobody maps, and is only advice: `disk_reads` says what came
/// of it.
pub fn forget(folder: &Path) -> Outcome<()> {
    for entry in fs::read_dir(folder)? {
        let file = fs::File::open(entry?.path())?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Bytes that this process has had read from disk so far.
pub fn disk_reads() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

/// Processor time of this process, all threads together.
pub fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
