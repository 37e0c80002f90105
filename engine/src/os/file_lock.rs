use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Access for the owner only.
const MODE: u32 = 0o600;

/// Exclusive lock on a file among all processes, released on drop.
#[derive(Debug)]
pub(crate) struct FileLock(File);

impl FileLock {
    /// Acquires the lock on the file at `path`, which is created if missing; `None` if the lock is held elsewhere.
    pub(crate) fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        let mut open = OpenOptions::new();
        let file = open.write(true).create(true).truncate(false).mode(MODE).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Unlocks explicitly: a close releases the lock only once every copy of the descriptor is closed, and a child process
/// has a copy between its fork and its exec.
impl Drop for FileLock {
    fn drop(&mut self) {
        // If the unlock fails, the close remains.
        let _unlocked = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicated_descriptor_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("LOCK");
        let held = FileLock::try_acquire(&path).unwrap().expect("nobody has it");
        assert!(FileLock::try_acquire(&path).unwrap().is_none());
        let copy = held.0.try_clone().unwrap();
        drop(held);
        assert!(FileLock::try_acquire(&path).unwrap().is_some());
        drop(copy);
    }
}
