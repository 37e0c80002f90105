//! A lock on a file, which one process holds at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Only the owner may take it.
const MODE: u32 = 0o600;

/// Held until it is dropped.
#[derive(Debug)]
pub(crate) struct HeldLock(File);

impl HeldLock {
    /// Takes the lock on the file at `path`, which is made where it is not there; `None` if somebody
    /// else holds it.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        let mut open = OpenOptions::new();
        let file = open.write(true).create(true).truncate(false).mode(MODE).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Closing would let go of it only once every copy of the descriptor is closed, and a child that is
/// being started has one until it runs another program.
impl Drop for HeldLock {
    fn drop(&mut self) {
        // Closing is what is left where this fails.
        let _unlocked = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_descriptor_does_not_hold_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("LOCK");
        let held = HeldLock::take(&path).unwrap().expect("nobody has it");
        assert!(HeldLock::take(&path).unwrap().is_none());
        let copy = held.0.try_clone().unwrap();
        drop(held);
        assert!(HeldLock::take(&path).unwrap().is_some());
        drop(copy);
    }
}
