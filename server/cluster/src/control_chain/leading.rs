//! Leader epoch of the metastore: each change is a step record, and from time to time all tables are a full record.
//!
//! Owns the epoch writer and the current log. Must not know whether another node may acquire the metastore.

use std::cell::RefCell;

use engine::os::disk::FsDisk;
use recalld_replication::core::{
    Collected, Collector, Committed, Fenced, Holder, Noted, Retention, Stamp,
};
use recalld_replication::limits::{
    INLINE_BYTES_MAX, PART_BYTES, STEP_BYTES_MAX, STEP_BYTES_WANTED, STEPS_MAX, STEPS_WANTED,
};
use recalld_replication::{
    Away, Bytes, DataKey, FarFile, FarLog, Fold, Full, Hash, Kind, LogPiece, Nonce, NotSeated,
    Shelf, Ticks, Upload, hash_of,
};
use zeroize::Zeroizing;

use super::place::{self, Place, Tables, tables_name};
use super::rows::{self, Writing};
use super::sealed::Stands;
use super::shared::Shared;
use recalld_metastore::{Control, ControlError, OPERATIONS_BYTES_MAX, Operations};

/// Retention behind the newest full record: time for a reader that is reading now.
const KEPT: Retention =
    Retention { full: std::time::Duration::from_secs(3600), fine: std::time::Duration::ZERO };
/// Large tables are written again once this many times the bytes of steps reach the bytes of the tables.
const STEPS_SHARE: usize = 4;
/// Maximum bytes of frames behind a copy of the tables, until its record is written. Beyond them the tables are copied
/// again.
pub(super) const SINCE_BYTES_MAX: usize = 32 << 20;
/// Maximum rounds in which such frames are uploaded before the record. Each round leaves fewer new frames.
const FOLDS_EACH_MAX: usize = 8;

/// A leader epoch of this node.
pub(super) struct Lead {
    holder: Holder,
    /// Newest record, and the position of the metastore with it.
    place: Place,
    /// Frames committed since the copy of the tables began.
    since: Option<Since>,
    /// Bytes of the tables at their last upload.
    tables_bytes: usize,
    /// Records not yet reported to the garbage collector.
    noted: Vec<Noted>,
    /// Objects that the next record will name.
    naming: Vec<DataKey>,
    is_over: bool,
    /// True if the local file has other rows than those committed to the record log.
    differs: bool,
}

/// Frames behind a copy of the tables.
struct Since {
    seq: u64,
    /// Uploaded objects with the first frames.
    folds: Vec<Fold>,
    /// Frames behind those objects.
    frames: Vec<u8>,
}

impl Since {
    fn folded(&self) -> u64 {
        self.folds.last().map_or(0, |fold| fold.to)
    }

    fn is_too_much(&self) -> bool {
        let folded = usize::try_from(self.folded()).unwrap_or(usize::MAX);
        folded.saturating_add(self.frames.len()) > SINCE_BYTES_MAX
    }
}

impl Lead {
    pub(super) fn new(holder: Holder, place: Place) -> Self {
        let (since, noted, naming) = (None, Vec::new(), Vec::new());
        let (is_over, differs) = (false, false);
        Self { holder, place, since, tables_bytes: 0, noted, naming, is_over, differs }
    }

    /// Returns true if another node is the leader, or the outcome of a write is unknown.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Time just before the newest record was sent.
    pub(super) fn known(&self) -> Ticks {
        self.holder.known()
    }

    /// Returns true if a record names the object or is about to, and no garbage collection knows of the record.
    fn needs(&self, key: &DataKey) -> bool {
        self.naming.contains(key) || self.noted.iter().any(|noted| noted.keys.contains(key))
    }

    /// Returns true if a full record is due.
    pub(super) fn wants_full(&self) -> bool {
        let behind = self.place.mark.behind;
        let is_much = behind.bytes.saturating_mul(STEPS_SHARE) >= self.tables_bytes;
        self.place.mark.head.base == 0
            || behind.bytes >= STEP_BYTES_WANTED
            || behind.steps >= STEPS_MAX / 2
            || (behind.steps >= STEPS_WANTED && is_much)
    }

    /// Returns true if the rows of the local file differ from those of the record log.
    pub(super) fn differs(&self) -> bool {
        self.differs
    }

    /// Returns true if no change can be committed before a full record.
    pub(super) fn is_stuck(&self) -> bool {
        let behind = self.place.mark.behind;
        let is_much = behind.bytes >= STEP_BYTES_MAX || behind.steps >= STEPS_MAX;
        is_much || self.place.mark.head.base == 0
    }

    /// Commits a change to the record log. Returns the encoded position of a metastore with the change applied.
    pub(super) fn carry(
        &mut self,
        shared: &Shared,
        operations: &Operations,
    ) -> Result<Vec<u8>, ControlError> {
        if operations.bytes().len() > OPERATIONS_BYTES_MAX {
            return Err(ControlError::far("a change is larger than other nodes can take at once"));
        }
        let seq = self.place.mark.head.seq + 1;
        let mut digest = self.place.digest();
        digest.add(&operations.turned());
        let digest = place::hash_of(digest);
        let body = Zeroizing::new([&digest.0[..], operations.bytes()].concat());
        let frame = shared.seals.seal(Stands::Commit(seq), &body, &*shared.with.random);
        let frame = frame.map_err(ControlError::far)?;
        let (number, from) = (self.place.log, self.place.to);
        let to = from + frame.len() as u64;
        let bytes = match frame.len() <= INLINE_BYTES_MAX {
            true => Bytes::Here(frame.clone()),
            false => self.object(shared, &frame)?,
        };
        let piece = LogPiece { number, first_seq: number, from, to, bytes };
        self.commit(shared, Kind::Step(vec![piece]), seq)?;
        if let Some(since) = &mut self.since {
            since.frames.extend_from_slice(&frame);
        }
        self.since.take_if(|since| since.is_too_much());
        (self.place.to, self.place.digest) = (to, digest);
        Ok(self.place.bytes())
    }

    /// Uploads a frame that is too long for a record.
    fn object(&mut self, shared: &Shared, frame: &[u8]) -> Result<Bytes, ControlError> {
        let key = self.key(shared);
        let put = put_object(shared, key, frame);
        put.map_err(|away| ControlError::far(format!("the remote took no change: {away}")))?;
        Ok(Bytes::Object { key, sha256: Hash::of(frame) })
    }

    /// Draws the key of a new object.
    fn key(&mut self, shared: &Shared) -> DataKey {
        let nonce = Nonce::drawn(&*shared.with.random);
        let key = DataKey { epoch: self.holder.epoch(), nonce };
        self.naming.push(key);
        key
    }

    /// Appends a record. If the outcome is unknown, the epoch is over: the next leader reads the record first.
    fn commit(&mut self, shared: &Shared, kind: Kind, seq: u64) -> Result<(), ControlError> {
        let with = &shared.with;
        let stamp = Stamp { at: with.clock.now().0, nonce: Nonce::drawn(&*with.random) };
        let holder = &mut self.holder;
        let committed = with
            .driver
            .run(&shared.tenant, async |port| holder.commit(&port, kind, seq, stamp).await);
        let (is_over, why) = match committed {
            Some(Committed::Done(noted)) => {
                self.noted.push(noted);
                self.place.mark = self.holder.newest().clone();
                let mut known = shared.known();
                known.at = Some(self.place.mark.head.clone());
                known.leads = known.leads.map(|_| self.holder.known());
                return Ok(());
            }
            Some(Committed::FullFirst) => (false, "a copy of all tables is due first".to_owned()),
            Some(Committed::Refused(why)) => (false, format!("the remote refuses it: {why}")),
            Some(Committed::Wrong(damage)) => (false, damage.to_string()),
            Some(Committed::Unsure(why)) => (
                true,
                format!(
                    "the remote did not say whether it has it, so it may be done or not ({why}); look first"
                ),
            ),
            Some(Committed::Given) => (true, "it was given away".to_owned()),
            Some(Committed::Fenced(Fenced::By(head))) => {
                (true, format!("node {} writes the control store by now", head.node))
            }
            Some(Committed::Fenced(_)) => {
                (true, "another node writes the control store".to_owned())
            }
            None => (true, "it was called off, so it may be done or not".to_owned()),
        };
        self.is_over |= is_over;
        Err(ControlError::far(format!("the control store was not changed: {why}")))
    }

    /// Ends the epoch with a release record.
    pub(super) fn give(&mut self, shared: &Shared) -> Result<(), ControlError> {
        let seq = self.place.mark.head.seq;
        self.commit(shared, Kind::Give { to: None }, seq)
    }

    /// Starts a log behind the commit as of which the tables are copied. Returns that commit's number.
    fn begin_log(&mut self) -> u64 {
        let seq = self.place.mark.head.seq;
        self.since = Some(Since { seq, folds: Vec::new(), frames: Vec::new() });
        (self.place.log, self.place.to) = (seq + 1, 0);
        seq
    }

    fn commit_full(
        &mut self,
        shared: &Shared,
        seq: u64,
        file: FarFile,
    ) -> Result<(), ControlError> {
        let since = self.since.take().filter(|since| since.seq == seq);
        let since = since.filter(|since| since.frames.len() <= INLINE_BYTES_MAX);
        let since = since.ok_or_else(too_much)?;
        let manifest = Tables::new(seq, self.place.digest).bytes();
        let Since { folds, frames: rest, .. } = since;
        let log = FarLog { number: seq + 1, first_seq: seq + 1, folds, rest };
        self.tables_bytes = usize::try_from(file.bytes).unwrap_or(usize::MAX);
        let full = Full { manifest, files: vec![file], logs: vec![log], erased: 0 };
        let newest = self.place.mark.head.seq;
        self.commit(shared, Kind::Full(full), newest)
    }
}

fn too_much() -> ControlError {
    ControlError::far("too much was changed while its tables were copied")
}

fn put_object(shared: &Shared, key: DataKey, bytes: &[u8]) -> Result<(), Away> {
    let parts = bytes.chunks(usize::try_from(PART_BYTES).unwrap_or(usize::MAX));
    (0..).zip(parts).try_for_each(|(part, bytes)| {
        let name = recalld_replication::Key::Data(shared.tenant.clone(), key, part);
        shared.with.driver.objects.put(&name, bytes)
    })
}

/// Uploads frames that were committed while the tables were copied, if they are too long for the record. Changes
/// continue meanwhile; each upload leaves fewer new frames.
fn fold(shared: &Shared, seq: u64) -> Result<(), ControlError> {
    for _ in 0..FOLDS_EACH_MAX {
        let (key, from, frames) = {
            let mut lead = shared.lead();
            let lead = lead.as_mut().ok_or_else(lost)?;
            let since =
                lead.since.as_ref().filter(|since| since.seq == seq).ok_or_else(too_much)?;
            if since.frames.len() <= INLINE_BYTES_MAX / 2 {
                return Ok(());
            }
            let (from, frames) = (since.folded(), since.frames.clone());
            (lead.key(shared), from, frames)
        };
        put_object(shared, key, &frames).map_err(|away| ControlError::far(away.to_string()))?;
        let mut lead = shared.lead();
        let lead = lead.as_mut().ok_or_else(lost)?;
        let since = lead.since.as_mut().filter(|since| since.seq == seq).ok_or_else(too_much)?;
        let (to, sha256) = (from + frames.len() as u64, Hash::of(&frames));
        since.frames.drain(..frames.len());
        since.folds.push(Fold { key, from, to, sha256 });
    }
    Ok(())
}

fn lost() -> ControlError {
    ControlError::far("another node writes the control store")
}

/// Uploads all tables and writes the record that names them. Changes continue meanwhile.
pub(super) fn make_full(shared: &Shared, control: &Control) -> Result<(), String> {
    let disk = FsDisk::open(&shared.folder).map_err(|error| error.to_string())?;
    let made = full_from(shared, control, &disk);
    rows::forget(&disk);
    if let Some(lead) = shared.lead().as_mut() {
        lead.naming.clear();
    }
    made
}

fn full_from(shared: &Shared, control: &Control, disk: &FsDisk) -> Result<(), String> {
    let writing: RefCell<Option<Writing<'_>>> = RefCell::new(None);
    let sealing = (&shared.seals, &*shared.with.random);
    let (mut seq, mut wanted) = (0, None);
    let copied = control.copy_state(
        &mut || {
            let mut lead = shared.lead();
            let lead = lead.as_mut().ok_or_else(lost)?;
            seq = lead.begin_log();
            wanted = Some(lead.place.digest());
            let begun = Writing::begin(disk, seq, sealing).map_err(ControlError::far)?;
            *writing.borrow_mut() = Some(begun);
            Ok(())
        },
        &mut |table, key, value| {
            let mut writing = writing.borrow_mut();
            let row = writing.as_mut().map_or(Ok(()), |writing| writing.row(table, key, value));
            row.map_err(ControlError::far)
        },
    );
    let digest = copied.map_err(|error| error.to_string())?;
    if Some(digest) != wanted {
        shared.lead().as_mut().into_iter().for_each(|lead| lead.differs = true);
        return Err("the rows of the control store are not those that were carried".to_owned());
    }
    writing.into_inner().map_or(Ok(()), Writing::end)?;
    let file = rows::written(disk)?;
    let bytes = file.bytes();
    let sha256 = hash_of(&*file, 0, bytes).map_err(|why| why.to_string())?;
    let key = {
        let mut lead = shared.lead();
        lead.as_mut().ok_or_else(lost).map_err(|why| why.to_string())?.key(shared)
    };
    let shelf = Shelf { objects: &*shared.with.driver.objects, tenant: &shared.tenant };
    let goes_on = || shared.lead_goes_on();
    Upload::new(key, 0, bytes)
        .send(shelf, &*file, &goes_on, &|_| ())
        .map_err(|why| why.to_string())?;
    let file = FarFile { name: tables_name(seq), key, bytes, sha256 };
    fold(shared, seq).map_err(|why| why.to_string())?;
    let mut lead = shared.lead();
    let leads = lead.as_mut().ok_or_else(lost);
    let done = leads.and_then(|leads| leads.commit_full(shared, seq, file));
    shared.drop_if_over(lead);
    done.map_err(|why| why.to_string())?;
    let place = || shared.lead().as_ref().map(|lead| lead.place.bytes());
    control.keep_place(&place).map_err(|why| why.to_string())
}

/// Garbage collector of the current epoch; keeps its state between two collections.
pub(super) fn collector(shared: &Shared) -> Option<Collector> {
    shared.lead().as_ref().map(|lead| Collector::new(lead.holder.epoch(), KEPT))
}

/// Removes records and objects that are no longer needed. Changes continue meanwhile.
pub(super) fn collect(shared: &Shared, collector: &mut Collector) -> Result<(), String> {
    let (epoch, noted) = match shared.lead().as_mut() {
        Some(lead) => (lead.holder.epoch(), std::mem::take(&mut lead.noted)),
        None => return Ok(()),
    };
    let now = shared.now();
    noted.into_iter().for_each(|noted| collector.note(noted, now));
    // Objects of an ended epoch may be named by a record whose outcome its writer never learned: retain them all.
    let is_over = |lead: &Lead| lead.holder.epoch() != epoch;
    let is_live =
        |key: &DataKey| shared.lead().as_ref().is_none_or(|lead| is_over(lead) || lead.needs(key));
    let at = shared.with.clock.now().0;
    let driver = &shared.with.driver;
    let done =
        driver.run(&shared.tenant, async |port| collector.collect(&port, at, &is_live).await);
    let done = done.unwrap_or_else(|| Ok(Collected::default()));
    done.map(drop).map_err(|lost| NotSeated::from(lost).to_string())
}
