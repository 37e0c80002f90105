//! Opening a file that has an end.
//!
//! Knows nothing of what is in it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file that has an end and can be read twice; `None` for anything else. A pipe that nobody
/// writes to, which might take its place, could take for ever to open or to read.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    Ok(file.metadata()?.is_file().then_some(file))
}
