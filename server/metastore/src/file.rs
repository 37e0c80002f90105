//! The metastore file: created private, locked by one process, and verified on each opening.
//!
//! Owns the opening of the file, and the mapping of redb errors. Must not know records.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{Builder, Database, StorageBackend};

use super::error::{ControlError, FILE};
use super::sealed::{Seal, Sealed};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum size of redb's page cache. Fully used with 1,000 workspaces and 10,000 credentials; redb's default is 1
    /// GiB.
    pub const CACHE_BYTES_MAX: usize = 8 * 1024 * 1024;
}

const FILE_MODE: u32 = 0o600;
/// Permission bits of group and others.
const OTHERS: u32 = 0o077;
const MODE_BITS: u32 = 0o777;

/// Storage of the metastore.
pub(super) trait Place: Send + Sync {
    /// Opens the storage. Creates missing storage if `may_make` is true.
    fn open(&self, may_make: bool) -> Result<(Database, Seal), ControlError>;

    /// Returns true if the storage exists.
    fn is_there(&self) -> bool {
        true
    }

    /// Identity and modification time of the current file; `None` if unknown.
    fn mark(&self) -> Result<Option<Mark>, ControlError>;
}

/// File identity: detects a replaced file, and writes by another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Modification time: seconds and nanoseconds.
    changed_at: (i64, i64),
}

/// A file of the file system.
#[derive(Debug)]
pub(super) struct OnDisk(pub(super) PathBuf);

impl Place for OnDisk {
    fn is_there(&self) -> bool {
        self.0.exists()
    }

    fn open(&self, may_make: bool) -> Result<(Database, Seal), ControlError> {
        let file = open_private(&self.0, may_make)?;
        open_database(FileBackend::new(file).map_err(fault)?)
    }

    fn mark(&self) -> Result<Option<Mark>, ControlError> {
        let about =
            std::fs::metadata(&self.0).map_err(|error| cannot("look at", &self.0, &error))?;
        Ok(Some(Mark {
            device: about.dev(),
            inode: about.ino(),
            bytes: about.len(),
            changed_at: (about.mtime(), about.mtime_nsec()),
        }))
    }
}

/// Opens the database in `storage`, after a check of every page: redb trusts a file that was closed cleanly, whatever
/// happened to the file since.
pub(super) fn open_database(
    storage: impl StorageBackend,
) -> Result<(Database, Seal), ControlError> {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES_MAX).set_check_integrity_on_open(true);
    let seal = Seal::default();
    let sealed = Sealed { storage, seal: seal.clone() };
    let database = guarded(|| builder.create_with_backend(sealed))?;
    Ok((database, seal))
}

fn open_private(path: &Path, may_make: bool) -> Result<File, ControlError> {
    let open = OpenOptions::new().read(true).write(true).open(path);
    let file = match open {
        Err(error) if error.kind() == io::ErrorKind::NotFound && may_make => make(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let path = path.display();
            return Err(ControlError::unavailable(format!("{path} is gone; put it back")));
        }
        opened => opened.map_err(|error| cannot("open", path, &error))?,
    };
    let about = file.metadata().map_err(|error| cannot("look at", path, &error))?;
    let mode = about.permissions().mode() & MODE_BITS;
    let path = path.display();
    if !about.is_file() {
        return Err(ControlError::unavailable(format!("{path} is not a file; move it away")));
    }
    if mode & OTHERS != 0 {
        return Err(ControlError::unavailable(format!(
            "others can get at {path} (mode {mode:03o}); run: chmod {FILE_MODE:03o} {path}"
        )));
    }
    Ok(file)
}

/// Creates a file, and syncs its directory.
fn make(path: &Path) -> Result<File, ControlError> {
    let failed = |error| cannot("create", path, &error);
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)
        .map_err(failed)?;
    // The umask can only remove bits, but an unusual umask may have removed the owner's.
    file.set_permissions(Permissions::from_mode(FILE_MODE)).map_err(failed)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new("."))).map_err(failed)?;
    folder.sync_all().map_err(failed)?;
    Ok(file)
}

fn cannot(doing: &str, path: &Path, error: &io::Error) -> ControlError {
    ControlError::unavailable(format!("could not {doing} {}: {error}", path.display()))
}

/// Runs `act` on the database. A panic of redb is reported as damage, and does not end the process.
pub(super) fn guarded<T, E: Into<redb::Error>>(
    act: impl FnOnce() -> Result<T, E>,
) -> Result<T, ControlError> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(done) => done.map_err(fault),
        Err(_) => Err(ControlError::damaged(FILE, "its pages contradict one another")),
    }
}

/// Maps an error of redb.
fn fault(error: impl Into<redb::Error>) -> ControlError {
    match error.into() {
        redb::Error::Io(error) => match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                ControlError::damaged(FILE, error.to_string())
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                ControlError::unavailable(format!("the disk is full ({error}); make room"))
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                ControlError::unavailable(format!(
                    "it cannot be written ({error}); let it be written again"
                ))
            }
            _ => ControlError::unavailable(format!("{error}; look after the disk")),
        },
        redb::Error::Corrupted(why) => ControlError::damaged(FILE, why),
        redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => {
            ControlError::unavailable(
                "another process has it open; stop that one, or ask it to do this",
            )
        }
        error @ (redb::Error::TableDoesNotExist(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TypeDefinitionChanged { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TransactionPoisoned
        | redb::Error::RepairAborted
        | redb::Error::UpgradeRequired(_)) => ControlError::damaged(FILE, error.to_string()),
        error => ControlError::unavailable(format!("{error}; it is opened again by itself")),
    }
}
