//! A file of lines that appears whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

use super::failure::Failure;

/// It holds every memory: it is for its owner.
const OWNER_ONLY: u32 = 0o600;

/// A file that is being written beside the one it will be; removed unless it is put in place, also
/// when the process is told to end.
pub(super) struct Fresh {
    pub(super) file: File,
    path: PathBuf,
    target: PathBuf,
    _signals: Removal,
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
        // Never one that is there: another command may be writing it, or a link lead elsewhere.
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

/// Removes a file or a folder when the process is told to end, and then ends it as it would have ended. Its
/// thread goes on until it is dropped; from then on a signal only ends what is left to tell.
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
