//! Backups: a copy of the whole data directory in another folder while the service runs.
//!
//! A backup has the layout of a data directory, so one reader fits both. The engine copies the store. This module
//! copies the files around the store, fixes the order of steps, and registers backups (`format-spec/backup.md`).

use std::fs;
use std::path::{Path, PathBuf};

use engine::hex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backup_tenants::{copy_tenants, remove_gone};
use crate::catalogue::Catalogue;
use crate::copying::{Copies, MAKE_ROOM, copy_file, copy_store_to};
use crate::forget::{BackupList, ForgottenBackups, forget, forget_missing, list};
use crate::keep_error::KeepError;
use crate::keeping::{Keeper, Note};
use crate::known;
use crate::known::{Known, path_text};
use crate::trusted::{ledger_of, trusted_keys, verify_ledger};
use recalld_auth::FORMER_KEYS;
use recalld_common::names;
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_embedding::model_file;
use recalld_fs_util::copies;
use recalld_fs_util::copies::CopiedFile;
use recalld_fs_util::data_dir::{BACKUP_FILE, workspace_dir};
use recalld_tool_framework::args::{Text, args};

const OPERATION: &str = "recalld backup";
/// Files that only their owner may read.
pub(super) const KEY_FILES: [&str; 2] = ["credentials.toml", "keys/signing.key"];
/// Files that are copied if they exist.
const PLAIN_FILES: [&str; 4] = ["roots.json", model_file::FILE, known::FILE, FORMER_KEYS];

args! {
    /// Arguments of `POST /operator/backup`.
    pub struct Backup {
        path: Text<0, 4096> = Text(String::new()) => "The backup's folder, absolute.",
        with_keys: bool = false => "Copy the credentials and the signing key, too.",
        forget: bool = false => "Only forget the backup there: it was deleted.",
        list: bool = false => "Only tell which backups are known.",
        forget_missing: bool = false => "Only forget the backups that are not in their places.",
    }
}

/// Report of `POST /operator/backup`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BackupReport {
    /// A backup was created or updated.
    Made(MadeBackup),
    /// The known backups.
    List(BackupList),
    /// Backups were forgotten.
    Forgotten(ForgottenBackups),
}

/// A created or updated backup.
#[derive(Debug, Serialize, Deserialize)]
pub struct MadeBackup {
    /// Bytes of the copied files.
    pub bytes: u64,
    /// Copied files.
    pub files: u64,
    /// Id of the backup.
    pub id: String,
    /// Valid entries of the operator's copied ledger.
    pub ledger_entries: u64,
    /// Time of completion.
    pub made_at: Option<String>,
    /// The backup's folder; `None` if its path is not UTF-8.
    pub path: Option<String>,
    /// Registered backups that were at the same path before and were deleted.
    pub replaced: usize,
    /// Files that were in the folder already.
    pub reused: u64,
    /// Newest commit in the operator's store.
    pub seq: u64,
    /// True if the backup has the credentials and the signing key.
    pub with_keys: bool,
    /// Workspaces, including the operator's.
    pub workspaces: usize,
}

/// Returns the store's folder in a data directory or a backup.
pub(super) fn store_of(root: &Path) -> PathBuf {
    workspace_dir(root).join("store")
}

/// Resolves the symbolic links of a path; if the path does not exist, those of its existing ancestors.
pub fn real_path(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|it| Some((it, it.canonicalize().ok()?)));
    there.map_or_else(
        || path.to_owned(),
        |(it, real)| match path.strip_prefix(it) {
            Ok(rest) if rest != Path::new("") => real.join(rest),
            _ => real,
        },
    )
}

/// Creates or updates the backup in a folder; or lists known backups, or forgets some.
pub fn backup(
    keeper: &Keeper<'_>,
    raw: &Value,
    wanted: &Backup,
) -> Result<BackupReport, KeepError> {
    let to = Path::new(&wanted.path.0);
    match wanted {
        Backup { list: true, .. } => list(keeper).map(BackupReport::List),
        Backup { forget_missing: true, .. } => forget_missing(keeper).map(BackupReport::Forgotten),
        Backup { forget: true, .. } => forget(keeper, to).map(BackupReport::Forgotten),
        _ => make(keeper, raw, to, wanted.with_keys, false).map(BackupReport::Made),
    }
}

/// Creates or updates the backup in a folder. A backup with `is_scheduled` may be removed by the server.
pub(super) fn make(
    keeper: &Keeper<'_>,
    raw: &Value,
    to: &Path,
    with_keys: bool,
    is_scheduled: bool,
) -> Result<MadeBackup, KeepError> {
    let _turn = keeper.turn()?;
    check_place(keeper.data, to)?;
    keeper.record(Note::of(OPERATION, raw))?;
    let keys = trusted_keys(keeper.data, Some(keeper.signer.public()))
        .map_err(|why| KeepError::failed(why, "mend it"))?;
    let mut made = begin(keeper, to)?;
    // From this step on, an erasure that begins adds its ids to this backup's pending erasures.
    let noted = note(keeper, &made, to, is_scheduled)?;
    // Data of earlier erasures is removed first, so that the backup does not copy it.
    let erased = keeper.store.erase_pending(&keeper.pace("erasing", keeper.store.bytes_on_disk()));
    erased.map_err(|error| KeepError::failed(error, "run `recalld erase --pending` first"))?;
    let copied = copy_store_to(keeper, keeper.store, &store_of(to));
    let copied = copied.inspect_err(|(_, is_another)| {
        if noted.is_new && *is_another {
            let _told_by_the_error = unnote(keeper, &made.id);
        }
    });
    let copied = copied.map_err(|(error, _)| error)?;
    made.with_keys |= with_keys;
    let mut copies = Copies::default();
    copies.store(&copied);
    // Copied before the operator's ledger: a recorded checkpoint of that ledger must not lie past the end of its copy.
    let parts = copy_tenants(keeper, to, made.with_keys, &mut copies)?;
    let volumes = keeper.audit.settled_files().map_err(|why| KeepError::failed(why, MAKE_ROOM))?;
    copies.ledger(to, &ledger_of(to), volumes)?;
    let report = verify_ledger(to, &keys).map_err(|why| {
        KeepError::failed(format!("the copied ledger: {why}"), "run `recalld verify`")
    })?;
    let key_files = if made.with_keys { &KEY_FILES[..] } else { &[] };
    for path in PLAIN_FILES.iter().chain(key_files) {
        copy_file(&keeper.data.join(path), to, path, &mut copies)?;
    }
    let Copies { files, count } = copies;
    made.files = files;
    made.parts = parts;
    made.public_keys = keys;
    made.seq = copied.seq;
    made.made_at = Some(names::time(keeper.store.now()));
    made.write(to).map_err(|why| KeepError::failed(why, MAKE_ROOM))?;
    settle(to, &made)?;
    remove_gone(to, &made.parts, LOCAL_WORKSPACE)?;
    Ok(MadeBackup {
        bytes: count.bytes,
        files: count.written,
        id: made.id,
        ledger_entries: report.entries,
        made_at: made.made_at,
        path: path_text(to),
        replaced: noted.replaced,
        reused: count.reused,
        seq: copied.seq,
        with_keys: made.with_keys,
        workspaces: made.parts.len() + 1,
    })
}

/// Refuses a folder with content other than a backup, and a folder that lies in the data directory or contains it.
fn check_place(data: &Path, to: &Path) -> Result<(), KeepError> {
    let wrong = |why: &str| Err(KeepError::Wrong(format!("{}: {why}", to.display())));
    if !to.is_absolute() {
        return wrong("a path from the root is wanted");
    }
    let (real, data) = (real_path(to), real_path(data));
    if real.starts_with(&data) || data.starts_with(&real) {
        return wrong("lies in the data directory, or around it; choose a folder elsewhere");
    }
    let is_backup = to.join(BACKUP_FILE).exists();
    match fs::read_dir(to).map(Iterator::count) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => wrong(&format!("{error}; choose a folder that may be written")),
        Ok(1..) if !is_backup => {
            wrong("holds something, but no backup; choose an empty folder or a new one")
        }
        Ok(_) => Ok(()),
    }
}

/// Returns the existing backup manifest, or writes one for a new backup. The manifest precedes the content, so that an
/// erasure finds even an incomplete backup.
fn begin(keeper: &Keeper<'_>, to: &Path) -> Result<Catalogue, KeepError> {
    let failed = |why| KeepError::failed(why, MAKE_ROOM);
    if let Some(earlier) = Catalogue::read(to).map_err(failed)? {
        settle(to, &earlier)?;
        return Ok(earlier);
    }
    let mut id = [0; 16];
    keeper.random.fill(&mut id);
    let made = Catalogue {
        id: hex(&id),
        made_at: None,
        seq: 0,
        with_keys: false,
        public_keys: Vec::new(),
        parts: Vec::new(),
        files: Vec::new(),
    };
    made.write(to).map_err(failed)?;
    Ok(made)
}

/// Moves the files that the manifest names into place.
fn settle(to: &Path, made: &Catalogue) -> Result<(), KeepError> {
    let settle = |file: &CopiedFile| file.settle(to).map_err(copies::at(to));
    made.files.iter().try_for_each(settle).map_err(|why| KeepError::failed(why, MAKE_ROOM))
}

/// Result of registering a backup.
struct Noted {
    is_new: bool,
    /// Number of registered backups that were at the same path before and were deleted.
    replaced: usize,
}

fn note(
    keeper: &Keeper<'_>,
    made: &Catalogue,
    to: &Path,
    is_scheduled: bool,
) -> Result<Noted, KeepError> {
    let change = || {
        let _noting = keeper.noting();
        let mut known = Known::read(keeper.data)?;
        let before = known.clone();
        // If the folder held no finished backup, earlier backups at this path are gone. If it holds a finished one,
        // nothing follows for the others, because disks may be mounted in turn at one path.
        let replaced = match made.made_at {
            None => known.keep_only(&made.id, to),
            Some(_) => 0,
        };
        let is_new = known.note(&made.id, to)?;
        if is_scheduled {
            known.note_scheduled(&made.id);
        }
        if known != before {
            known.write(keeper.data)?;
        }
        Ok(Noted { is_new, replaced })
    };
    change().map_err(|why: String| KeepError::failed(why, "nothing was copied"))
}

/// Removes a failed new backup from the registry.
fn unnote(keeper: &Keeper<'_>, id: &str) -> Result<(), String> {
    let _noting = keeper.noting();
    let mut known = Known::read(keeper.data)?;
    known.backups.retain(|backup| backup.id != id);
    known.write(keeper.data)
}
