//! Objects as files below a folder, local or mounted by several machines.
//!
//! A file is written to `.new/`, which is no key, and gets its name once it is complete and synced. A conditional put
//! creates the name by a hard link, which succeeds for one of several writers; a plain put renames the file.

use engine::os::clock::SystemRandom;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::counts::{Counts, Op, Outcome};
use crate::environment::Unusable;
use crate::hex::Nonce;
use crate::limits::{OBJECT_BYTES_MAX, UNFINISHED_FILES_MAX, UNFINISHED_MAX};
use crate::names::Key;
use crate::objects::{About, Away, Objects, Tried};

const UNFINISHED: &str = ".new";

/// A folder of objects.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    counts: Arc<Counts>,
}

impl Folder {
    /// Opens a folder. The folder is created if its parent exists.
    ///
    /// # Errors
    /// The folder cannot be created or written.
    pub fn open(root: &Path, counts: Arc<Counts>) -> Result<Self, Unusable> {
        let unfinished = root.join(UNFINISHED);
        let made = make_folder(root).and_then(|()| make_folder(&unfinished));
        made.map_err(|error| {
            Unusable::new(format!(
                "objects cannot be kept in {}: {error}; it must be a folder that can be written, or one that can \
                 be made in another",
                root.display()
            ))
        })?;
        remove_unfinished(&unfinished);
        Ok(Self { root: root.into(), counts })
    }

    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(key.to_string())
    }

    fn counted<T>(&self, op: Op, sent: usize, act: impl FnOnce() -> Counted<T>) -> io::Result<T> {
        let began = Instant::now();
        let done = act();
        let (outcome, received) = match &done {
            Ok((_, outcome, received)) => (*outcome, *received),
            Err(_) => (Outcome::Failed, 0),
        };
        self.counts.note(op, outcome, sent, received, began.elapsed());
        done.map(|(value, _, _)| value)
    }

    /// Writes and syncs a file in `.new/`.
    fn write_beside(&self, bytes: &[u8]) -> io::Result<Beside> {
        let path = self.root.join(UNFINISHED).join(Nonce::drawn(&SystemRandom).to_string());
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let beside = Beside(path);
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(beside)
    }

    /// Creates the folder of an object, and its parents.
    fn make_way(&self, path: &Path) -> io::Result<PathBuf> {
        let folder = path.parent().unwrap_or(&self.root).to_owned();
        if !folder.is_dir() {
            let below = folder.strip_prefix(&self.root).unwrap_or(Path::new(""));
            let mut at = self.root.clone();
            for part in below {
                at.push(part);
                make_folder(&at)?;
            }
        }
        Ok(folder)
    }

    fn try_put(&self, key: &Key, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(key);
        let folder = self.make_way(&path)?;
        let beside = self.write_beside(bytes)?;
        fs::rename(&beside.0, &path)?;
        sync_folder(&folder)
    }

    /// Returns true if the object was created, false if one existed.
    fn try_put_new(&self, key: &Key, bytes: &[u8]) -> io::Result<bool> {
        let path = self.path(key);
        let folder = self.make_way(&path)?;
        let beside = self.write_beside(bytes)?;
        match fs::hard_link(&beside.0, &path) {
            Ok(()) => sync_folder(&folder).map(|()| true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn try_list(&self, prefix: &str, after: Option<&str>, most: usize) -> io::Result<Vec<About>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![prefix.trim_end_matches('/').to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(self.root.join(&folder)) {
                Err(error) if self.is_nothing(&error) => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
                if name == UNFINISHED {
                    continue;
                }
                let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                if entry.file_type()?.is_dir() {
                    // `0` sorts right after `/`, so `below` is an upper bound of all keys in the folder: skip it if
                    // they precede `after`.
                    let below = format!("{name}0");
                    if after.is_none_or(|after| below.as_str() > after) {
                        folders.push(name);
                    }
                } else if after.is_none_or(|after| name.as_str() > after)
                    && let Some(key) = Key::parse(&name)
                {
                    found.insert(name, key);
                    if found.len() > most {
                        found.pop_last();
                    }
                }
            }
        }
        let about = |key| self.try_head(key).transpose();
        found.into_values().filter_map(about).collect()
    }

    fn try_head(&self, key: Key) -> io::Result<Option<About>> {
        let metadata = match fs::metadata(self.path(&key)) {
            Err(error) if self.is_nothing(&error) => return Ok(None),
            metadata => metadata?,
        };
        let age = SystemTime::now().duration_since(metadata.modified()?);
        let age_s = age.map_or(0, |age| age.as_secs());
        Ok(Some(About { key, bytes: metadata.len(), age_s }))
    }

    fn try_get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        most: u64,
    ) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(self.path(key)) {
            Err(error) if self.is_nothing(&error) => return Ok(None),
            file => file?,
        };
        let length = file.metadata()?.len();
        let range = range.unwrap_or(0..length);
        let (from, to) = (range.start.min(length), range.end.min(length));
        let wanted = to.saturating_sub(from);
        if wanted > most.min(OBJECT_BYTES_MAX) {
            return Err(io::Error::new(ErrorKind::FileTooLarge, format!("more than {most} bytes")));
        }
        let mut bytes = vec![0; usize::try_from(wanted).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, from)?;
        Ok(Some(bytes))
    }

    fn try_remove(&self, keys: &[Key]) -> io::Result<()> {
        let mut folders = Vec::new();
        for key in keys {
            let path = self.path(key);
            match fs::remove_file(&path) {
                Err(error) if self.is_nothing(&error) => continue,
                removed => removed?,
            }
            folders.extend(path.parent().map(Path::to_owned));
        }
        folders.sort_unstable();
        folders.dedup();
        folders.iter().try_for_each(|folder| sync_folder(folder))
    }

    /// Returns true if there is no such object. If the folder itself is missing or not mounted, nothing is known of the
    /// object, and the result is false.
    fn is_nothing(&self, error: &io::Error) -> bool {
        matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
            && self.root.join(UNFINISHED).is_dir()
    }

    fn away(&self, key: &dyn std::fmt::Display, error: &io::Error) -> Away {
        let full = "; there must be room, and the folder must be writable";
        let advice = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem => {
                full
            }
            ErrorKind::NotFound | ErrorKind::NotADirectory => "; is the folder there, and mounted?",
            ErrorKind::PermissionDenied => "; its files must belong to the user of this process",
            _ => "",
        };
        let why = format!("{}/{key}: {error}{advice}", self.root.display());
        let never =
            [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem, ErrorKind::FileTooLarge];
        Away { why, may_pass: !never.contains(&error.kind()) }
    }
}

type Counted<T> = io::Result<(T, Outcome, usize)>;

/// An unfinished file, removed on drop unless it was renamed.
struct Beside(PathBuf);

impl Drop for Beside {
    fn drop(&mut self) {
        // After a rename there is no file. After a failed removal, a later opening removes the file.
        let _left = fs::remove_file(&self.0);
    }
}

impl Objects for Folder {
    fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), Away> {
        let act = || self.try_put(key, bytes).map(|()| ((), Outcome::Done, 0));
        self.counted(Op::Put, bytes.len(), act).map_err(|error| self.away(key, &error))
    }

    fn put_new(&self, key: &Key, bytes: &[u8]) -> Tried {
        let act = || {
            let is_made = self.try_put_new(key, bytes)?;
            Ok((is_made, if is_made { Outcome::Done } else { Outcome::Taken }, 0))
        };
        match self.counted(Op::Create, bytes.len(), act) {
            Ok(true) => Tried::Made,
            Ok(false) => Tried::Unsure("there is one already".into()),
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported) => {
                Tried::Refused(format!(
                    "{} is on a file system without hard links, which is not enough",
                    self.root.display()
                ))
            }
            Err(error) => {
                let away = self.away(key, &error);
                if away.may_pass { Tried::Unsure(away.why) } else { Tried::Refused(away.why) }
            }
        }
    }

    fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Away> {
        let act = || {
            let bytes = self.try_get(key, range, most)?;
            let outcome = if bytes.is_some() { Outcome::Done } else { Outcome::Missing };
            let length = bytes.as_ref().map_or(0, Vec::len);
            Ok((bytes, outcome, length))
        };
        self.counted(Op::Get, 0, act).map_err(|error| self.away(key, &error))
    }

    fn head(&self, key: &Key) -> Result<Option<About>, Away> {
        let act = || {
            let about = self.try_head(key.clone())?;
            let outcome = if about.is_some() { Outcome::Done } else { Outcome::Missing };
            Ok((about, outcome, 0))
        };
        self.counted(Op::Head, 0, act).map_err(|error| self.away(key, &error))
    }

    fn list(&self, prefix: &str, after: Option<&Key>, most: usize) -> Result<Vec<About>, Away> {
        let after = after.map(Key::to_string);
        let act = || Ok((self.try_list(prefix, after.as_deref(), most)?, Outcome::Done, 0));
        self.counted(Op::List, 0, act).map_err(|error| self.away(&prefix, &error))
    }

    fn remove(&self, keys: &[Key]) -> Result<(), Away> {
        let act = || self.try_remove(keys).map(|()| ((), Outcome::Done, 0));
        self.counted(Op::Remove, 0, act).map_err(|error| self.away(&"", &error))
    }
}

/// Creates and syncs a folder if absent. Another process may create it meanwhile.
fn make_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => folder.parent().map_or(Ok(()), sync_folder),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Removes old unfinished files. If the writer of one is still running, its link or rename fails, and it writes again.
fn remove_unfinished(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().take(UNFINISHED_FILES_MAX) {
        let written = entry.metadata().and_then(|metadata| metadata.modified());
        let age = written.ok().and_then(|time| SystemTime::now().duration_since(time).ok());
        if age.unwrap_or(Duration::ZERO) > UNFINISHED_MAX && is_ours(&entry.file_name()) {
            // If the removal fails, the next opening retries.
            let _left = fs::remove_file(entry.path());
        }
    }
}

fn is_ours(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| Nonce::parse(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_finished_goes_once_it_is_old() {
        let root = tempfile::tempdir().unwrap();
        Folder::open(root.path(), Arc::default()).unwrap();
        let beside = root.path().join(UNFINISHED);
        let old = SystemTime::now() - UNFINISHED_MAX - Duration::from_secs(60);
        let names = ["0".repeat(32), "1".repeat(32), "other".into()];
        for name in &names {
            let file = File::create(beside.join(name)).unwrap();
            if *name != names[1] {
                file.set_modified(old).unwrap();
            }
        }
        Folder::open(root.path(), Arc::default()).unwrap();
        let left: Vec<bool> = names.iter().map(|name| beside.join(name).exists()).collect();
        assert_eq!(left, [false, true, true]);
    }

    #[test]
    fn of_a_folder_that_went_away_nothing_is_known() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("mounted");
        let objects = Folder::open(&folder, Arc::default()).unwrap();
        assert_eq!(objects.get(&Key::About, None, 100).unwrap(), None);
        assert!(objects.list("t/", None, 10).unwrap().is_empty());
        fs::rename(&folder, root.path().join("away")).unwrap();
        // An empty mount point.
        fs::create_dir(&folder).unwrap();
        let told = objects.get(&Key::About, None, 100).unwrap_err();
        assert!(
            told.why.contains("is the folder there, and mounted?") && told.may_pass,
            "{told:?}"
        );
        assert!(objects.head(&Key::About).is_err());
        assert!(objects.list("t/", None, 10).is_err());
        assert!(objects.remove(&[Key::About]).is_err());
    }

    #[test]
    fn a_folder_that_cannot_be_is_told() {
        let root = tempfile::tempdir().unwrap();
        let nowhere = root.path().join("a/b");
        let error = Folder::open(&nowhere, Arc::default()).unwrap_err().to_string();
        assert!(error.contains("a/b") && error.contains("must be a folder"), "{error}");
        let file = root.path().join("file");
        File::create(&file).unwrap();
        assert!(Folder::open(&file, Arc::default()).is_err());
    }
}
