//! Garbage collection of the model cache: the list of its entries, and their removal.
//!
//! The names of entries are defined by `cache.rs` and `shelf.rs`. Must not know stores.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::cache;
use super::error::hex;
use super::request::Sha256;
use super::shelf;

/// Maximum number of listed entries of one cache directory: models and packed weights are bounded far below.
const ENTRIES_MAX: usize = 1_024;
/// Maximum depth of directories in a model, as for `1_Pooling`.
const DEPTH_MAX: usize = 4;

/// An entry of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The kind of the entry.
    pub kind: KeptKind,
    /// The path of the entry.
    pub path: PathBuf,
    /// Bytes on disk.
    pub bytes: u64,
}

/// Kind of a cache entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeptKind {
    /// A whole model.
    Model,
    /// Packed weights for a faster start.
    Packed,
    /// Leftover of an interrupted fetch, or a damaged model moved aside.
    Leftover,
}

impl KeptKind {
    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Packed => "packed",
            Self::Leftover => "leftover",
        }
    }
}

impl Kept {
    /// Returns true if the entry belongs to the weights with this hash.
    pub fn is_of(&self, weights: &Sha256) -> bool {
        let digits = hex(weights);
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match self.kind {
            KeptKind::Model => name.ends_with(&format!("-{}", &digits[..cache::NAME_DIGITS])),
            KeptKind::Packed => name.starts_with(&digits[..shelf::NAME_DIGITS]),
            KeptKind::Leftover => false,
        }
    }

    /// Removes the entry; `false` if another process has locked the entry.
    ///
    /// # Errors
    /// A system error.
    pub fn remove(&self) -> io::Result<bool> {
        // A model's lock covers every entry with the model's name.
        let lock = match self.kind {
            KeptKind::Packed => None,
            KeptKind::Model => Some(named_lock(&self.path, "")),
            KeptKind::Leftover => self
                .path
                .extension()
                .map(|suffix| named_lock(&self.path, &format!(".{}", suffix.to_string_lossy()))),
        };
        let lock =
            lock.map(|path| File::options().create(true).append(true).open(path)).transpose()?;
        match lock.as_ref().map_or(Ok(()), File::try_lock) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        match fs::symlink_metadata(&self.path)?.is_dir() {
            true => fs::remove_dir_all(&self.path)?,
            false => fs::remove_file(&self.path)?,
        }
        Ok(true)
    }
}

/// Path of a model's lock, from the path of an entry whose name is the model's name plus `ending`.
fn named_lock(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(ending).unwrap_or(&name);
    path.with_file_name(format!("{name}.lock"))
}

/// Lists all entries of a cache, models first.
///
/// # Errors
/// A directory of the cache cannot be read.
pub fn kept(cache: &Path) -> io::Result<Vec<Kept>> {
    let mut all = Vec::new();
    for path in entries(&cache.join("models"))? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let kind = match name.rsplit_once('.').map(|(_, suffix)| suffix) {
            Some("lock") => continue,
            Some(suffix) if cache::SUFFIXES.contains(&suffix) => KeptKind::Leftover,
            _ => KeptKind::Model,
        };
        all.push(Kept { kind, bytes: bytes_of(&path, DEPTH_MAX)?, path });
    }
    for path in entries(&cache.join(shelf::FOLDER))? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let kind = match name {
            _ if name.ends_with(shelf::ENDING) => KeptKind::Packed,
            _ => continue,
        };
        all.push(Kept { kind, bytes: bytes_of(&path, 0)?, path });
    }
    all.sort_by(|left, right| (left.kind, &left.path).cmp(&(right.kind, &right.path)));
    Ok(all)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(entries) => entries.take(ENTRIES_MAX).map(|entry| Ok(entry?.path())).collect(),
    }
}

/// Bytes of a file, or of the files in a folder.
fn bytes_of(path: &Path, depth: usize) -> io::Result<u64> {
    let about = fs::symlink_metadata(path)?;
    if !about.is_dir() || depth == 0 {
        return Ok(about.len());
    }
    entries(path)?.iter().map(|path| bytes_of(path, depth - 1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_told_and_what_is_in_work_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (models, packed) = (folder.path().join("models"), folder.path().join(shelf::FOLDER));
        assert_eq!(kept(folder.path()).unwrap(), []);
        for inner in ["a-53aa51172d14", "a-53aa51172d14.part", "b-000000000000.damaged"] {
            fs::create_dir_all(models.join(inner)).unwrap();
            fs::write(models.join(inner).join("config.json"), "{}").unwrap();
        }
        fs::write(models.join("a-53aa51172d14.lock"), "").unwrap();
        fs::create_dir_all(&packed).unwrap();
        fs::write(packed.join("53aa51172d142c89d9012cce-f16-1.weights"), "12345").unwrap();
        fs::write(packed.join("sources.json"), "{}").unwrap();
        let all = kept(folder.path()).unwrap();
        let shown: Vec<_> = all.iter().map(|kept| (kept.kind.name(), kept.bytes)).collect();
        assert_eq!(shown, [("model", 2), ("packed", 5), ("leftover", 2), ("leftover", 2)]);
        let weights = super::super::Expected::pinned().weights;
        let of: Vec<bool> = all.iter().map(|kept| kept.is_of(&weights)).collect();
        assert_eq!(of, [true, true, false, false]);
        let lock = File::options().append(true).open(models.join("a-53aa51172d14.lock")).unwrap();
        lock.lock().unwrap();
        let removed: Vec<bool> = all.iter().map(|kept| kept.remove().unwrap()).collect();
        assert_eq!(removed, [false, true, false, true], "one fetches the first model");
        drop(lock);
        let left = kept(folder.path()).unwrap();
        assert!(left.iter().all(|kept| kept.remove().unwrap()) && left.len() == 2);
    }
}
