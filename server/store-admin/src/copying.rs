//! Copies stores, ledgers and files into a backup's folder, and counts them.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use engine::os::disk::FsDisk;
use engine::{CopyError, CopyReport, Store};

use crate::keep_error::KeepError;
use crate::keeping::Keeper;
use recalld_fs_util::copies;
use recalld_fs_util::copies::CopiedFile;
use recalld_fs_util::told_disk::ToldDisk;

/// Maximum bytes of a plain file or key file.
const PLAIN_BYTES_MAX: u64 = 512 << 20;

pub(super) const MAKE_ROOM: &str =
    "make sure that there is space and that it may be written, and try again";

/// Files copied so far.
#[derive(Default)]
pub(super) struct Copies {
    /// Files outside stores.
    pub(super) files: Vec<CopiedFile>,
    pub(super) count: Count,
}

#[derive(Default)]
pub(super) struct Count {
    pub(super) written: u64,
    pub(super) bytes: u64,
    pub(super) reused: u64,
}

impl Copies {
    fn add(&mut self, file: CopiedFile, is_new: bool) {
        if is_new {
            self.count.written += 1;
            self.count.bytes += file.bytes;
        } else {
            self.count.reused += 1;
        }
        self.files.push(file);
    }

    /// Adds the counts of a copied store.
    pub(super) fn store(&mut self, copied: &CopyReport) {
        self.count.written += copied.files;
        self.count.bytes += copied.bytes;
        self.count.reused += copied.reused;
    }

    /// Copies a ledger's volumes, each up to its last signature, to `folder` in the backup `root`. Removes other files
    /// from that folder.
    pub(super) fn ledger(
        &mut self,
        root: &Path,
        folder: &Path,
        volumes: Vec<(PathBuf, u64)>,
    ) -> Result<(), KeepError> {
        let failed = |why| KeepError::failed(why, MAKE_ROOM);
        copies::make_folder(folder).map_err(copies::at(folder)).map_err(failed)?;
        let mut ours = HashSet::with_capacity(volumes.len());
        for (from, bytes) in volumes {
            let place = folder.join(from.file_name().unwrap_or_default());
            let copied = copies::copy(&from, &place, bytes).map_err(copies::at(&place));
            let (sha256, is_new) = copied.map_err(failed)?;
            self.add(CopiedFile { path: relative(root, &place), bytes, sha256 }, is_new);
            ours.insert(place);
        }
        let there = fs::read_dir(folder).map_err(copies::at(folder)).map_err(failed)?;
        for entry in there {
            let path = entry.map_err(copies::at(folder)).map_err(failed)?.path();
            if !ours.contains(&path) {
                fs::remove_file(&path).map_err(copies::at(&path)).map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// Copies a store to a folder. The error is paired with true if the folder holds another store.
pub(super) fn copy_store_to(
    keeper: &Keeper<'_>,
    store: &Store,
    folder: &Path,
) -> Result<CopyReport, (KeepError, bool)> {
    let failed = |error: &dyn std::fmt::Display, remedy| {
        KeepError::failed(format!("{}: {error}", folder.display()), remedy)
    };
    let disk = copies::make_folder(folder)
        .map_err(|error| (failed(&error, MAKE_ROOM), false))
        .and_then(|()| FsDisk::open(folder).map_err(|error| (failed(&error, MAKE_ROOM), false)))?;
    let disk = ToldDisk::new(disk, keeper.cancel);
    let total = store.bytes_on_disk();
    let copied = disk.telling("copying", total, keeper.progress, || store.backup(&disk));
    copied.map_err(|error| {
        let remedy = match &error {
            CopyError::Store(_) | CopyError::Source(_) => {
                "run `recalld verify`, which tells what is wrong; the backup is as it was before"
            }
            CopyError::Occupied(_) => "choose another folder",
            CopyError::Locked => "wait until the other process is done",
            _ => "mend the place or choose another one; the backup is as it was before",
        };
        (failed(&error, remedy), matches!(error, CopyError::Occupied(_)))
    })
}

/// Copies a file, if it exists, to `path` in a backup. If another version is there, the copy is placed next to it, so
/// that the file of the previous manifest exists until the next manifest is written.
pub(super) fn copy_file(
    from: &Path,
    to: &Path,
    path: &str,
    copies: &mut Copies,
) -> Result<(), KeepError> {
    let place = to.join(path);
    let failed = |error| KeepError::failed(copies::at(&place)(error), MAKE_ROOM);
    let copied = match fs::metadata(from) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => Err(error),
        Ok(about) if about.len() > PLAIN_BYTES_MAX => Err(std::io::Error::other("too large")),
        Ok(about) => {
            let bytes = about.len();
            let is_replaced =
                place.exists() && !copies::is_same(from, &place, bytes).map_err(&failed)?;
            let to = if is_replaced { copies::next_to(&place) } else { place.clone() };
            copies::copy(from, &to, bytes).map(|copied| (bytes, copied))
        }
    };
    let (bytes, (sha256, is_new)) = copied.map_err(failed)?;
    copies.add(CopiedFile { path: path.to_owned(), bytes, sha256 }, is_new);
    Ok(())
}

/// Returns a path as written in the manifest. Paths of recalld are ASCII.
fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}
