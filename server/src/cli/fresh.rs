//! A file of lines that appears whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::Failure;

/// It holds every memory: it is for its owner.
const OWNER_ONLY: u32 = 0o600;

/// A file that is being written beside the one it will be; removed unless it is put in place.
pub(super) struct Fresh {
    pub(super) file: File,
    path: PathBuf,
    target: PathBuf,
}

impl Fresh {
    /// Begins `target`, which must not be there unless `force` is given.
    pub(super) fn create(target: &Path, force: bool) -> Result<Self, Failure> {
        if !force && target.symlink_metadata().is_ok() {
            let why = format!("{} is there; --force replaces it", target.display());
            return Err(Failure::Could(why));
        }
        let Some(name) = target.file_name() else {
            return Err(Failure::Usage(format!("{} is not a file's name", target.display())));
        };
        let mut name = name.to_owned();
        name.push(".new");
        let path = target.with_file_name(name);
        let opened =
            OpenOptions::new().write(true).create(true).truncate(true).mode(OWNER_ONLY).open(&path);
        let file = opened.map_err(|error| {
            let why = format!("{}: {error}; choose a folder that may be written", path.display());
            Failure::Could(why)
        })?;
        Ok(Self { file, path, target: target.to_owned() })
    }

    /// Gives the file its name, durably.
    pub(super) fn put_in_place(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, &self.target)?;
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // After `put_in_place` there is none.
        let _left = fs::remove_file(&self.path);
    }
}
