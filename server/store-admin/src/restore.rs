//! Restores a data directory from a backup. Every file is checked when it is read and when it is written.
//!
//! If the destination does not exist, the data is staged beside it and renamed. An existing folder may be a mount point
//! and is retained: the data is staged in a folder inside it and moved up. While the staging folder exists, the
//! directory is not accepted as a data directory (BAK-08).

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::os::clock::{Random, SystemClock, SystemRandom};
use engine::os::disk::FsDisk;
use engine::{CopyError, OpenError, StoreReader};
use serde::Serialize;

use crate::backup::{KEY_FILES, real_path, store_of};
use crate::catalogue::Catalogue;
use crate::keep_error::KeepError;
use crate::known::{Known, path_text};
use crate::trusted::{verify_ledger, verify_ledger_in};
use recalld_auth::put_former;
use recalld_common::cancel::CancellationToken;
use recalld_common::cancel::Progress;
use recalld_fs_util::copies;
use recalld_fs_util::copies::CopiedFile;
use recalld_fs_util::data_dir::{CONTROL_FILE, RESTORING, check_restored, tenant_dir};
use recalld_fs_util::told_disk::ToldDisk;
use recalld_metastore::Control;

/// Suffix of the staging directory if the destination does not exist.
const UNFINISHED: &str = ".restoring";
/// Entry that a file system creates at its own root.
const LOST_AND_FOUND: &str = "lost+found";
const ANOTHER: &str = "use another backup";

/// Report of a restoration.
#[derive(Debug, Serialize)]
pub struct RestoreReport {
    /// Bytes of the restored files.
    pub bytes: u64,
    /// The data directory; `None` if its path is not UTF-8.
    pub data: Option<String>,
    /// Restored files.
    pub files: u64,
    /// Items in the operator's store.
    pub items: u64,
    /// Valid entries of the operator's ledger.
    pub ledger_entries: u64,
    /// Time at which the backup was finished.
    pub made_at: Option<String>,
    /// Files with keys that the backup does not have.
    pub missing: &'static [&'static str],
    /// Newest commit in the operator's store.
    pub seq: u64,
    /// Workspaces whose sign-ins were revoked; `None` if none were to be revoked.
    pub sign_ins_ended: Option<usize>,
    /// True if the backup has the credentials and the signing key.
    pub with_keys: bool,
    /// Workspaces, including the operator's.
    pub workspaces: usize,
}

/// Restores the backup in `from` to `data`, which must be absent or empty. Unless `keeps_sign_ins`, all sign-ins are
/// revoked (BAK-11).
pub fn restore(
    from: &Path,
    data: &Path,
    keeps_sign_ins: bool,
    progress: Progress<'_>,
) -> Result<RestoreReport, KeepError> {
    let made = finished(from)?;
    let destination = Destination::of(data)?;
    let fresh = Fresh::create(&destination)?;
    let root = &fresh.path;
    let mut count = restore_store(&store_of(from), &store_of(root), progress)?;
    for part in made.parts.iter().filter(|part| part.seq.is_some()) {
        let store = |root: &Path| tenant_dir(root, &part.name).join("store");
        let (files, bytes) = restore_store(&store(from), &store(root), progress)?;
        count = (count.0 + files, count.1 + bytes);
    }
    for file in &made.files {
        restore_file(from, root, file)?;
        count = (count.0 + 1, count.1 + file.bytes);
    }
    // The store was copied under its lock. All other files belong to one backup if the manifest, which is written last,
    // has not changed.
    if finished(from)? != made {
        let why = format!("{}: it was made anew while it was copied", from.display());
        return Err(KeepError::failed(why, "try again"));
    }
    let report = verify_ledger(root, &made.public_keys)
        .map_err(|why| KeepError::failed(format!("the restored ledger: {why}"), ANOTHER))?;
    for part in &made.parts {
        let ledger = tenant_dir(root, &part.name).join("ledger");
        verify_ledger_in(&ledger, &part.public_keys).map_err(|why| {
            KeepError::failed(format!("the restored ledger of {}: {why}", part.name), ANOTHER)
        })?;
    }
    let items = items_of(root)?;
    let ended = if keeps_sign_ins { None } else { end_sign_ins(root)? };
    let failed = |why| KeepError::failed(why, "make sure that there is space, and try again");
    if !made.with_keys {
        // The first start creates a new signing key; the old public keys still verify the old checkpoints.
        let mut random = |bytes: &mut [u8]| SystemRandom.fill(bytes);
        let mut put = |folder: &Path, keys: &[[u8; 32]]| {
            put_former(folder, keys, &mut random).map_err(|error| failed(error.to_string()))
        };
        put(root, &made.public_keys)?;
        for part in &made.parts {
            put(&tenant_dir(root, &part.name), &part.public_keys)?;
        }
    }
    let origin = from.canonicalize().map_err(copies::at(from)).map_err(failed)?;
    let mut known = Known::read(root).map_err(failed)?;
    known.note(&made.id, &origin).map_err(failed)?;
    known.write(root).map_err(failed)?;
    let put = fresh.put_in_place().map_err(copies::at(data));
    put.map_err(|why| KeepError::failed(why, "let nothing else use that place, and try again"))?;
    Ok(RestoreReport {
        bytes: count.1,
        data: path_text(data),
        files: count.0,
        items,
        ledger_entries: report.entries,
        made_at: made.made_at,
        missing: if made.with_keys { &[] } else { &KEY_FILES },
        seq: made.seq,
        sign_ins_ended: ended,
        with_keys: made.with_keys,
        workspaces: made.parts.len() + 1,
    })
}

/// Revokes everything obtained by signing in. Returns the number of affected workspaces; `None` if there is no
/// metastore.
fn end_sign_ins(root: &Path) -> Result<Option<usize>, KeepError> {
    let file = root.join(CONTROL_FILE);
    if !file.exists() {
        return Ok(None);
    }
    let control = Control::open(&file, Arc::new(SystemClock), Arc::new(SystemRandom));
    let ended = control.and_then(|control| control.end_sign_ins());
    ended
        .map(Some)
        .map_err(|why| KeepError::failed(format!("the restored control store: {why}"), ANOTHER))
}

/// Reads the manifest of a backup; an error if the backup was never finished.
fn finished(from: &Path) -> Result<Catalogue, KeepError> {
    let made = Catalogue::read(from).map_err(|why| KeepError::failed(why, ANOTHER))?;
    let made = made.ok_or_else(|| {
        let why =
            "is not a backup: it has no backup.json; name a folder that `recalld backup` made";
        KeepError::Wrong(format!("{} {why}", from.display()))
    })?;
    if made.made_at.is_none() {
        let why = format!("{}: the backup was never finished", from.display());
        return Err(KeepError::failed(why, "make it again, or use another one"));
    }
    Ok(made)
}

/// Destination of a restore, with resolved links.
struct Destination {
    data: PathBuf,
    /// True if an empty folder exists at the destination.
    is_there: bool,
}

impl Destination {
    fn of(data: &Path) -> Result<Self, KeepError> {
        check_restored(data).map_err(KeepError::Failed)?;
        let entries = match fs::read_dir(data) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if data.is_symlink() {
                    let why = format!("{} is a link to what is not there", data.display());
                    return Err(KeepError::failed(why, "make the folder it names, or remove it"));
                }
                return Ok(Self { data: real_path(data), is_there: false });
            }
            Err(error) => {
                return Err(KeepError::failed(copies::at(data)(error), "choose another --data"));
            }
        };
        for entry in entries {
            let name = entry.map(|entry| entry.file_name());
            let name = name.map_err(|error| {
                KeepError::failed(copies::at(data)(error), "choose another --data")
            })?;
            if name != LOST_AND_FOUND {
                return Err(KeepError::failed(
                    format!("{} holds something, and nothing is overwritten", data.display()),
                    "choose a --data directory that is not there, or is empty",
                ));
            }
        }
        Ok(Self { data: real_path(data), is_there: true })
    }
}

fn restore_store(
    source: &Path,
    target: &Path,
    progress: Progress<'_>,
) -> Result<(u64, u64), KeepError> {
    let failed = |error: &dyn std::fmt::Display, remedy: &str| {
        KeepError::failed(format!("the store: {error}"), remedy)
    };
    if !source.is_dir() {
        return Err(failed(&format!("{} is not there", source.display()), ANOTHER));
    }
    let open = |folder: &Path| {
        copies::make_folder(folder).map_err(|error| failed(&error, "choose another place"))?;
        FsDisk::open(folder).map_err(|error| failed(&error, "choose another place"))
    };
    let (source, target) = (open(source)?, ToldDisk::new(open(target)?, &CancellationToken::new()));
    let copied = target.telling("restoring", 0, progress, || engine::restore(&source, &target));
    let copied = copied.map_err(|error| match &error {
        CopyError::Source(OpenError::Locked) => {
            failed(&error, "another process backs up to it, or erases in it; try again later")
        }
        CopyError::Source(_) => failed(&error, ANOTHER),
        _ => failed(&error, "make sure that there is space, and try again"),
    })?;
    Ok((copied.files, copied.bytes))
}

/// Restores a file outside the stores. Bytes beyond the listed length come from an interrupted backup and are not
/// copied.
fn restore_file(from: &Path, root: &Path, file: &CopiedFile) -> Result<(), KeepError> {
    let target = root.join(&file.path);
    let source = file.find(from).map_err(|why| KeepError::failed(why, ANOTHER))?;
    let (copied, _) = copies::copy(&source, &target, file.bytes)
        .map_err(|error| KeepError::failed(copies::at(&target)(error), "make sure of space"))?;
    if copied != file.sha256 {
        let why = format!("BAK-03: {} changed while it was copied", source.display());
        return Err(KeepError::failed(why, "let nothing write to the backup, and try again"));
    }
    Ok(())
}

/// Opens the restored store like a server; returns its number of items.
fn items_of(root: &Path) -> Result<u64, KeepError> {
    let failed = |why: &dyn std::fmt::Display| {
        KeepError::failed(format!("the restored store: {why}"), ANOTHER)
    };
    let disk = FsDisk::open(&store_of(root)).map_err(|error| failed(&error))?;
    let reader = StoreReader::open(Arc::new(disk)).map_err(|error| failed(&error))?;
    let counts = reader.snapshot().row_counts().map_err(|error| failed(&error))?;
    Ok(counts.items)
}

/// A data directory under construction; removed unless it is moved into place.
pub struct Fresh {
    path: PathBuf,
    data: PathBuf,
    is_within: bool,
    /// True once the move has begun; nothing is removed from then on.
    is_moving: bool,
}

impl Fresh {
    /// Creates a staging directory for `data`, which must be absent or an empty folder.
    ///
    /// # Errors
    /// The destination is not empty, or the directory cannot be created.
    pub fn at(data: &Path) -> Result<Self, KeepError> {
        Self::create(&Destination::of(data)?)
    }

    /// Staging path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the staging directory, which also proves that its place is writable before anything is copied.
    fn create(destination: &Destination) -> Result<Self, KeepError> {
        let Destination { data, is_there: is_within } = destination;
        let Some(name) = data.file_name() else {
            return Err(KeepError::Wrong(format!("{} is not a folder's name", data.display())));
        };
        let mut name = name.to_owned();
        name.push(UNFINISHED);
        let path = if *is_within { data.join(RESTORING) } else { data.with_file_name(name) };
        if path.symlink_metadata().is_ok() {
            let why = format!("{} is there, from a restore that was cut short", path.display());
            return Err(KeepError::failed(why, "remove it, and try again"));
        }
        let made = copies::make_folder(&path).map_err(copies::at(&path));
        made.map_err(|why| KeepError::failed(why, "choose a --data that may be written"))?;
        Ok(Self { path, data: data.clone(), is_within: *is_within, is_moving: false })
    }

    /// Moves the directory into place: by one rename, or such that an interruption remains visible.
    ///
    /// # Errors
    /// The operating system refuses an operation.
    pub fn put_in_place(mut self) -> io::Result<()> {
        if !self.is_within {
            fs::rename(&self.path, &self.data)?;
            self.is_moving = true;
            return self.data.parent().map_or(Ok(()), copies::sync_folder);
        }
        self.is_moving = true;
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            fs::rename(entry.path(), self.data.join(entry.file_name()))?;
        }
        // All entries must be on disk before the removal of the folder that marks the restore as unfinished.
        copies::sync_folder(&self.path)?;
        copies::sync_folder(&self.data)?;
        fs::remove_dir(&self.path)?;
        copies::sync_folder(&self.data)
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.is_moving {
            // If removal fails, the name marks the rest as unfinished, and the next restore reports it.
            let _left = fs::remove_dir_all(&self.path);
        }
    }
}
