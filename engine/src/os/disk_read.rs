use std::fmt::Debug;

use crate::error::DiskError;

/// File read in ranges. An unreadable range is an error, while the touch of a mapping would end the process. The file
/// stays readable after its name is removed.
pub trait DiskRead: Send + Sync + Debug {
    /// Length in bytes.
    fn bytes(&self) -> u64;
    /// Fills `into` with the bytes from offset `at`; the range must be within the file.
    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<(), DiskError>;
    /// Blocks until the whole file is present locally, which most files always are. Called before a read of the whole
    /// file, so that unavailable bytes are not mistaken for unreadable ones.
    fn fetch_all(&self) -> Result<(), DiskError> {
        Ok(())
    }
    /// Stamp that distinguishes the file from any other file of its name; by default only the length.
    fn stamp(&self) -> FileStamp {
        FileStamp { bytes: self.bytes(), ..FileStamp::default() }
    }
}

/// Identity of a file, which changes when another file replaces it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileStamp {
    pub(super) bytes: u64,
    pub(super) node: u64,
    /// Time of the last change: seconds and nanoseconds.
    pub(super) changed: (i64, i64),
}
