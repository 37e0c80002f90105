//! Reading a file piece by piece, wherever it lies.

use std::fmt::Debug;

use crate::error::DiskError;

/// A file that is read piece by piece: what cannot be read is an error there, where the touch of a map
/// would end the process. It stays readable when its name is removed.
pub trait DiskRead: Send + Sync + Debug {
    /// How long it is.
    fn bytes(&self) -> u64;
    /// Fills `into` with the bytes from `at` on; all of them lie within the file.
    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<(), DiskError>;
    /// Returns once all of it is here; most files are always. Whoever reads it to its end calls this first, so that
    /// what does not come is not taken for what cannot be read.
    fn bring(&self) -> Result<(), DiskError> {
        Ok(())
    }
    /// What tells it from any other file that gets its name; a disk that knows no more gives its length.
    fn stamp(&self) -> FileStamp {
        FileStamp { bytes: self.bytes(), ..FileStamp::default() }
    }
}

/// What changes when a file gives its place to another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileStamp {
    pub(super) bytes: u64,
    pub(super) node: u64,
    /// When it changed last: seconds and nanoseconds.
    pub(super) changed: (i64, i64),
}
