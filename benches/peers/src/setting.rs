//! Settings of every benchmark, and the helpers that they share.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Advice;
use rustix::time::ClockId;

use crate::corpus::{Corpus, Outcome};
use crate::report::Report;

/// State and results of one run of the program.
#[derive(Debug)]
pub struct Setting {
    /// Folder of the stores.
    pub folder: PathBuf,
    /// True in a smoke test, whose figures mean nothing.
    pub quick: bool,
    pub corpus: Corpus,
    pub report: Report,
}

impl Setting {
    /// Returns `full`, or `quick` in a quick run.
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

/// Asks the system to drop its cached pages of a folder's files. The call needs no privilege and affects only clean,
/// unmapped pages. As it is only advice, `disk_reads` shows its effect.
pub fn forget(folder: &Path) -> Outcome<()> {
    for entry in fs::read_dir(folder)? {
        let file = fs::File::open(entry?.path())?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Bytes that this process has read from disk.
pub fn disk_reads() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

/// CPU time of all threads of this process.
pub fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
