//! Files that only their owner may read: created atomically, and rejected if others can read them.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::private_file_error::CredentialsError;
use recalld_common::secret::Random;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Mode bits that let others read, write or execute a file.
const OTHERS: u32 = 0o077;
/// Mode bits that let others create files in a folder.
const OTHERS_WRITE: u32 = 0o022;
const MODE_BITS: u32 = 0o777;

/// Creates `folder` and its missing parents, accessible by their owner only. Returns true if the folder was created. An
/// existing folder is rejected if others may write to it: they could replace our keys with theirs.
pub fn make_folder(folder: &Path) -> Result<bool, CredentialsError> {
    let failed = |error| CredentialsError::disk("create", folder, error);
    if !folder.try_exists().map_err(failed)? {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(failed)?;
        folder.parent().map_or(Ok(()), sync_folder)?;
        return Ok(true);
    }
    let about = std::fs::metadata(folder)
        .map_err(|error| CredentialsError::disk("look at", folder, error))?;
    let mode = about.permissions().mode() & MODE_BITS;
    if !about.is_dir() {
        return Err(CredentialsError::Malformed {
            path: folder.to_owned(),
            why: "it is not a folder".into(),
        });
    }
    if mode & OTHERS_WRITE != 0 {
        return Err(CredentialsError::TooOpen {
            path: folder.to_owned(),
            mode,
            wanted: FOLDER_MODE,
        });
    }
    Ok(false)
}

/// Reads the text of a private file; `None` if the file does not exist.
pub fn read(path: &Path, bytes_max: u64) -> Result<Option<Zeroizing<String>>, CredentialsError> {
    let Some(bytes) = read_bytes(path, bytes_max)? else { return Ok(None) };
    let malformed = |why: String| CredentialsError::Malformed { path: path.to_owned(), why };
    let text = std::str::from_utf8(&bytes).map_err(|_| malformed("it is not UTF-8 text".into()))?;
    Ok(Some(Zeroizing::new(text.to_owned())))
}

/// Reads the bytes of a private file; `None` if the file does not exist.
pub fn read_bytes(
    path: &Path,
    bytes_max: u64,
) -> Result<Option<Zeroizing<Vec<u8>>>, CredentialsError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CredentialsError::disk("open", path, error)),
    };
    let about = file.metadata().map_err(|error| CredentialsError::disk("look at", path, error))?;
    let mode = about.permissions().mode() & MODE_BITS;
    let malformed = |why: String| CredentialsError::Malformed { path: path.to_owned(), why };
    if !about.is_file() {
        return Err(malformed("it is not a file".into()));
    }
    if mode & OTHERS != 0 {
        return Err(CredentialsError::TooOpen { path: path.to_owned(), mode, wanted: FILE_MODE });
    }
    // The buffer never grows, so that no copy of the secret remains in freed memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(
        usize::try_from(bytes_max).unwrap_or(0).saturating_add(1),
    ));
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes);
    read.map_err(|error| CredentialsError::disk("read", path, error))?;
    if bytes.len() as u64 > bytes_max {
        return Err(malformed(format!("it has more than {bytes_max} bytes")));
    }
    Ok(Some(bytes))
}

/// Writes `text` to `path` durably, replacing an existing file.
pub fn replace(path: &Path, text: &str, random: &mut Random<'_>) -> Result<(), CredentialsError> {
    let beside = beside(path, random);
    write_new(&beside, text).map_err(|error| CredentialsError::disk("write", &beside, error))?;
    std::fs::rename(&beside, path)
        .map_err(|error| CredentialsError::disk("replace", path, error))?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Writes `text` to `path` durably, only if no file exists there; returns false otherwise. The file is written under
/// another name, synced, and hard-linked to `path`, because a rename would replace an existing file.
pub fn create(path: &Path, text: &str, random: &mut Random<'_>) -> Result<bool, CredentialsError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let beside = beside(path, random);
    write_new(&beside, text).map_err(|error| CredentialsError::disk("write", &beside, error))?;
    let linked = std::fs::hard_link(&beside, path);
    let removed = std::fs::remove_file(&beside);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(CredentialsError::disk("create", path, error)),
        Ok(()) => removed.map_err(|error| CredentialsError::disk("remove", &beside, error))?,
    }
    sync_folder(folder)?;
    Ok(true)
}

/// Returns a path beside `path` that no other process chooses.
fn beside(path: &Path, random: &mut Random<'_>) -> PathBuf {
    let mut bytes = [0; 8];
    random(&mut bytes);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{:016x}", u64::from_le_bytes(bytes)));
    path.with_file_name(name)
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    // The umask can only have removed bits; an unusual umask may have removed the owner's.
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn sync_folder(folder: &Path) -> Result<(), CredentialsError> {
    // The parent of a relative one-part path is the empty path, which names no folder.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let synced = File::open(folder).and_then(|open| open.sync_all());
    synced.map_err(|error| CredentialsError::disk("sync", folder, error))
}
