//! Atomic output: a file of lines that exists complete or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

use super::failure::Failure;

/// The file contains every memory, so only its owner may read it.
const OWNER_ONLY: u32 = 0o600;

/// An output file under a temporary name beside its target. The file is removed on drop, and on SIGINT or SIGTERM,
/// unless it was persisted.
pub(super) struct Fresh {
    pub(super) file: File,
    path: PathBuf,
    target: PathBuf,
    _signals: Removal,
}

impl Fresh {
    /// Creates the temporary file for `target`. Fails if `target` exists and `force` is false.
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
        // Never open an existing file: another command may be writing the file, or a link may lead elsewhere.
        let opened = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(&path);
        let file = opened.map_err(|error| {
            let advice = match error.kind() {
                ErrorKind::AlreadyExists => {
                    "another command writes it, or one was killed; remove it if none runs"
                }
                _ => "choose a folder that may be written",
            };
            Failure::Could(format!("{}: {error}; {advice}", path.display()))
        })?;
        let removal = Removal::of(&path).map_err(|error| {
            let _empty = fs::remove_file(&path);
            Failure::could(error)
        })?;
        Ok(Self { file, path, target: target.to_owned(), _signals: removal })
    }

    /// Syncs the file and renames it to its target, durably.
    pub(super) fn put_in_place(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, &self.target)?;
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // After `put_in_place` the temporary name no longer exists.
        let _left = fs::remove_file(&self.path);
    }
}

/// Removes a file or folder on SIGINT or SIGTERM, then ends the process by the signal's default action. The thread runs
/// until `self` is dropped; the removal is skipped after that.
pub(super) struct Removal(Handle);

impl Removal {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let (handle, path) = (signals.handle(), path.to_owned());
        let work = move || {
            if let Some(signal) = signals.forever().next() {
                let _left = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
                let _ends_here = emulate_default_handler(signal);
            }
        };
        thread::Builder::new().name("removal".to_owned()).spawn(work)?;
        Ok(Self(handle))
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        self.0.close();
    }
}
