//! Writer of a ledger: opening, appending, checkpoints, syncs and new volumes.
//!
//! Invariant: after a failed write or sync nothing is written again (`failed`), because the content of the file is then
//! unknown. Invariant: `written >= synced`, both counted in bytes since the open.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checkpoint::{Anchor, Checkpoint, CheckpointSigner};
use super::entry::{EntryDraft, Hash, ReceiptId, entry_hash};
use super::error::{AppendError, DiskError, LedgerOpenError, ReadError};
use super::header::{VolumeHeader, chain_origin};
use super::layout::*;
use super::reader::LedgerReader;
use super::scan::{ChainHead, LedgerScan, ScanStep, Volume, VolumeScan, volume_path, volumes};
use super::{files, frame};
use crate::os::file_lock::FileLock;

/// Parameters for opening a ledger.
pub struct LedgerOptions {
    /// SHA-256 of the tenant's name.
    pub tenant: Hash,
    /// Signs the checkpoints.
    pub signer: Box<dyn CheckpointSigner>,
    /// Anchor stored outside the ledger, if any: a ledger that does not contain the anchor is rejected (LED-19).
    pub anchor: Option<Anchor>,
}

/// Proof that an entry was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Receipt id of the draft.
    pub receipt: ReceiptId,
    /// Sequence number of the entry, from 1.
    pub seq: u64,
    /// Hash of the entry.
    pub hash: Hash,
    /// Time of the decision, in microseconds.
    pub at_micros: u64,
}

/// Torn tail that was truncated when the ledger was opened (LED-18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TornTail {
    /// Sequence number of the last remaining entry.
    pub after_seq: u64,
    /// Number of removed bytes.
    pub bytes: u64,
}

/// Sync to be run outside the ledger's lock. Its outcome must be passed to [`Ledger::end_sync`].
#[must_use = "the ledger stays unsynced until the ticket is run and handed back"]
#[derive(Debug)]
pub struct SyncTicket {
    file: Arc<File>,
    path: PathBuf,
    written: u64,
    began_micros: u64,
}

/// Outcome of a [`SyncTicket`].
#[must_use = "the ledger must be told, above all of a failure"]
#[derive(Debug)]
pub struct SyncOutcome {
    written: u64,
    began_micros: u64,
    outcome: Result<(), DiskError>,
}

impl SyncTicket {
    /// Syncs the file; blocks until the disk has finished.
    pub fn run(self) -> SyncOutcome {
        let outcome = files::sync(&self.file, &self.path);
        SyncOutcome { written: self.written, began_micros: self.began_micros, outcome }
    }
}

/// Ledger of one tenant, open for appending. A directory has at most one writer in all processes.
pub struct Ledger {
    folder: PathBuf,
    _lock: FileLock,
    tenant: Hash,
    seal: Box<dyn CheckpointSigner>,
    torn: Option<TornTail>,
    volume_bytes_max: u64,

    pub(super) file: Arc<File>,
    volume: Volume,
    volumes: usize,
    chain: ChainHead,

    /// Entries since the last checkpoint, and the time of the first of these entries.
    unsigned: u64,
    unsigned_since: Option<u64>,
    /// Last checkpoint of this session, and the value of `written` after the checkpoint.
    checkpoint: Option<(Checkpoint, u64)>,
    synced_anchor: Option<Anchor>,

    written: u64,
    synced: u64,
    unsynced_since: Option<u64>,
    failed: Option<String>,
    frames: Vec<u8>,
}

impl Ledger {
    /// Opens or creates the ledger in `folder`. Reads the whole last volume, and headers and final checkpoints of the
    /// others. A torn tail is truncated (LED-18); damage is an error.
    pub fn open(folder: &Path, with: LedgerOptions) -> Result<Self, LedgerOpenError> {
        Self::open_sized(folder, with, VOLUME_BYTES_MAX)
    }

    /// Opens a ledger with volumes of at most `volume_bytes_max` bytes.
    pub(super) fn open_sized(
        folder: &Path,
        with: LedgerOptions,
        volume_bytes_max: u64,
    ) -> Result<Self, LedgerOpenError> {
        files::make_folder(folder)?;
        let lock =
            files::lock(folder)?.ok_or_else(|| LedgerOpenError::Locked(folder.to_owned()))?;
        files::remove_unfinished(folder)?;
        let found = volumes(folder)?;
        let tail = match found.last() {
            Some(last) => LedgerTail::read(&found, last.clone(), &with)?,
            None => LedgerTail::create(folder, &with)?,
        };
        let file = files::open_for_appending(&tail.volume.path)?;
        // Writes of an earlier process may not have reached the disk.
        files::sync(&file, &tail.volume.path)?;
        Ok(Self {
            folder: folder.to_owned(),
            _lock: lock,
            tenant: with.tenant,
            seal: with.signer,
            torn: tail.torn,
            volume_bytes_max,
            file: Arc::new(file),
            volume: tail.volume,
            volumes: found.len().max(1),
            chain: tail.chain,
            unsigned: tail.unsigned,
            unsigned_since: tail.unsigned_since,
            checkpoint: None,
            synced_anchor: tail.anchor,
            written: 0,
            synced: 0,
            unsynced_since: None,
            failed: None,
            frames: Vec::new(),
        })
    }

    /// Records an entry. On return, the operating system has the entry. `draft.at_micros` is also the time of the
    /// append.
    pub fn append(&mut self, draft: &EntryDraft<'_>) -> Result<Receipt, AppendError> {
        self.check_open()?;
        let now = draft.at_micros;
        // Sequence numbers cannot run out: at a million entries a second, 2^64 numbers last half a million years.
        let (seq, previous) = (self.chain.seq.saturating_add(1), self.chain.head);
        let body = draft.encode(seq, &previous)?;
        self.rotate_volume(now)?;
        self.frames.clear();
        if self.unsigned >= CHECKPOINT_ENTRIES_MAX {
            // Reached only if a crash came between the last entry that a checkpoint must cover and this checkpoint.
            self.push_checkpoint(now);
        }
        let hash = entry_hash(&body);
        frame::push(&mut self.frames, &body);
        self.chain = ChainHead { seq, head: hash };
        self.unsigned += 1;
        self.unsigned_since = earlier(self.unsigned_since, now);
        if self.unsigned >= CHECKPOINT_ENTRIES_MAX
            || is_due(self.unsigned_since, CHECKPOINT_AFTER_MICROS, now)
        {
            self.push_checkpoint(now);
        }
        self.write_frames(now)?;
        Ok(Receipt { receipt: draft.receipt, seq, hash, at_micros: now })
    }

    /// Writes a checkpoint if due, and begins a sync if due. Must be called at [`Ledger::due`] at the latest.
    pub fn tick(&mut self, now_micros: u64) -> Result<Option<SyncTicket>, AppendError> {
        self.check_open()?;
        if is_due(self.unsigned_since, CHECKPOINT_AFTER_MICROS, now_micros) {
            self.write_checkpoint(now_micros)?;
        }
        if is_due(self.unsynced_since, SYNC_AFTER_MICROS, now_micros) {
            self.begin_sync(now_micros)
        } else {
            Ok(None)
        }
    }

    /// Begins a sync of everything written so far; `None` if everything is on disk.
    pub fn begin_sync(&mut self, now_micros: u64) -> Result<Option<SyncTicket>, AppendError> {
        self.check_open()?;
        Ok((self.written > self.synced).then(|| SyncTicket {
            file: Arc::clone(&self.file),
            path: self.volume.path.clone(),
            written: self.written,
            began_micros: now_micros,
        }))
    }

    /// Records the outcome of a sync. A failed sync closes the ledger.
    pub fn end_sync(&mut self, done: SyncOutcome) -> Result<(), AppendError> {
        self.check_open()?;
        if let Err(disk) = done.outcome {
            return Err(self.close_with_error(disk));
        }
        self.record_synced(done.written);
        // Bytes written during the sync are younger than the beginning of the sync.
        self.unsynced_since = (self.written > self.synced).then_some(done.began_micros);
        Ok(())
    }

    /// Syncs everything written so far; blocks until the disk has finished.
    pub fn sync(&mut self) -> Result<(), AppendError> {
        match self.begin_sync(0)? {
            Some(ticket) => self.end_sync(ticket.run()),
            None => Ok(()),
        }
    }

    /// Signs all unsigned entries and syncs: afterwards a copy of the files verifies completely.
    pub fn sign_and_sync(&mut self, now_micros: u64) -> Result<(), AppendError> {
        self.check_open()?;
        self.write_checkpoint(now_micros)?;
        self.sync()
    }

    /// Signs all unsigned entries, syncs and releases the directory. Returns the anchor to store outside the ledger.
    pub fn close(mut self, now_micros: u64) -> Result<Option<Anchor>, AppendError> {
        self.sign_and_sync(now_micros)?;
        Ok(self.synced_anchor)
    }

    /// Time at which [`Ledger::tick`] is next needed, in microseconds; `None` if nothing is pending.
    pub fn due(&self) -> Option<u64> {
        let sync = self.unsynced_since.map(|since| since.saturating_add(SYNC_AFTER_MICROS));
        let sign = self.unsigned_since.map(|since| since.saturating_add(CHECKPOINT_AFTER_MICROS));
        sync.into_iter().chain(sign).min().filter(|_| self.failed.is_none())
    }

    /// Sequence number and hash of the last entry.
    pub fn head(&self) -> (u64, Hash) {
        (self.chain.seq, self.chain.head)
    }

    /// Last checkpoint on disk, as the anchor to store outside the ledger (LED-19).
    pub fn synced_anchor(&self) -> Option<Anchor> {
        self.synced_anchor
    }

    /// Returns true if everything appended is on disk.
    pub fn is_synced(&self) -> bool {
        self.written == self.synced
    }

    /// Failure that closed this ledger; `None` while the ledger accepts entries.
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Torn tail that was truncated when this ledger was opened.
    pub fn torn_tail(&self) -> Option<TornTail> {
        self.torn
    }

    /// Returns a reader of everything appended so far, for use outside the ledger's lock.
    pub fn reader(&self) -> Result<LedgerReader, ReadError> {
        LedgerReader::open_up_to(&self.folder, &self.volume.path, self.volume.bytes)
    }

    /// Returns a reader of everything on disk, for use outside the ledger's lock.
    pub fn synced_reader(&self) -> Result<LedgerReader, ReadError> {
        LedgerReader::open_up_to(&self.folder, &self.volume.path, self.synced_end().1)
    }

    /// Durable end of the ledger: first sequence number of the newest volume, and durable bytes of this volume.
    pub fn synced_end(&self) -> (u64, u64) {
        // All earlier volumes were synced before the newest was created.
        (self.volume.first_seq, self.volume.bytes - (self.written - self.synced))
    }

    fn check_open(&self) -> Result<(), AppendError> {
        self.failed.as_ref().map_or(Ok(()), |why| Err(AppendError::Closed(why.clone())))
    }

    fn close_with_error(&mut self, disk: DiskError) -> AppendError {
        self.failed = Some(disk.to_string());
        AppendError::Failed(disk)
    }

    fn write_checkpoint(&mut self, now: u64) -> Result<(), AppendError> {
        self.frames.clear();
        self.push_checkpoint(now);
        self.write_frames(now)
    }

    /// Adds a checkpoint to the frames to be written, unless the last entry already has a checkpoint.
    fn push_checkpoint(&mut self, now: u64) {
        if self.unsigned == 0 {
            return;
        }
        let checkpoint = Checkpoint::sign(
            self.seal.as_ref(),
            &self.tenant,
            self.chain.seq,
            self.chain.head,
            now,
        );
        frame::push(&mut self.frames, &checkpoint.encode());
        self.checkpoint = Some((checkpoint, self.written + self.frames.len() as u64));
        (self.unsigned, self.unsigned_since) = (0, None);
    }

    fn write_frames(&mut self, now: u64) -> Result<(), AppendError> {
        if self.frames.is_empty() {
            return Ok(());
        }
        files::write(&self.file, &self.volume.path, &self.frames)
            .map_err(|disk| self.close_with_error(disk))?;
        self.volume.bytes += self.frames.len() as u64;
        self.written += self.frames.len() as u64;
        self.unsynced_since = earlier(self.unsynced_since, now);
        Ok(())
    }

    fn record_synced(&mut self, written: u64) {
        self.synced = self.synced.max(written);
        if let Some((checkpoint, _)) =
            self.checkpoint.as_ref().filter(|(_, after)| *after <= self.synced)
        {
            self.synced_anchor = Some(checkpoint.anchor());
        }
    }

    /// Switches to a new volume if this volume has no room for another entry. Order: checkpoint, sync, new header.
    fn rotate_volume(&mut self, now: u64) -> Result<(), AppendError> {
        let is_fresh = self.volume.bytes == HEADER_BYTES as u64;
        if is_fresh || self.volume.bytes + APPEND_ROOM_BYTES <= self.volume_bytes_max {
            return Ok(());
        }
        if self.volumes >= VOLUMES_MAX {
            return Err(AppendError::Full);
        }
        self.write_checkpoint(now)?;
        self.sync()?;
        let first_seq = self.chain.seq.saturating_add(1);
        let header = VolumeHeader::new(first_seq, self.chain.head, self.tenant);
        let path = volume_path(&self.folder, first_seq);
        let file = files::create_volume(&self.folder, &path, &header.encode())
            .map_err(|disk| self.close_with_error(disk))?;
        self.file = Arc::new(file);
        self.volume = Volume { first_seq, path, bytes: HEADER_BYTES as u64 };
        self.volumes += 1;
        Ok(())
    }
}

/// Returns true if `after` has elapsed since `since`. After a clock that was set back the work is due: too early costs
/// a sync, too late breaks a promise.
fn is_due(since: Option<u64>, after: u64, now: u64) -> bool {
    since.is_some_and(|since| now < since || now - since >= after)
}

fn earlier(since: Option<u64>, now: u64) -> Option<u64> {
    Some(since.map_or(now, |since| since.min(now)))
}

/// State at the end of an opened ledger.
struct LedgerTail {
    volume: Volume,
    chain: ChainHead,
    unsigned: u64,
    unsigned_since: Option<u64>,
    anchor: Option<Anchor>,
    torn: Option<TornTail>,
}

impl LedgerTail {
    /// Creates the first volume of a new ledger.
    fn create(folder: &Path, with: &LedgerOptions) -> Result<Self, LedgerOpenError> {
        if let Some(anchor) = with.anchor.filter(|anchor| anchor.seq > 0) {
            return Err(LedgerOpenError::AnchorBroken { anchor_seq: anchor.seq, head_seq: 0 });
        }
        let head = chain_origin(&with.tenant);
        let path = volume_path(folder, 1);
        files::create_volume(folder, &path, &VolumeHeader::new(1, head, with.tenant).encode())?;
        let volume = Volume { first_seq: 1, path, bytes: HEADER_BYTES as u64 };
        let chain = ChainHead { seq: 0, head };
        Ok(Self { volume, chain, unsigned: 0, unsigned_since: None, anchor: None, torn: None })
    }

    /// Reads the last of the volumes `found`, and truncates a torn tail.
    fn read(found: &[Volume], last: Volume, with: &LedgerOptions) -> Result<Self, LedgerOpenError> {
        check_volume_links(found, &with.tenant)?;
        let mut walk = LedgerScan::open(vec![last.clone()])?;
        let mut tail = Self {
            volume: last,
            chain: chain_head(&walk),
            unsigned: 0,
            unsigned_since: None,
            anchor: None,
            torn: None,
        };
        // An anchor in an earlier volume is covered by `check_volume_links` and by `verify`.
        let mut anchor_met = with.anchor.is_none_or(|anchor| anchor.seq < tail.chain.seq);
        loop {
            tail.chain = chain_head(&walk);
            anchor_met |= with.anchor.is_some_and(|anchor| {
                (anchor.seq, anchor.head) == (tail.chain.seq, tail.chain.head)
            });
            match walk.step()? {
                ScanStep::Entry(entry) => {
                    tail.unsigned += 1;
                    tail.unsigned_since.get_or_insert(entry.at_micros);
                }
                ScanStep::Checkpoint(checkpoint) => {
                    (tail.unsigned, tail.unsigned_since) = (0, None);
                    tail.anchor = Some(checkpoint.anchor());
                }
                ScanStep::End => break,
                ScanStep::Torn { bytes } => {
                    tail.volume.bytes -= bytes;
                    tail.torn = Some(TornTail { after_seq: tail.chain.seq, bytes });
                    break;
                }
            }
        }
        if let Some(anchor) = with.anchor.filter(|_| !anchor_met) {
            return Err(LedgerOpenError::AnchorBroken {
                anchor_seq: anchor.seq,
                head_seq: tail.chain.seq,
            });
        }
        if tail.torn.is_some() {
            files::cut(&tail.volume.path, tail.volume.bytes)?;
        }
        Ok(tail)
    }
}

fn chain_head(walk: &LedgerScan) -> ChainHead {
    walk.volume().expect("a walk over one volume stays on it").chain
}

/// Checks that the volumes are consecutive, by their headers and final checkpoints (LED-05 to LED-07, LED-17).
fn check_volume_links(found: &[Volume], tenant: &Hash) -> Result<(), ReadError> {
    let mut before: Option<Checkpoint> = None;
    for (place, volume) in found.iter().enumerate() {
        let walk = VolumeScan::open(volume.clone())?;
        if walk.header.tenant != *tenant {
            return Err(walk.broken("LED-07", "the volume is another tenant's".into()));
        }
        if walk.header.write_version > WRITE_VERSION {
            return Err(ReadError::TooNew(walk.header.write_version));
        }
        if let Some(checkpoint) = before
            && (checkpoint.seq != walk.chain.seq || checkpoint.head != walk.chain.head)
        {
            return Err(walk
                .broken("LED-06", "the volume does not go on where the one before ended".into()));
        }
        let is_last = place + 1 == found.len();
        before = if is_last { None } else { Some(walk.last_checkpoint()?) };
    }
    Ok(())
}
