//! A folder that goes away with the command, also when the process is told to end.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::fresh::Removal;

/// It holds memories: it is for its owner.
const OWNER_ONLY: u32 = 0o700;

pub(super) struct Scratch {
    path: PathBuf,
    _signals: Removal,
}

impl Scratch {
    /// A new folder in the system's place for such.
    pub(super) fn create(name: &str) -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let could = |error| Failure::Could(format!("{}: {error}; set TMPDIR", path.display()));
        DirBuilder::new().mode(OWNER_ONLY).create(&path).map_err(could)?;
        let removal = Removal::of(&path).map_err(|error| {
            let _empty = fs::remove_dir(&path);
            Failure::could(error)
        })?;
        Ok(Self { path, _signals: removal })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is still there says so by itself.
        let _left = fs::remove_dir_all(&self.path);
    }
}
