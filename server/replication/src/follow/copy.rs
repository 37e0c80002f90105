//! The files of a store on this machine, brought to what a record says.
//!
//! Owns which files are here and how far each log goes. Whoever uses it has the directory's lock. Must not
//! know why these records are the right ones, nor who reads the files.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::far::{Listing, log_name, manifest_name};
use engine::os::disk::{Disk, DiskFile};
use engine::{DiskError, OpenError};

use super::error::NotApplied;
use super::partial::PartialDisk;
use crate::hex::Hash;
use crate::parts::{Shelf, hash_of};
use crate::record::{Bytes, FarFile, FarLog, Full, Kind, LogPiece, Record};

/// What a file is called until all of it is here.
const FETCHING: &str = ".new";

/// The files of a store on this machine.
#[derive(Debug)]
pub struct LocalCopy {
    disk: Arc<dyn Disk>,
    /// The same, where segments may be here in part.
    kept: Option<Arc<PartialDisk>>,
    /// Files that never change, by name; what they hash to.
    files: BTreeMap<String, Hash>,
    logs: BTreeMap<u64, LocalLog>,
    /// The newest manifest; `None` before there is one.
    manifest: Option<Listing>,
}

/// A log that grows.
#[derive(Debug)]
struct LocalLog {
    file: Box<dyn DiskFile>,
    to: u64,
}

impl LocalCopy {
    /// Over a directory, whatever is in it. A file there is used where a record names it and it hashes to what the
    /// record says; logs are written anew.
    #[must_use]
    pub fn over(disk: Arc<dyn Disk>) -> Self {
        Self { disk, kept: None, files: BTreeMap::new(), logs: BTreeMap::new(), manifest: None }
    }

    /// The same, where a segment that is not here is fetched when it is used, and an index some time.
    #[must_use]
    pub fn filling(kept: Arc<PartialDisk>) -> Self {
        Self { kept: Some(Arc::clone(&kept)), ..Self::over(kept) }
    }

    /// Whether there is a store to open.
    #[must_use]
    pub fn is_store(&self) -> bool {
        self.manifest.is_some()
    }

    /// Brings the directory to what these records say, in their order. Nothing that it held before is removed:
    /// that is for [`LocalCopy::clear`].
    ///
    /// # Errors
    /// The first one that cannot be applied, and why.
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

    /// Removes what the newest manifest leaves behind, and syncs what is left. Whoever reads what goes keeps it
    /// readable: it is mapped.
    ///
    /// # Errors
    /// The directory.
    pub fn clear(&mut self) -> Result<(), DiskError> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let names = self.disk.names()?;
        for name in manifest.leaves_behind(&names) {
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

    /// Returns once the logs survive a power cut, as whoever opens the store for writing must know.
    ///
    /// # Errors
    /// The directory.
    pub fn sync(&self) -> Result<(), DiskError> {
        self.logs.values().try_for_each(|log| log.file.sync())?;
        self.disk.sync_names()
    }

    /// A log has grown.
    fn grow(&mut self, shelf: Shelf<'_>, piece: &LogPiece) -> Result<(), NotApplied> {
        let log = self.log(piece.number)?;
        if log.to >= piece.to {
            // Applied before something else of the same record failed.
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

    /// A whole store: its files and logs, then its manifest.
    fn take_in(
        &mut self,
        shelf: Shelf<'_>,
        full: &Full,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), NotApplied> {
        let listing = Listing::read(&full.manifest).map_err(unreadable)?;
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

    /// A file that never changes, fetched unless it is here.
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

    /// Whether a file of an earlier time is just this one.
    fn is_here(&self, file: &FarFile) -> bool {
        let Ok(there) = self.disk.open(&file.name) else { return false };
        there.bytes() == file.bytes
            && hash_of(&*there, 0, file.bytes).is_ok_and(|hash| hash == file.sha256)
    }

    /// Puts a whole file in place, or nothing.
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

    /// A new file of this name, in place of one that may be there.
    fn anew(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        match self.disk.create(name) {
            Ok(file) => Ok(file),
            Err(_) => {
                self.disk.remove(name)?;
                self.disk.create(name)
            }
        }
    }

    /// A log that belongs to a full record, as far as that goes.
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

    /// A log here, begun anew where nothing of it is known.
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

    /// What of `bytes`, which lie at `from`, lies behind `here`.
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
