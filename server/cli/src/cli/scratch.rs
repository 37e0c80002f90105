//! A temporary folder, removed at the end of the command, and on SIGINT or SIGTERM.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::fresh::Removal;

/// The folder contains memories, so only its owner may enter.
const OWNER_ONLY: u32 = 0o700;

pub(super) struct Scratch {
    path: PathBuf,
    _signals: Removal,
}

impl Scratch {
    /// Creates a folder in the system's temporary directory.
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
        // A folder that remains is visible in the temporary directory; the error is ignored.
        let _left = fs::remove_dir_all(&self.path);
    }
}
