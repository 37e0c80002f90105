//! Data that the store has reported, and the part of it that is in the record log.
//!
//! The store updates this state under the shipper's lock, and both threads read it; there is no network access. A
//! repeated or late report changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use engine::Seq;
use engine::os::disk::{Disk, DiskRead};
use engine::replication_sink::{ListedFile, PublishedManifest, WalPosition, index_name};

use super::carried::Listed;
use crate::hex::{Hash, Hex};
use crate::names::DataKey;
use crate::parts::{self, Upload};
use crate::record::{FarFile, Fold, Kind, Record};
use crate::ticks::Ticks;

/// Name prefixes of index files and segment files.
pub(super) const INDEX: &str = "index-";
const SEGMENT: &str = "segment-";

/// Source of unused object keys.
pub(super) trait Keys {
    /// Returns a new key of this epoch.
    fn key(&self) -> DataKey;
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Logs that a reader of the record log needs or will need, by number.
    pub(super) logs: BTreeMap<u64, Log>,
    /// Files that are uploaded or being uploaded, by name.
    pub(super) files: BTreeMap<String, Sent>,
    /// Newest manifest that the store reported.
    pub(super) manifest: Option<Outline>,
    /// Number of the manifest in the newest full record; 0 before the first full record of this epoch.
    pub(super) in_chain: u64,
    /// Newest commit in the record log.
    pub(super) seq: Seq,
    /// Newest commit that may be visible: in the record log, or acknowledged before there was a record log.
    pub(super) shown: Seq,
    /// Time since which the local disk has data that is not in the record log.
    pub(super) unsent_since: Option<Ticks>,
    /// Objects of the record that is being made.
    pub(super) naming: BTreeSet<DataKey>,
    /// True if a full record must come before the next step.
    pub(super) full_first: bool,
    /// True if no full record states the newest erasure yet.
    pub(super) owes_erasure: bool,
    /// Uploads of the previous epoch whose file the store has not reported yet.
    left: BTreeMap<String, Listed>,
    /// Objects in the list on disk.
    listed: BTreeSet<DataKey>,
    /// True if the list on disk must be written again.
    pub(super) is_list_due: bool,
    /// Bytes uploaded since the list on disk was written.
    pub(super) unlisted: u64,
}

/// Progress of an append-only log.
#[derive(Debug)]
pub(super) struct Log {
    /// Local file; `None` if only the record log has the bytes.
    pub(super) file: Option<Arc<dyn DiskRead>>,
    /// Position up to which the log is on the local disk.
    pub(super) mark: WalPosition,
    /// Offset up to which the log is in the record log.
    pub(super) sent: u64,
    /// Log objects, contiguous from offset 0, and the newest commit in them.
    pub(super) folds: Vec<Fold>,
    pub(super) folded_seq: Seq,
    /// Log object that is being uploaded.
    pub(super) folding: Option<Folding>,
}

/// A run of log bytes that is being uploaded as a log object.
#[derive(Debug, Clone)]
pub(super) struct Folding {
    pub(super) key: DataKey,
    pub(super) from: u64,
    /// Position in the log at the end of the run.
    pub(super) to: WalPosition,
    pub(super) upload: Arc<Upload>,
}

/// Progress of an immutable file.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) key: DataKey,
    pub(super) bytes: u64,
    /// SHA-256 of the file; for an index, known only after the upload.
    pub(super) sha256: Option<Hash>,
    /// Upload in progress; `None` once the whole file is uploaded.
    pub(super) way: Option<Way>,
    /// True if the newest full record references the file.
    pub(super) is_named: bool,
}

/// An upload in progress.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) file: Arc<dyn DiskRead>,
    /// SHA-256 that the file must have, if its manifest states one.
    pub(super) sha256: Option<Hash>,
    pub(super) upload: Arc<Upload>,
}

/// Parts of a manifest that are needed after the manifest's files may be gone.
#[derive(Debug)]
pub(super) struct Outline {
    pub(super) bytes: Vec<u8>,
    pub(super) number: u64,
    pub(super) floor: u64,
    pub(super) files: Vec<ListedFile>,
    pub(super) logs: Vec<WalPosition>,
    pub(super) last_seq: Seq,
    pub(super) must_lead: bool,
    pub(super) ends_erasure: bool,
}

impl State {
    /// Builds the state from the records of the log. The first record is a full record or record 1.
    pub(super) fn of_chain(records: &[Record]) -> Self {
        let mut state = Self::default();
        records.iter().for_each(|record| state.learn(record));
        state.shown = state.seq;
        state
    }

    /// Makes the uploads of the previous epoch adoptable, until they are known to be unneeded.
    pub(super) fn resume(&mut self, left: BTreeMap<String, Listed>) {
        self.listed = left.values().map(|listed| listed.key).collect();
        self.is_list_due = !left.is_empty();
        self.left = left;
    }

    /// Returns the list to be written to disk: uploaded files that no record references. Until [`State::list_written`],
    /// the objects of both the old and the new list count as live.
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

    /// Notes that this list is on disk.
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
        let mark = WalPosition { log: number, first_seq, end: 0, seq: first_seq.saturating_sub(1) };
        self.logs.entry(number).or_insert(Log {
            file: None,
            mark,
            sent: 0,
            folds: Vec::new(),
            folded_seq: 0,
            folding: None,
        })
    }

    /// Adds a log that was created, or found when the store was opened.
    pub(super) fn began_log(&mut self, mark: WalPosition, file: Box<dyn DiskRead>, now: Ticks) {
        let log = self.known_log(mark.log, mark.first_seq);
        log.file = Some(file.into());
        self.synced(mark, now);
    }

    /// Notes that a log is on disk up to `mark`.
    pub(super) fn synced(&mut self, mark: WalPosition, now: Ticks) {
        let Some(log) = self.logs.get_mut(&mark.log) else { return };
        if mark.end > log.mark.end {
            log.mark = mark;
        }
        if log.mark.end > log.sent {
            self.unsent_since.get_or_insert(now);
        }
    }

    /// Adopts a published manifest. Files that are not uploaded yet are opened now, before they may be removed.
    ///
    /// # Errors
    /// A file cannot be opened; the manifest is then not adopted.
    pub(super) fn published(
        &mut self,
        published: &PublishedManifest<'_>,
        keys: &dyn Keys,
        now: Ticks,
    ) -> Result<(), engine::DiskError> {
        let listing = published.manifest;
        let known = self.manifest.as_ref().map_or(0, |known| known.number);
        if known >= listing.number() {
            return Ok(());
        }
        let files: Vec<ListedFile> = listing.files().collect();
        for file in &files {
            self.send(&file.name, (file.bytes, Some(Hex(file.sha256))), published.disk, keys)?;
        }
        // If no record contains the previous manifest yet, its flags pass to the manifest that replaces it.
        let pending = self.manifest.as_ref().filter(|_| known > self.in_chain);
        let (led, erased) = pending.map_or((false, false), |it| (it.must_lead, it.ends_erasure));
        self.manifest = Some(Outline {
            bytes: published.bytes.to_vec(),
            number: listing.number(),
            floor: listing.log_floor(),
            files,
            logs: published.logs.to_vec(),
            last_seq: published.last_seq,
            must_lead: led || published.is_barrier,
            ends_erasure: erased || published.completes_erasure,
        });
        if self.seq == 0 {
            // The commits were acknowledged before there was a record log.
            self.shown = self.shown.max(published.last_seq);
        }
        published.logs.iter().for_each(|&mark| self.synced(mark, now));
        self.unsent_since.get_or_insert(now);
        self.forget();
        Ok(())
    }

    /// Adds an index that has received its final name.
    ///
    /// # Errors
    /// The index cannot be opened.
    pub(super) fn indexed(
        &mut self,
        name: &str,
        disk: &dyn Disk,
        keys: &dyn Keys,
    ) -> Result<(), engine::DiskError> {
        let bytes = disk.open(name)?.bytes();
        self.send(name, (bytes, None), disk, keys)
    }

    /// Starts the upload of a file, unless the file is uploaded or being uploaded.
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

    /// Returns true if all live objects of this writer belong to the newest manifest, and none only to an earlier
    /// manifest.
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

    /// Forgets files that neither the newest manifest nor the one in the record log needs, and logs below both.
    fn forget(&mut self) {
        let Some(manifest) = &self.manifest else { return };
        let is_in_chain = manifest.number == self.in_chain;
        let listed = wanted(manifest);
        // Uploads that no manifest needs stop. Uploaded files stay until no record of this epoch references them.
        let goes = |name: &String, sent: &Sent| {
            !listed.contains(name) && (is_in_chain || sent.way.is_some())
        };
        self.files.retain(|name, sent| !goes(name, sent));
        if is_in_chain {
            self.logs = self.logs.split_off(&manifest.floor);
        }
    }

    /// Next file to upload.
    pub(super) fn next_file(&self) -> Option<(String, Way)> {
        // Small files come first: a manifest waits for all files, and no commit waits for a file.
        let on_way = self
            .files
            .iter()
            .filter_map(|(name, sent)| Some((sent.bytes, name, sent.way.as_ref()?)));
        on_way
            .min_by_key(|(bytes, name, _)| (*bytes, *name))
            .map(|(_, name, way)| (name.clone(), way.clone()))
    }

    /// Notes that a file is uploaded and has this hash.
    pub(super) fn file_sent(&mut self, name: &str, way: &Way, hash: Hash) {
        if let Some(sent) = self.files.get_mut(name)
            && sent.is_on(way)
        {
            (sent.sha256, sent.way) = (Some(hash), None);
        }
    }

    /// Next log object to upload.
    pub(super) fn next_fold(&self) -> Option<(u64, Arc<dyn DiskRead>, Folding)> {
        self.logs.iter().find_map(|(number, log)| {
            Some((*number, Arc::clone(log.file.as_ref()?), log.folding.clone()?))
        })
    }

    /// Notes that a log object is uploaded and has this hash.
    pub(super) fn folded(&mut self, number: u64, folding: &Folding, sha256: Hash) {
        let Some(log) = self.logs.get_mut(&number) else { return };
        if log.folding.as_ref().is_some_and(|own| own.key == folding.key) {
            let Folding { key, from, to, .. } = *folding;
            log.folds.push(Fold { key, from, to: to.end, sha256 });
            log.folded_seq = to.seq;
            log.folding = None;
        }
    }

    /// Applies a committed full record of this epoch.
    pub(super) fn committed_full(&mut self, number: u64, full: &Named, seq: Seq) {
        self.in_chain = number;
        self.full_first = false;
        self.owes_erasure &= !full.ends_erasure;
        // By now the store has reported all files of this epoch, so further uploads of the previous epoch are not
        // needed.
        mem::take(&mut self.left);
        self.is_list_due |= !self.listed.is_empty();
        for sent in self.files.values_mut() {
            sent.is_named = full.files.contains(&sent.key);
        }
        self.sent_to(&full.logs);
        // Logs that the record left out no longer count as unsent.
        self.forget();
        self.committed(seq);
    }

    /// Applies a committed step of this epoch. `logs` are pairs of a log's number and its end in the record log.
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

    /// Returns true if the local disk has data that is not in the record log.
    pub(super) fn has_unsent(&self) -> bool {
        let is_manifest = self.manifest.as_ref().is_some_and(|it| it.number > self.in_chain);
        is_manifest || self.owes_erasure || self.unsent_bytes() > 0
    }

    /// WAL bytes on the local disk that are not in the record log.
    pub(super) fn unsent_bytes(&self) -> u64 {
        self.logs.values().map(Log::unsent).sum()
    }

    /// Returns true if a later record will reference the object, as far as this state knows. Objects that a record
    /// already references are known to the maker of that record.
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

/// Names of the files that a manifest lists, and of the indexes of its segments.
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

    /// End offset of the log objects.
    pub(super) fn folded_to(&self) -> u64 {
        self.folds.last().map_or(0, |fold| fold.to)
    }
}

/// References of a full record: its files, and the end of each log.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) files: BTreeSet<DataKey>,
    pub(super) logs: Vec<(u64, u64)>,
    pub(super) ends_erasure: bool,
}

impl Sent {
    /// Returns true if exactly this upload of the file is in progress.
    pub(super) fn is_on(&self, way: &Way) -> bool {
        self.way.as_ref().is_some_and(|own| Arc::ptr_eq(&own.upload, &way.upload))
    }

    /// Returns true if the file is an uploaded index that no full record references yet.
    pub(super) fn is_new_index(&self, name: &str) -> bool {
        name.starts_with(INDEX) && self.way.is_none() && !self.is_named
    }

    /// Form in which a record references the file; `None` until the whole file is uploaded.
    pub(super) fn named(&self, name: &str) -> Option<FarFile> {
        let Self { key, bytes, sha256, way, .. } = self;
        let sha256 = sha256.filter(|_| way.is_none())?;
        Some(FarFile { name: name.to_owned(), key: *key, bytes: *bytes, sha256 })
    }
}

/// Location of a step's log bytes on the local disk.
#[derive(Debug, Clone)]
pub(super) struct PieceOf {
    pub(super) number: u64,
    pub(super) first_seq: Seq,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) file: Arc<dyn DiskRead>,
}

impl PieceOf {
    /// Reads the bytes.
    ///
    /// # Errors
    /// The local file cannot be read.
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

    /// A log that consists of its header only.
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
        let mark = WalPosition { log: 16, first_seq: 1, end: 64, seq: 0 };
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
