//! Local files of a store, brought to the state of a record.
//!
//! Owns which files are here and the length of each log. The caller has the lock of the directory. Must not know why
//! these records are the right ones, nor who reads the files.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::os::disk::{Disk, DiskFile};
use engine::replication_sink::{ManifestView, log_name, manifest_name};
use engine::{DiskError, OpenError};

use super::error::NotApplied;
use super::partial::PartialDisk;
use crate::hex::Hash;
use crate::parts::{Shelf, hash_of};
use crate::record::{Bytes, FarFile, FarLog, Full, Kind, LogPiece, Record};

/// Suffix of a file until its content is complete.
const FETCHING: &str = ".new";

/// Local files of a store.
#[derive(Debug)]
pub struct LocalCopy {
    disk: Arc<dyn Disk>,
    /// Lazy view of the directory, if segments may be local in part.
    kept: Option<Arc<PartialDisk>>,
    /// Hashes of immutable files, by name.
    files: BTreeMap<String, Hash>,
    logs: BTreeMap<u64, LocalLog>,
    /// The newest manifest; `None` before there is one.
    manifest: Option<ManifestView>,
}

/// A growing log.
#[derive(Debug)]
struct LocalLog {
    file: Box<dyn DiskFile>,
    to: u64,
}

impl LocalCopy {
    /// Starts on a directory with any content. An existing file is reused if a record names it and its hash matches the
    /// record; logs are rewritten.
    #[must_use]
    pub fn over(disk: Arc<dyn Disk>) -> Self {
        Self { disk, kept: None, files: BTreeMap::new(), logs: BTreeMap::new(), manifest: None }
    }

    /// Starts on a lazy directory: missing segments are fetched on use, and indexes later.
    #[must_use]
    pub fn filling(kept: Arc<PartialDisk>) -> Self {
        Self { kept: Some(Arc::clone(&kept)), ..Self::over(kept) }
    }

    /// Returns true if there is a store to open.
    #[must_use]
    pub fn is_store(&self) -> bool {
        self.manifest.is_some()
    }

    /// Brings the directory to the state of these records, in their order. No older file is removed; see
    /// [`LocalCopy::clear`].
    ///
    /// # Errors
    /// The first record that cannot be applied, and why.
    pub fn apply(
        &mut self,
        shelf: Shelf<'_>,
        records: &[Record],
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), NotApplied> {
        records.iter().try_for_each(|record| match &record.kind {
            Kind::Take | Kind::Give { .. } => Ok(()),
            Kind::Step(pieces) => pieces.iter().try_for_each(|piece| self.grow(shelf, piece)),
            Kind::Full(full) => self.take_in(shelf, full, goes_on),
        })
    }

    /// Removes the files that the newest manifest replaced, and syncs the rest. A removed file stays readable to its
    /// current readers, as they have mapped it.
    ///
    /// # Errors
    /// The directory failed.
    pub fn clear(&mut self) -> Result<(), DiskError> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let names = self.disk.names()?;
        for name in manifest.obsolete_files(&names) {
            self.disk.remove(name)?;
        }
        let unfinished = names.iter().filter(|name| name.ends_with(FETCHING));
        unfinished.into_iter().try_for_each(|name| self.disk.remove(name))?;
        let floor = manifest.log_floor();
        self.logs.retain(|&number, _| number >= floor);
        let is_there = |name: &String| names.contains(name);
        self.files.retain(|name, _| is_there(name));
        if let Some(kept) = &self.kept {
            kept.clear(&self.disk.names()?)?;
        }
        self.disk.sync_names()
    }

    /// Syncs the logs, so that they survive a power cut. Required before the store is opened for writing.
    ///
    /// # Errors
    /// The directory failed.
    pub fn sync(&self) -> Result<(), DiskError> {
        self.logs.values().try_for_each(|log| log.file.sync())?;
        self.disk.sync_names()
    }

    /// Appends a piece to its log.
    fn grow(&mut self, shelf: Shelf<'_>, piece: &LogPiece) -> Result<(), NotApplied> {
        let log = self.log(piece.number)?;
        if log.to >= piece.to {
            // Applied before another part of the record failed.
            return Ok(());
        }
        if log.to != piece.from {
            let (number, from, to) = (piece.number, piece.from, log.to);
            let why = format!("log {number} goes on at {from}, and {to} bytes of it are here");
            return Err(NotApplied::Wrong(why));
        }
        match &piece.bytes {
            Bytes::Here(bytes) => log.append(bytes),
            Bytes::Object { key, sha256 } => {
                let bytes = shelf.small(*key, piece.to - piece.from, *sha256)?;
                log.append(&bytes)
            }
        }
    }

    /// Applies a full record: files and logs first, then the manifest.
    fn take_in(
        &mut self,
        shelf: Shelf<'_>,
        full: &Full,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), NotApplied> {
        let listing = ManifestView::parse(&full.manifest).map_err(unreadable)?;
        for file in &full.files {
            self.file(shelf, file, goes_on)?;
        }
        for log in &full.logs {
            self.catch_up(shelf, log)?;
        }
        let name = manifest_name(listing.number());
        if self.manifest.as_ref().is_none_or(|known| known.number() != listing.number()) {
            self.put(&name, |file| Ok(file.append(&full.manifest)?))?;
        }
        self.disk.sync_names()?;
        self.manifest = Some(listing);
        Ok(())
    }

    /// Fetches an immutable file unless it is here.
    fn file(
        &mut self,
        shelf: Shelf<'_>,
        file: &FarFile,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), NotApplied> {
        if self.files.get(&file.name) != Some(&file.sha256) {
            let is_known = self.kept.as_ref().is_some_and(|kept| kept.knows(file));
            let is_here = is_known || self.is_here(file);
            match &self.kept {
                Some(kept) if PartialDisk::fills(&file.name) && is_here => kept.has_whole(file),
                Some(kept) if PartialDisk::fills(&file.name) => kept.begin(file)?,
                _ if is_here => {}
                Some(kept) if PartialDisk::may_wait(&file.name) => kept.defer(file),
                _ => {
                    let what = (file.bytes, file.sha256);
                    self.put(&file.name, |into| Ok(shelf.fetch(file.key, what, into, goes_on)?))?;
                }
            }
        }
        self.files.insert(file.name.clone(), file.sha256);
        Ok(())
    }

    /// Returns true if an existing file has the expected length and hash.
    fn is_here(&self, file: &FarFile) -> bool {
        let Ok(there) = self.disk.open(&file.name) else { return false };
        there.bytes() == file.bytes
            && hash_of(&*there, 0, file.bytes).is_ok_and(|hash| hash == file.sha256)
    }

    /// Writes a file atomically: under a temporary name first, then renamed.
    fn put(
        &self,
        name: &str,
        write: impl FnOnce(&dyn DiskFile) -> Result<(), NotApplied>,
    ) -> Result<(), NotApplied> {
        let fresh = format!("{name}{FETCHING}");
        let file = self.anew(&fresh)?;
        write(&*file)?;
        file.sync()?;
        Ok(self.disk.rename(&fresh, name)?)
    }

    /// Creates a new file; an existing one of this name is removed.
    fn anew(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        match self.disk.create(name) {
            Ok(file) => Ok(file),
            Err(_) => {
                self.disk.remove(name)?;
                self.disk.create(name)
            }
        }
    }

    /// Extends a log to its length in a full record.
    fn catch_up(&mut self, shelf: Shelf<'_>, far: &FarLog) -> Result<(), NotApplied> {
        let folded = far.folded();
        let log = self.log(far.number)?;
        for fold in &far.folds {
            if fold.to <= log.to {
                continue;
            }
            let bytes = shelf.small(fold.key, fold.to - fold.from, fold.sha256)?;
            log.append_from(fold.from, log.to, &bytes)?;
        }
        if far.to() > log.to {
            log.append_from(folded, log.to, &far.rest)?;
        }
        Ok(())
    }

    /// Local log with this number, started anew if unknown.
    fn log(&mut self, number: u64) -> Result<&mut LocalLog, DiskError> {
        if !self.logs.contains_key(&number) {
            let file = self.anew(&log_name(number))?;
            self.logs.insert(number, LocalLog { file, to: 0 });
        }
        Ok(self.logs.get_mut(&number).expect("it was just put there"))
    }
}

impl LocalLog {
    fn append(&mut self, bytes: &[u8]) -> Result<(), NotApplied> {
        self.file.append(bytes)?;
        self.to += bytes.len() as u64;
        Ok(())
    }

    /// Appends the part of `bytes`, which start at `from`, behind `here`.
    fn append_from(&mut self, from: u64, here: u64, bytes: &[u8]) -> Result<(), NotApplied> {
        let skipped = here.checked_sub(from).and_then(|skipped| usize::try_from(skipped).ok());
        let rest = skipped.and_then(|skipped| bytes.get(skipped..));
        let rest = rest.ok_or_else(|| NotApplied::Wrong("a log has a hole".into()))?;
        self.append(rest)
    }
}

fn unreadable(error: OpenError) -> NotApplied {
    NotApplied::Wrong(format!("the manifest of a record: {error}"))
}
