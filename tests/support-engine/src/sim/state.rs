//! The contents of a simulated disk at one moment, and the effects of a power cut.
//!
//! This module defines contents, names and which of them are unsynced, independent of stores. See [`super`] for the
//! file systems that are modelled.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use crate::ground::Dice;

/// Unit of a write that a disk writes completely or not at all.
pub const SECTOR_BYTES: usize = 512;
/// Contents of removed files that are retained, to reappear as stale bytes.
const BURIED_MAX: usize = 8;
/// Format version from which on a frame's checksum identifies its log. Before that version, a log that had grown
/// without its data over the blocks of an old log could show the old log's frames, so stale bytes are random noise
/// there.
const FRAMES_KNOW_THEIR_LOG: u16 = 2;

/// Guarantees of a file system at a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4 with `data=ordered`: a length grows only with its data.
    Ext4Ordered,
    /// ext4 with `data=writeback`: a length may grow without its data and show stale bytes.
    Ext4Writeback,
    /// XFS: a length may grow without its data and show zeros.
    Xfs,
    /// POSIX only: names, too, survive in any subset.
    Posix,
}

impl FileSystem {
    /// Every file system.
    pub const ALL: [Self; 4] = [Self::Ext4Ordered, Self::Ext4Writeback, Self::Xfs, Self::Posix];
}

/// Effects of a power cut.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Guarantees of the file system.
    pub file_system: FileSystem,
    /// True if the written range of a torn sector may contain garbage.
    pub garbage: bool,
}

#[derive(Debug, Clone)]
enum Change {
    Write { at: usize, bytes: Arc<[u8]> },
    Length(usize),
}

/// A file, with a name or without.
#[derive(Debug, Clone, Default)]
struct SimFile {
    /// The contents that reads see.
    newest: Arc<Vec<u8>>,
    /// The contents that are on disk for certain.
    durable: Arc<Vec<u8>>,
    /// Unsynced changes, in order.
    pending: Vec<Change>,
    /// Offset of the newest synced write.
    last_synced_write: usize,
}

#[derive(Debug, Clone)]
enum NameChange {
    Create { name: String, file: u64 },
    Rename { from: String, to: String, file: u64 },
    Remove { name: String, file: u64 },
}

/// The whole state of a disk at one moment. Clones share the contents until one of them is changed.
#[derive(Debug, Clone, Default)]
pub struct DiskState {
    files: BTreeMap<u64, SimFile>,
    next_file: u64,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    pending_names: Vec<NameChange>,
    buried: Vec<Arc<Vec<u8>>>,
    is_wiped: bool,
    has_lost: bool,
}

impl DiskState {
    /// Names of all files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Number of the file of this name.
    pub(super) fn file(&self, name: &str) -> Option<u64> {
        self.names.get(name).copied()
    }

    /// The contents of a file as reads see them.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.files.get(&self.file(name)?).map(|file| file.newest.as_slice())
    }

    /// The contents of a file that may have lost its name.
    pub(super) fn bytes_of(&self, file: u64) -> &[u8] {
        self.files.get(&file).map(|file| file.newest.as_slice()).unwrap_or_default()
    }

    /// Offset of the newest synced write of a file.
    pub fn last_synced_write(&self, name: &str) -> Option<usize> {
        Some(self.files.get(&self.file(name)?)?.last_synced_write)
    }

    /// Returns true if a power cut now would change nothing.
    pub fn is_settled(&self) -> bool {
        self.pending_names.is_empty() && self.files.values().all(|file| file.pending.is_empty())
    }

    pub(super) fn create(&mut self, name: &str) -> u64 {
        let file = self.next_file;
        self.next_file += 1;
        self.files.insert(file, SimFile::default());
        self.change_names(NameChange::Create { name: name.to_owned(), file });
        file
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, file: u64) {
        self.bury(to);
        let (from, to) = (from.to_owned(), to.to_owned());
        self.change_names(NameChange::Rename { from, to, file });
    }

    pub(super) fn remove(&mut self, name: &str, file: u64) {
        self.bury(name);
        self.change_names(NameChange::Remove { name: name.to_owned(), file });
    }

    /// Stops the file system from exposing the bytes of removed files from now on. Erased bytes leave the files, and
    /// unused blocks are not the engine's to wipe.
    pub fn wipe(&mut self) {
        self.buried.clear();
        self.is_wiped = true;
    }

    /// Returns a file whose visible contents have one of these marks of eight bytes each.
    pub fn holder_of(&self, marks: &BTreeSet<u64>) -> Option<&str> {
        let mut firsts = [false; 256];
        marks.iter().for_each(|mark| firsts[usize::from(mark.to_le_bytes()[0])] = true);
        let is_mark = |window: &[u8]| {
            firsts[usize::from(window[0])]
                && marks.contains(&u64::from_le_bytes(window.try_into().expect("eight bytes")))
        };
        // Most of a log is reserved space of zeros.
        let holds = |bytes: &[u8]| {
            (0..bytes.len()).step_by(SECTOR_BYTES).any(|at| {
                let end = bytes.len().min(at + SECTOR_BYTES + 7);
                let part = &bytes[at..end];
                part != &[0; SECTOR_BYTES + 7][..part.len()] && part.windows(8).any(is_mark)
            })
        };
        let mut names = self.names().filter(|_| !marks.is_empty());
        names.find(|name| self.bytes(name).is_some_and(holds))
    }

    /// Removes a file, on disk and in memory.
    pub fn lose(&mut self, name: &str) {
        self.names.remove(name);
        self.durable_names.remove(name);
    }

    fn bury(&mut self, name: &str) {
        if self.is_wiped {
            return;
        }
        let gone = self.file(name).and_then(|file| self.files.get(&file));
        self.buried.extend(gone.map(|gone| gone.newest.clone()).filter(|gone| !gone.is_empty()));
        let excess = self.buried.len().saturating_sub(BURIED_MAX);
        self.buried.drain(..excess);
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }

    pub(super) fn write(&mut self, file: u64, at: usize, bytes: &[u8]) {
        let Some(file) = self.files.get_mut(&file) else { return };
        put(Arc::make_mut(&mut file.newest), at, bytes);
        file.pending.push(Change::Write { at, bytes: bytes.into() });
    }

    pub(super) fn reserve(&mut self, file: u64, length: usize) {
        let Some(file) = self.files.get_mut(&file) else { return };
        if file.newest.len() < length {
            Arc::make_mut(&mut file.newest).resize(length, 0);
            file.pending.push(Change::Length(length));
        }
    }

    pub(super) fn sync(&mut self, file: u64) {
        if let Some(file) = self.files.get_mut(&file) {
            file.sync();
        }
    }

    pub(super) fn sync_names(&mut self) {
        self.pending_names.clear();
        self.durable_names = self.names.clone();
    }

    /// Simulates a failed sync: some of the unsynced bytes are lost, though reads still see them, and a later sync will
    /// not write them to disk.
    pub(super) fn forget(&mut self, file: u64, dice: &mut Dice) {
        let Some(file) = self.files.get_mut(&file) else { return };
        file.pending.truncate(dice.index(file.pending.len() + 1));
        self.has_lost = true;
    }

    /// Returns true if a failed sync has lost bytes that reads still see.
    pub fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// Drops the bytes lost by a failed sync from memory, too: reads see the bytes that are or will be on disk.
    pub fn forget_lost(&mut self) {
        for file in self.files.values_mut() {
            let mut settled = file.clone();
            settled.sync();
            file.newest = settled.durable;
        }
        self.has_lost = false;
    }

    /// Syncs everything.
    pub fn settle(&mut self) {
        self.sync_names();
        self.files.values_mut().for_each(SimFile::sync);
    }

    /// Corrupts bytes of a file, on disk and in memory.
    pub fn spoil(&mut self, name: &str, range: Range<usize>, mut spoil: impl FnMut(&mut u8)) {
        let file = self.file(name).and_then(|file| self.files.get_mut(&file));
        let Some(file) = file else { return };
        for bytes in [&mut file.newest, &mut file.durable] {
            let bytes = Arc::make_mut(bytes);
            let range = range.start.min(bytes.len())..range.end.min(bytes.len());
            bytes[range].iter_mut().for_each(&mut spoil);
        }
    }

    /// Draws one of the states that a power cut now can leave.
    pub fn after_cut(&self, cut: Cut, dice: &mut Dice) -> Self {
        let mut names = self.durable_names.clone();
        let plan = Plan::draw(self.pending_names.len(), dice);
        let is_ordered = cut.file_system != FileSystem::Posix;
        for (n, change) in self.pending_names.iter().enumerate() {
            match plan.fate(n, dice) {
                Fate::Kept => change.apply(&mut names),
                // A journal is replayed up to some point and not beyond.
                Fate::Lost if is_ordered => break,
                Fate::Lost => {}
            }
        }
        let mut files = BTreeMap::new();
        for &number in names.values() {
            let left = Arc::new(self.files[&number].after_cut(cut, &self.buried, dice));
            let durable = left.clone();
            let last_synced_write = self.files[&number].last_synced_write;
            let file = SimFile { newest: left, durable, pending: Vec::new(), last_synced_write };
            files.insert(number, file);
        }
        Self {
            files,
            next_file: self.next_file,
            durable_names: names.clone(),
            names,
            pending_names: Vec::new(),
            buried: self.buried.clone(),
            is_wiped: self.is_wiped,
            has_lost: false,
        }
    }

    /// Describes the disk for people: names, lengths, and unsynced changes.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (name, number) in &self.names {
            let file = &self.files[number];
            let (newest, durable) = (file.newest.len(), file.durable.len());
            let pending = file.pending.len();
            let line =
                writeln!(text, "  {name}: {newest} bytes, {durable} durable, {pending} pending");
            line.expect("writing to a string does not fail");
        }
        for change in &self.pending_names {
            writeln!(text, "  not synced: {change:?}").expect("writing to a string does not fail");
        }
        text
    }
}

impl NameChange {
    /// Applies the change, or does nothing if its prerequisite was lost.
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Create { name, file } => {
                names.insert(name.clone(), *file);
            }
            Self::Rename { from, to, file } => {
                if names.get(from) == Some(file) {
                    names.remove(from);
                    names.insert(to.clone(), *file);
                }
            }
            Self::Remove { name, file } => {
                if names.get(name) == Some(file) {
                    names.remove(name);
                }
            }
        }
    }
}

impl SimFile {
    fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            let durable = Arc::make_mut(&mut self.durable);
            match change {
                Change::Write { at, bytes } => {
                    put(durable, at, &bytes);
                    self.last_synced_write = at;
                }
                Change::Length(length) => durable.resize(durable.len().max(length), 0),
            }
        }
    }

    fn after_cut(&self, cut: Cut, buried: &[Arc<Vec<u8>>], dice: &mut Dice) -> Vec<u8> {
        let mut left = self.durable.to_vec();
        if self.pending.is_empty() {
            return left;
        }
        let plan = Plan::draw(self.pending.len(), dice);
        let is_ordered = cut.file_system == FileSystem::Ext4Ordered;
        let mut stays_short = false;
        for (n, change) in self.pending.iter().enumerate() {
            match change {
                Change::Length(length) => {
                    if plan.fate(n, dice) == Fate::Kept && !stays_short {
                        left.resize(left.len().max(*length), 0);
                    }
                }
                Change::Write { at, bytes } => {
                    for part in sectors(*at, bytes.len()) {
                        let grows = part.end > left.len();
                        let is_kept = plan.fate(n, dice) == Fate::Kept;
                        if is_ordered && grows && (stays_short || !is_kept) {
                            stays_short = true;
                            continue;
                        }
                        let garbage = !is_kept && cut.garbage && dice.below(4) == 0;
                        if is_kept || garbage {
                            fill_hole(&mut left, part.start, cut.file_system, buried, dice);
                            put(&mut left, part.start, &bytes[part.start - at..part.end - at]);
                        }
                        if garbage {
                            left[part].iter_mut().for_each(|byte| *byte ^= random_byte(dice));
                        }
                    }
                }
            }
        }
        if !is_ordered && left.len() < self.newest.len() && dice.below(3) == 0 {
            let length = left.len() + dice.index(self.newest.len() - left.len() + 1);
            fill_hole(&mut left, length, cut.file_system, buried, dice);
        }
        left
    }
}

fn random_byte(dice: &mut Dice) -> u8 {
    dice.roll().to_le_bytes()[0]
}

fn put(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    let end = at + new.len();
    bytes.resize(bytes.len().max(end), 0);
    bytes[at..end].copy_from_slice(new);
}

/// Extends `bytes` to at least `to` with the contents that a file system shows for unwritten ranges.
fn fill_hole(
    bytes: &mut Vec<u8>,
    to: usize,
    file_system: FileSystem,
    buried: &[Arc<Vec<u8>>],
    dice: &mut Dice,
) {
    let from = bytes.len();
    if from >= to {
        return;
    }
    bytes.resize(to, 0);
    let shows_stale = match file_system {
        FileSystem::Ext4Ordered | FileSystem::Xfs => false,
        FileSystem::Ext4Writeback => true,
        FileSystem::Posix => dice.below(2) == 0,
    };
    if !shows_stale {
        return;
    }
    let known = if engine::WRITE_VERSION < FRAMES_KNOW_THEIR_LOG { &[] } else { buried };
    let old = known.get(dice.index(known.len() + 1));
    for (n, byte) in bytes[from..].iter_mut().enumerate() {
        // Bytes of an old file reappear at their old offset, modulo its length: at the same place of a sector.
        let place = (from + n) % old.map_or(1, |old| old.len());
        *byte = old.map_or_else(|| random_byte(dice), |old| old[place]);
    }
}

/// Splits a range at sector boundaries.
fn sectors(at: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    let end = at + length;
    let mut from = at;
    std::iter::from_fn(move || {
        let to = end.min((from / SECTOR_BYTES + 1) * SECTOR_BYTES);
        let part = from..to;
        from = to;
        (!part.is_empty()).then_some(part)
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Lost,
}

/// Fate of each of several changes. The distribution favours the revealing cases: all, nothing, a cut between two
/// changes, one missing change.
#[derive(Debug)]
enum Plan {
    All,
    Nothing,
    /// Earlier changes are kept, this one is torn, later ones are lost.
    UpTo(usize),
    /// An independent fate for each change; `None` for a torn one.
    Each(Vec<Option<Fate>>),
    /// An independent fate for each sector of each change.
    Sectors,
    AllBut(usize),
}

impl Plan {
    fn draw(changes: usize, dice: &mut Dice) -> Self {
        let one = dice.index(changes.max(1));
        match dice.below(6) {
            0 => Self::All,
            1 => Self::Nothing,
            2 => Self::UpTo(one),
            3 => Self::Sectors,
            4 => Self::AllBut(one),
            _ => {
                let fates = [Some(Fate::Kept), Some(Fate::Lost), None];
                let draw = |_| fates[dice.index(3)];
                Self::Each((0..changes).map(draw).collect())
            }
        }
    }

    fn fate(&self, n: usize, dice: &mut Dice) -> Fate {
        let coin = if dice.below(2) == 0 { Fate::Kept } else { Fate::Lost };
        match self {
            Self::All => Fate::Kept,
            Self::Nothing => Fate::Lost,
            Self::UpTo(torn) if n == *torn => coin,
            Self::UpTo(torn) => {
                if n < *torn {
                    Fate::Kept
                } else {
                    Fate::Lost
                }
            }
            Self::Each(fates) => fates[n].unwrap_or(coin),
            Self::Sectors => coin,
            Self::AllBut(one) => {
                if n == *one {
                    Fate::Lost
                } else {
                    Fate::Kept
                }
            }
        }
    }
}
