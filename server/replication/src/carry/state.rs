//! What a store has told, and what of it is in the chain.
//!
//! Pure: told by [`super::carrier`] under its lock, asked by the two threads. Whatever is told twice or late says
//! nothing new the second time.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use engine::Seq;
use engine::far::{ListedFile, LogMark, Published, index_name};
use engine::os::disk::{Disk, DiskRead};

use super::carried::Listed;
use crate::hex::{Hash, Hex};
use crate::names::DataKey;
use crate::parts::{self, Upload};
use crate::record::{FarFile, Fold, Kind, Record};
use crate::ticks::Ticks;

/// What names of indexes begin with, and of segments.
pub(super) const INDEX: &str = "index-";
const SEGMENT: &str = "segment-";

/// What makes names that nobody has used.
pub(super) trait Keys {
    /// A key of this epoch.
    fn key(&self) -> DataKey;
}

/// What a store has told, and what of it is in the chain.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Logs that a reader of the chain needs or will need, by number.
    pub(super) logs: BTreeMap<u64, Log>,
    /// Files that are there or on their way, by name.
    pub(super) files: BTreeMap<String, Sent>,
    /// The newest manifest that was told.
    pub(super) manifest: Option<Outline>,
    /// The manifest of the newest full record, by number; 0 before there is one of this epoch.
    pub(super) in_chain: u64,
    /// The newest commit in the chain.
    pub(super) seq: Seq,
    /// Up to where all may be shown: what is in the chain, or was acknowledged before there was one.
    pub(super) shown: Seq,
    /// Since when something is on this disk that is not in the chain.
    pub(super) unsent_since: Option<Ticks>,
    /// Objects of the record that is being made.
    pub(super) naming: BTreeSet<DataKey>,
    /// A full record must come before the next step.
    pub(super) full_first: bool,
    /// Something was erased of which no full record says so yet.
    pub(super) owes_erasure: bool,
    /// What the epoch before left of files that were not told yet.
    left: BTreeMap<String, Listed>,
    /// Objects of the list that is on disk.
    listed: BTreeSet<DataKey>,
    /// Whether that list is to be written anew.
    pub(super) is_list_due: bool,
    /// Bytes that were put since it was written.
    pub(super) unlisted: u64,
}

/// A log that grows.
#[derive(Debug)]
pub(super) struct Log {
    /// `None` where only the chain has it.
    pub(super) file: Option<Arc<dyn DiskRead>>,
    /// How far it is on this machine's disk.
    pub(super) mark: LogMark,
    /// How far it is in the chain.
    pub(super) sent: u64,
    /// What of it are objects, from 0 on, and the newest commit in them.
    pub(super) folds: Vec<Fold>,
    pub(super) folded_seq: Seq,
    /// What is about to become one.
    pub(super) folding: Option<Folding>,
}

/// A run of a log on its way to be an object.
#[derive(Debug, Clone)]
pub(super) struct Folding {
    pub(super) key: DataKey,
    pub(super) from: u64,
    /// How far the log is with it.
    pub(super) to: LogMark,
    pub(super) upload: Arc<Upload>,
}

/// A file that never changes.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) key: DataKey,
    pub(super) bytes: u64,
    /// What it hashes to; of an index only known once it was sent.
    pub(super) sha256: Option<Hash>,
    /// `None` once all of it is there.
    pub(super) way: Option<Way>,
    /// Whether the newest full record names it.
    pub(super) is_named: bool,
}

/// A file on its way.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) file: Arc<dyn DiskRead>,
    /// What it must hash to, where its manifest says so.
    pub(super) sha256: Option<Hash>,
    pub(super) upload: Arc<Upload>,
}

/// A manifest, as far as it is needed after its files may have gone.
#[derive(Debug)]
pub(super) struct Outline {
    pub(super) bytes: Vec<u8>,
    pub(super) number: u64,
    pub(super) floor: u64,
    pub(super) files: Vec<ListedFile>,
    pub(super) logs: Vec<LogMark>,
    pub(super) last_seq: Seq,
    pub(super) must_lead: bool,
    pub(super) ends_erasure: bool,
}

impl State {
    /// What is in the chain by these records, of which the first is a full one or record 1.
    pub(super) fn of_chain(records: &[Record]) -> Self {
        let mut state = Self::default();
        records.iter().for_each(|record| state.learn(record));
        state.shown = state.seq;
        state
    }

    /// What the epoch before left may be named, until it is known that nobody needs it.
    pub(super) fn resume(&mut self, left: BTreeMap<String, Listed>) {
        self.listed = left.values().map(|listed| listed.key).collect();
        self.is_list_due = !left.is_empty();
        self.left = left;
    }

    /// The list as it is to be on disk: files of which something lies there that no record names. Until
    /// [`State::list_written`], what any of both lists has is needed.
    pub(super) fn list(&mut self) -> BTreeMap<String, Listed> {
        let mut list = self.left.clone();
        for (name, sent) in self.files.iter().filter(|(_, sent)| !sent.is_named) {
            let Some(sha256) = sent.sha256 else { continue };
            let Sent { key, bytes, .. } = *sent;
            let parts = match &sent.way {
                None => vec![(0, parts::count(bytes).saturating_sub(1))],
                Some(way) => way.upload.runs(),
            };
            if !parts.is_empty() && !name.starts_with(INDEX) {
                list.insert(name.clone(), Listed { key, bytes, sha256, parts });
            }
        }
        self.listed.extend(list.values().map(|listed| listed.key));
        (self.is_list_due, self.unlisted) = (false, 0);
        list
    }

    /// That list is on disk.
    pub(super) fn list_written(&mut self, list: &BTreeMap<String, Listed>) {
        self.listed = list.values().map(|listed| listed.key).collect();
    }

    fn learn(&mut self, record: &Record) {
        self.seq = record.head.seq;
        match &record.kind {
            Kind::Take | Kind::Give { .. } => {}
            Kind::Step(pieces) => {
                for piece in pieces {
                    self.known_log(piece.number, piece.first_seq).sent = piece.to;
                }
            }
            Kind::Full(full) => {
                let known = |file: &FarFile| {
                    let FarFile { name, key, bytes, sha256 } = file.clone();
                    (name, Sent { key, bytes, sha256: Some(sha256), way: None, is_named: true })
                };
                self.files = full.files.iter().map(known).collect();
                self.logs.clear();
                for log in &full.logs {
                    let known = self.known_log(log.number, log.first_seq);
                    known.sent = log.to();
                    known.folds.clone_from(&log.folds);
                }
            }
        }
    }

    fn known_log(&mut self, number: u64, first_seq: Seq) -> &mut Log {
        let mark = LogMark { log: number, first_seq, end: 0, seq: first_seq.saturating_sub(1) };
        self.logs.entry(number).or_insert(Log {
            file: None,
            mark,
            sent: 0,
            folds: Vec::new(),
            folded_seq: 0,
            folding: None,
        })
    }

    /// A log was made, or found at the opening.
    pub(super) fn began_log(&mut self, mark: LogMark, file: Box<dyn DiskRead>, now: Ticks) {
        let log = self.known_log(mark.log, mark.first_seq);
        log.file = Some(file.into());
        self.synced(mark, now);
    }

    /// A log is on disk up to here.
    pub(super) fn synced(&mut self, mark: LogMark, now: Ticks) {
        let Some(log) = self.logs.get_mut(&mark.log) else { return };
        if mark.end > log.mark.end {
            log.mark = mark;
        }
        if log.mark.end > log.sent {
            self.unsent_since.get_or_insert(now);
        }
    }

    /// A manifest was put in place. Files of it that are not there are opened, before they may go.
    ///
    /// # Errors
    /// One cannot be opened; nothing is remembered then.
    pub(super) fn published(
        &mut self,
        published: &Published<'_>,
        keys: &dyn Keys,
        now: Ticks,
    ) -> Result<(), engine::DiskError> {
        let listing = published.listing;
        let known = self.manifest.as_ref().map_or(0, |known| known.number);
        if known >= listing.number() {
            return Ok(());
        }
        let files: Vec<ListedFile> = listing.files().collect();
        for file in &files {
            self.send(&file.name, (file.bytes, Some(Hex(file.sha256))), published.disk, keys)?;
        }
        // What one says that no record brought holds for the one that takes its place.
        let pending = self.manifest.as_ref().filter(|_| known > self.in_chain);
        let (led, erased) = pending.map_or((false, false), |it| (it.must_lead, it.ends_erasure));
        self.manifest = Some(Outline {
            bytes: published.bytes.to_vec(),
            number: listing.number(),
            floor: listing.log_floor(),
            files,
            logs: published.logs.to_vec(),
            last_seq: published.last_seq,
            must_lead: led || published.must_lead,
            ends_erasure: erased || published.ends_erasure,
        });
        if self.seq == 0 {
            // Acknowledged before there was a chain.
            self.shown = self.shown.max(published.last_seq);
        }
        published.logs.iter().for_each(|&mark| self.synced(mark, now));
        self.unsent_since.get_or_insert(now);
        self.forget();
        Ok(())
    }

    /// An index got its name.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn indexed(
        &mut self,
        name: &str,
        disk: &dyn Disk,
        keys: &dyn Keys,
    ) -> Result<(), engine::DiskError> {
        let bytes = disk.open(name)?.bytes();
        self.send(name, (bytes, None), disk, keys)
    }

    /// A file is to be sent, unless it is there or on its way.
    fn send(
        &mut self,
        name: &str,
        (bytes, sha256): (u64, Option<Hash>),
        disk: &dyn Disk,
        keys: &dyn Keys,
    ) -> Result<(), engine::DiskError> {
        let is_same =
            |known: &Sent| known.bytes == bytes && (known.sha256 == sha256 || sha256.is_none());
        if self.files.get(name).is_some_and(is_same) {
            return Ok(());
        }
        let file = disk.open(name)?.into();
        let is_left = |left: &Listed| left.bytes == bytes && Some(left.sha256) == sha256;
        let upload = match self.left.remove(name).filter(is_left) {
            Some(left) => Upload::resumed(left.key, bytes, &left.parts),
            None => Upload::new(keys.key(), 0, bytes),
        };
        let key = upload.key();
        let way = Some(Way { file, sha256, upload: Arc::new(upload) });
        let sent = Sent { key, bytes, sha256, way, is_named: false };
        self.files.insert(name.to_owned(), sent);
        Ok(())
    }

    /// Whether all objects that are left to this writer are of the newest manifest: what went with an earlier one is
    /// not among them.
    pub(super) fn is_clean(&self) -> bool {
        let Some(manifest) = &self.manifest else { return false };
        let wanted = wanted(manifest);
        let is_right = |(name, sent): (&String, &Sent)| sent.is_named || wanted.contains(name);
        let known: BTreeSet<DataKey> = self.files.values().map(|sent| sent.key).collect();
        self.left.is_empty()
            && self.listed.is_subset(&known)
            && self.files.iter().all(is_right)
            && self.logs.keys().all(|&number| number >= manifest.floor)
    }

    /// Forgets files that neither the newest manifest nor the chain's need, and logs before both.
    fn forget(&mut self) {
        let Some(manifest) = &self.manifest else { return };
        let is_in_chain = manifest.number == self.in_chain;
        let listed = wanted(manifest);
        // What is on its way for nobody stops; what is there stays until no record of ours names it.
        let goes = |name: &String, sent: &Sent| {
            !listed.contains(name) && (is_in_chain || sent.way.is_some())
        };
        self.files.retain(|name, sent| !goes(name, sent));
        if is_in_chain {
            self.logs = self.logs.split_off(&manifest.floor);
        }
    }

    /// A file that is on its way.
    pub(super) fn next_file(&self) -> Option<(String, Way)> {
        // Small ones first: a manifest waits for all, and commits for none.
        let on_way = self
            .files
            .iter()
            .filter_map(|(name, sent)| Some((sent.bytes, name, sent.way.as_ref()?)));
        on_way
            .min_by_key(|(bytes, name, _)| (*bytes, *name))
            .map(|(_, name, way)| (name.clone(), way.clone()))
    }

    /// A file is there, and hashes to this.
    pub(super) fn file_sent(&mut self, name: &str, way: &Way, hash: Hash) {
        if let Some(sent) = self.files.get_mut(name)
            && sent.is_on(way)
        {
            (sent.sha256, sent.way) = (Some(hash), None);
        }
    }

    /// A run of a log that is on its way to be an object.
    pub(super) fn next_fold(&self) -> Option<(u64, Arc<dyn DiskRead>, Folding)> {
        self.logs.iter().find_map(|(number, log)| {
            Some((*number, Arc::clone(log.file.as_ref()?), log.folding.clone()?))
        })
    }

    /// It is there, and hashes to this.
    pub(super) fn folded(&mut self, number: u64, folding: &Folding, sha256: Hash) {
        let Some(log) = self.logs.get_mut(&number) else { return };
        if log.folding.as_ref().is_some_and(|own| own.key == folding.key) {
            let Folding { key, from, to, .. } = *folding;
            log.folds.push(Fold { key, from, to: to.end, sha256 });
            log.folded_seq = to.seq;
            log.folding = None;
        }
    }

    /// What the newest full record of ours says is in the chain.
    pub(super) fn committed_full(&mut self, number: u64, full: &Named, seq: Seq) {
        self.in_chain = number;
        self.full_first = false;
        self.owes_erasure &= !full.ends_erasure;
        // All that this epoch has was told by now.
        mem::take(&mut self.left);
        self.is_list_due |= !self.listed.is_empty();
        for sent in self.files.values_mut() {
            sent.is_named = full.files.contains(&sent.key);
        }
        self.sent_to(&full.logs);
        // What it left behind waits for nothing.
        self.forget();
        self.committed(seq);
    }

    /// What a step of ours says is in the chain: how far each log went.
    pub(super) fn committed_step(&mut self, logs: &[(u64, u64)], seq: Seq) {
        self.sent_to(logs);
        self.committed(seq);
    }

    fn sent_to(&mut self, logs: &[(u64, u64)]) {
        for (number, to) in logs {
            if let Some(log) = self.logs.get_mut(number) {
                log.sent = log.sent.max(*to);
            }
        }
    }

    fn committed(&mut self, seq: Seq) {
        self.seq = self.seq.max(seq);
        self.shown = self.shown.max(seq);
        if !self.has_unsent() {
            self.unsent_since = None;
        }
    }

    /// Whether something is on this disk that is not in the chain.
    pub(super) fn has_unsent(&self) -> bool {
        let is_manifest = self.manifest.as_ref().is_some_and(|it| it.number > self.in_chain);
        is_manifest || self.owes_erasure || self.unsent_bytes() > 0
    }

    /// Bytes of logs that are on this disk and not in the chain.
    pub(super) fn unsent_bytes(&self) -> u64 {
        self.logs.values().map(Log::unsent).sum()
    }

    /// Whether a record will name an object, as far as this is known here: of one that does, its maker knows.
    pub(super) fn is_live(&self, key: &DataKey) -> bool {
        let is_file = |sent: &Sent| !sent.is_named && sent.key == *key;
        let is_folding = |log: &Log| log.folding.as_ref().is_some_and(|own| own.key == *key);
        let is_fold = |log: &Log| log.folds.iter().any(|fold| fold.key == *key);
        self.naming.contains(key)
            || self.listed.contains(key)
            || self.left.values().any(|left| left.key == *key)
            || self.files.values().any(is_file)
            || self.logs.values().any(|log| is_folding(log) || is_fold(log))
    }
}

/// The names of the files that a manifest lists, and of indexes that go with them.
fn wanted(manifest: &Outline) -> BTreeSet<String> {
    let mut wanted: BTreeSet<String> =
        manifest.files.iter().map(|file| file.name.clone()).collect();
    let segments = wanted.iter().filter_map(|name| name.strip_prefix(SEGMENT));
    let indexes: Vec<String> =
        segments.filter_map(|number| number.parse().ok().map(index_name)).collect();
    wanted.extend(indexes);
    wanted
}

impl Log {
    pub(super) fn unsent(&self) -> u64 {
        if self.file.is_some() { self.mark.end.saturating_sub(self.sent) } else { 0 }
    }

    /// Where its objects end.
    pub(super) fn folded_to(&self) -> u64 {
        self.folds.last().map_or(0, |fold| fold.to)
    }
}

/// What a full record names: its files, and how far each log goes.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) files: BTreeSet<DataKey>,
    pub(super) logs: Vec<(u64, u64)>,
    pub(super) ends_erasure: bool,
}

impl Sent {
    /// Whether it is on just this way.
    pub(super) fn is_on(&self, way: &Way) -> bool {
        self.way.as_ref().is_some_and(|own| Arc::ptr_eq(&own.upload, &way.upload))
    }

    /// Whether it is an index that is there, and no full record names it yet.
    pub(super) fn is_new_index(&self, name: &str) -> bool {
        name.starts_with(INDEX) && self.way.is_none() && !self.is_named
    }

    /// As a record names it, once all of it is there.
    pub(super) fn named(&self, name: &str) -> Option<FarFile> {
        let Self { key, bytes, sha256, way, .. } = self;
        let sha256 = sha256.filter(|_| way.is_none())?;
        Some(FarFile { name: name.to_owned(), key: *key, bytes: *bytes, sha256 })
    }
}

/// Log bytes as a step brings them: where they are on this machine.
#[derive(Debug, Clone)]
pub(super) struct PieceOf {
    pub(super) number: u64,
    pub(super) first_seq: Seq,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) file: Arc<dyn DiskRead>,
}

impl PieceOf {
    /// Its bytes.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn read(&self) -> Result<Vec<u8>, engine::DiskError> {
        let length = usize::try_from(self.to - self.from).expect("a log fits memory");
        let mut bytes = vec![0; length];
        self.file.read_at(self.from, &mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use engine::DiskError;

    use super::*;

    /// A log that has nothing but its head.
    #[derive(Debug)]
    struct Empty;

    impl DiskRead for Empty {
        fn bytes(&self) -> u64 {
            64
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), DiskError> {
            Ok(())
        }
    }

    #[test]
    fn what_a_full_record_leaves_behind_waits_for_nothing() {
        let mut state = State::of_chain(&[]);
        let mark = LogMark { log: 16, first_seq: 1, end: 64, seq: 0 };
        state.began_log(mark, Box::new(Empty), Ticks(1));
        state.manifest = Some(Outline {
            bytes: Vec::new(),
            number: 21,
            floor: 19,
            files: Vec::new(),
            logs: Vec::new(),
            last_seq: 0,
            must_lead: false,
            ends_erasure: false,
        });
        assert!(state.has_unsent() && state.unsent_since.is_some());
        state.committed_full(
            21,
            &Named { files: BTreeSet::new(), logs: Vec::new(), ends_erasure: false },
            0,
        );
        assert!(!state.has_unsent());
        assert_eq!(state.unsent_since, None);
    }
}
