//! Copies of files, verified by hash: the parts of a backup besides the store.
//!
//! Writes small files of the real file system atomically, readable by their owner only, and durable when a call
//! returns. Independent of the files' content.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Bytes per read.
const PIECE_BYTES: usize = 1 << 16;
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Prefix of a file's name while the file is written. A prefix and no suffix, because every name in a ledger's folder
/// that begins like a volume's counts as a volume (LED-01).
const UNFINISHED: &str = "new.";
/// Prefix of a file's name until `backup.json` lists the file.
const NEXT: &str = "next.";

/// A file of a backup: its first `bytes` bytes and their hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedFile {
    /// Path relative to the data directory and to the backup.
    pub path: String,
    /// Number of bytes that belong to the copy.
    pub bytes: u64,
    /// SHA-256 of these bytes.
    pub sha256: [u8; 32],
}

impl CopiedFile {
    /// Returns the file's path in a backup. If the final path still has the content of the previous backup, the file is
    /// beside it under the name of [`next_to`] (BAK-03).
    pub fn find(&self, root: &Path) -> Result<PathBuf, String> {
        let place = root.join(&self.path);
        let is_right = |path: &Path| hash_of(path, self.bytes).map(|sha256| sha256 == self.sha256);
        match is_right(&place) {
            Ok(true) => Ok(place),
            _ if is_right(&next_to(&place)).unwrap_or(false) => Ok(next_to(&place)),
            Ok(_) => {
                let why = "its SHA-256 is not the one that backup.json lists";
                Err(format!("BAK-03: {}: {why}", place.display()))
            }
            Err(error) => Err(format!("BAK-03: {}", at(&place)(error))),
        }
    }

    /// Moves a file from the name of [`next_to`] to its final path, or removes the file if it belongs to no backup.
    pub fn settle(&self, root: &Path) -> io::Result<()> {
        let place = root.join(&self.path);
        let next = next_to(&place);
        if !next.try_exists()? {
            return Ok(());
        }
        if hash_of(&next, self.bytes).is_ok_and(|sha256| sha256 == self.sha256) {
            fs::rename(&next, &place)?;
        } else {
            fs::remove_file(&next)?;
        }
        place.parent().map_or(Ok(()), sync_folder)
    }
}

/// Path of a file's next version until the backup manifest lists it.
pub fn next_to(place: &Path) -> PathBuf {
    beside(place, NEXT)
}

fn beside(path: &Path, start: &str) -> PathBuf {
    let mut name = OsString::from(start);
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

/// Prefixes an error with the file's path.
pub fn at(path: &Path) -> impl Fn(io::Error) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

/// Creates a folder and its missing parents, accessible by their owner only, and durably.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|it| !it.exists()).collect();
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    missing.into_iter().filter_map(Path::parent).try_for_each(sync_folder)
}

/// Syncs a folder's entries to disk.
///
/// # Errors
/// The error of the disk.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Replaces a file atomically.
pub fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_beside(path, |file| file.write_all(bytes))
}

/// Writes a temporary file, syncs it and renames it to `path`.
fn write_beside<T>(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    make_folder(folder)?;
    let fresh = beside(path, UNFINISHED);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(FILE_MODE).open(&fresh)?;
    let done = fill(&mut file)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    sync_folder(folder)?;
    Ok(done)
}

/// Hashes the first `bytes` bytes of a file and passes each chunk to `take`. A shorter file is an error.
fn hash_through(
    path: &Path,
    bytes: u64,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<[u8; 32]> {
    let mut from = File::open(path)?.take(bytes);
    let (mut piece, mut hash, mut left) = (vec![0; PIECE_BYTES], Sha256::new(), bytes);
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            break;
        }
        hash.update(&piece[..read]);
        take(&piece[..read])?;
        left -= read as u64;
    }
    if left > 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("{left} bytes too short"),
        ));
    }
    Ok(hash.finalize().into())
}

/// Hashes the first `bytes` bytes of a file.
pub(super) fn hash_of(path: &Path, bytes: u64) -> io::Result<[u8; 32]> {
    hash_through(path, bytes, |_| Ok(()))
}

/// Returns true if `to` consists of exactly the first `bytes` bytes of `from`.
pub fn is_same(from: &Path, to: &Path, bytes: u64) -> io::Result<bool> {
    let is_as_long = fs::metadata(to).is_ok_and(|about| about.len() == bytes);
    Ok(is_as_long && hash_of(from, bytes)? == hash_of(to, bytes)?)
}

/// Copies the first `bytes` bytes of `from`, unless `to` has that content already, and verifies the copy by reading it.
/// Returns the hash, and true if anything was written.
pub fn copy(from: &Path, to: &Path, bytes: u64) -> io::Result<([u8; 32], bool)> {
    if is_same(from, to, bytes)? {
        return Ok((hash_of(to, bytes)?, false));
    }
    let sha256 = write_beside(to, |file| hash_through(from, bytes, |piece| file.write_all(piece)))?;
    if hash_of(to, bytes)? != sha256 {
        return Err(io::Error::other("what was written does not read back the same"));
    }
    Ok((sha256, true))
}
