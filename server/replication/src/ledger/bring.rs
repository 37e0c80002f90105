//! Upload of a ledger from disk to object storage.
//!
//! Owns the position of the remote copy. A single caller uploads for all callers that wait meanwhile. Must not know the
//! format of an entry.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use engine::os::clock::Random;

use super::memo;
use super::there::{NotFetched, Sorted, piece_bytes, pieces_of, sort};
use crate::driver::Driver;
use crate::hex::Nonce;
use crate::limits::{
    LEDGER_PIECE_BYTES_MAX, PAUSE_MAX, PAUSE_MIN, SMALL_PIECE_BYTES, SMALL_PIECES_MAX,
};
use crate::names::{Key, LedgerPiece, NodeId, Tenant};
use crate::objects::Away;

/// A file of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerVolume {
    /// Sequence number of the first entry.
    pub first_seq: u64,
    /// Path of the file.
    pub path: PathBuf,
    /// Durable bytes of the file.
    pub bytes: u64,
}

/// Local ledger, as the source of an upload.
pub trait LedgerSource: Send + Sync {
    /// Volumes of the ledger, oldest first; empty while there is no entry (REM-83).
    ///
    /// # Errors
    /// The volumes cannot be listed, for this reason.
    fn volumes(&self) -> Result<Vec<LedgerVolume>, String>;
}

/// Error of an incomplete upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotBrought {
    /// Message for users.
    pub why: String,
    /// True if a retry may succeed.
    pub may_pass: bool,
}

impl fmt::Display for NotBrought {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for NotBrought {}

impl From<Away> for NotBrought {
    fn from(Away { why, may_pass }: Away) -> Self {
        Self { why, may_pass }
    }
}

impl From<String> for NotBrought {
    fn from(why: String) -> Self {
        Self { why, may_pass: false }
    }
}

/// Uploader of this node's ledger of a workspace.
pub struct LedgerBringer {
    driver: Driver,
    tenant: Tenant,
    node: NodeId,
    /// Directory of the workspace.
    home: PathBuf,
    random: Arc<dyn Random>,
    source: OnceLock<Weak<dyn LedgerSource>>,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    /// Position of the remote copy; `None` while a caller uploads, and before the first upload.
    at: Option<At>,
    is_busy: bool,
    /// Farthest requested end: volume, and bytes of the volume.
    wanted: (u64, u64),
    /// End of the remote copy.
    there: (u64, u64),
    trouble: Option<String>,
    begun_anew: Option<String>,
}

/// Position of the remote copy of a ledger.
#[derive(Debug)]
struct At {
    lineage: Nonce,
    volume: u64,
    to: u64,
    /// Local path of that volume, once a piece of it was uploaded.
    path: Option<PathBuf>,
    /// Last pieces of that volume, which may still be compacted.
    pieces: Vec<LedgerPiece>,
}

impl fmt::Debug for LedgerBringer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerBringer").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl LedgerBringer {
    /// Creates the uploader of the ledger that `node` writes for `tenant`, in the directory `home`. Sends no request
    /// yet.
    #[must_use]
    pub fn new(
        driver: Driver,
        (tenant, node): (Tenant, NodeId),
        home: &Path,
        random: Arc<dyn Random>,
    ) -> Self {
        let (source, inner, changed) = (OnceLock::new(), Mutex::default(), Condvar::new());
        Self { driver, tenant, node, home: home.to_owned(), random, source, inner, changed }
    }

    /// Workspace of the ledger.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Sets the source; only the first call has an effect.
    pub fn of(&self, source: Weak<dyn LedgerSource>) {
        let _the_first_one_counts = self.source.set(source);
    }

    /// Last error, until an upload succeeds.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.inner().trouble.clone()
    }

    /// Takes the reason why a new remote ledger was started beside an existing one, if any.
    #[must_use]
    pub fn take_begun_anew(&self) -> Option<String> {
        self.inner().begun_anew.take()
    }

    /// Uploads everything that is on disk now, for at most `wait`.
    ///
    /// # Errors
    /// The upload is incomplete; its last piece may or may not be stored.
    pub fn bring_all(&self, wait: Duration) -> Result<(), NotBrought> {
        let volumes = self.volumes()?;
        let end = volumes.last().map_or((0, 0), |last| (last.first_seq, last.bytes));
        self.bring(end, wait)
    }

    /// Uploads the ledger up to `end`: the first entry of a volume, and bytes of that volume.
    ///
    /// # Errors
    /// The upload is incomplete after `wait`, or at once if a retry cannot succeed; its last piece may or may not be
    /// stored.
    pub fn bring(&self, end: (u64, u64), wait: Duration) -> Result<(), NotBrought> {
        let begun = self.driver.ticks.now();
        let mut pause = PAUSE_MIN;
        loop {
            let left = wait.saturating_sub(self.driver.ticks.now() - begun);
            let Some(at) = self.turn(end, left)? else { return Ok(()) };
            let why = match self.bring_in_turn(at) {
                Err(why) => why,
                Ok(()) if self.inner().there >= end => return Ok(()),
                Ok(()) => {
                    let why = "the ledger here ends before what was to be brought".to_owned();
                    return Err(why.into());
                }
            };
            let left = wait.saturating_sub(self.driver.ticks.now() - begun);
            if !why.may_pass || left.is_zero() || self.driver.halt.wait(pause.min(left)) {
                return Err(why);
            }
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn volumes(&self) -> Result<Vec<LedgerVolume>, NotBrought> {
        let source = self.source.get().and_then(Weak::upgrade);
        let source = source.ok_or_else(|| "the ledger is closed".to_owned())?;
        Ok(source.volumes()?)
    }

    /// Waits for the upload of `end`, or for the turn to upload; `None` once `end` is uploaded.
    fn turn(&self, end: (u64, u64), left: Duration) -> Result<Option<Option<At>>, NotBrought> {
        let mut inner = self.inner();
        // The caller with the next turn uploads for this one, too.
        inner.wanted = inner.wanted.max(end);
        let is_waiting = |inner: &mut Inner| inner.is_busy && inner.there < end;
        let waited = self.changed.wait_timeout_while(inner, left, is_waiting);
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if inner.there >= end {
            return Ok(None);
        }
        if inner.is_busy {
            let why = inner.trouble.clone();
            let why = why.unwrap_or_else(|| "the remote took too long".to_owned());
            return Err(NotBrought { why, may_pass: true });
        }
        inner.is_busy = true;
        inner.wanted = inner.wanted.max(end);
        Ok(Some(inner.at.take()))
    }

    fn bring_in_turn(&self, at: Option<At>) -> Result<(), NotBrought> {
        let _ends_with_this = Turn(self);
        let (mut at, mut done) = (at, Ok(()));
        let wanted = self.inner().wanted;
        // A volume that only grew needs no listing; the directory is listed again when a new volume starts.
        let grown = at.as_ref().and_then(|at| at.grown(wanted));
        let volumes = grown.map_or_else(|| self.volumes(), |grown| Ok(vec![grown]));
        match volumes {
            Err(why) => done = Err(why),
            Ok(volumes) => {
                if at.is_none() {
                    match self.begin(&volumes) {
                        Ok(begun) => at = Some(begun),
                        Err(why) => done = Err(why),
                    }
                }
                if let Some(at) = &mut at {
                    done = self.send(at, &volumes);
                }
            }
        }
        let mut inner = self.inner();
        inner.trouble = done.as_ref().err().map(ToString::to_string);
        if done.is_err() {
            // Drop the requested end: an end that cannot be uploaded must not fail later, smaller uploads.
            inner.wanted = (0, 0);
        }
        if let Some(at) = &at {
            inner.there = (at.volume, at.to);
        }
        inner.at = at;
        done
    }

    /// Resume position: the end of the remote copy if it is a prefix of the local ledger, otherwise a new ledger
    /// (REM-81).
    fn begin(&self, volumes: &[LedgerVolume]) -> Result<At, NotBrought> {
        if let Some(lineage) = memo::read(&self.home)? {
            match self.go_on(lineage, volumes)? {
                Ok(at) => return Ok(at),
                Err(why) => self.inner().begun_anew = Some(why),
            }
        }
        let lineage = Nonce::drawn(&*self.random);
        memo::write(&self.home, lineage).map_err(|error| error.to_string())?;
        Ok(At::nothing(lineage))
    }

    /// Position in the existing remote ledger, or the reason why that ledger differs from the local one.
    fn go_on(
        &self,
        lineage: Nonce,
        volumes: &[LedgerVolume],
    ) -> Result<Result<At, String>, NotBrought> {
        let objects = &*self.driver.objects;
        let there = pieces_of(objects, (&self.tenant, &self.node, lineage))?;
        let sorted: BTreeMap<u64, Sorted> =
            there.iter().map(|(&volume, pieces)| (volume, sort(pieces))).collect();
        for piece in to_compare(&sorted) {
            if let Some(why) = self.differs(&piece, volumes)? {
                return Ok(Err(why));
            }
        }
        // Remove only after the comparison: no piece of a different ledger may be removed.
        for superfluous in sorted.values().map(|sorted| &sorted.superfluous) {
            self.remove(superfluous)?;
        }
        // If there is a gap, everything behind it is uploaded again.
        let is_broken = |(_, sorted): &(&u64, &Sorted)| sorted.hole.is_some();
        let Some((&volume, sorted)) = sorted.iter().find(is_broken).or(sorted.last_key_value())
        else {
            return Ok(Ok(At::nothing(lineage)));
        };
        let is_large = |piece: &LedgerPiece| piece.bytes() == LEDGER_PIECE_BYTES_MAX;
        let large = sorted.counting.iter().rposition(is_large).map_or(0, |at| at + 1);
        let pieces = sorted.counting[large..].to_vec();
        Ok(Ok(At { lineage, volume, to: sorted.end(), path: None, pieces }))
    }

    /// Returns the reason why a piece does not match the local ledger, if it does not.
    fn differs(
        &self,
        piece: &LedgerPiece,
        volumes: &[LedgerVolume],
    ) -> Result<Option<String>, NotBrought> {
        let LedgerPiece { volume, from, to, .. } = *piece;
        let here = volumes.iter().find(|here| here.first_seq == volume);
        let Some(here) = here.filter(|here| here.bytes >= to) else {
            return Ok(Some(format!("less than {to} bytes of volume {volume} are here")));
        };
        match piece_bytes(&*self.driver.objects, &self.key(piece), piece) {
            Ok(there) if there == bytes_of(here, from, to)? => Ok(None),
            Ok(_) => Ok(Some(format!("volume {volume} has other bytes here from {from}"))),
            Err(NotFetched::Away(away)) => Err(away.into()),
            Err(why) => Ok(Some(why.to_string())),
        }
    }

    fn key(&self, piece: &LedgerPiece) -> Key {
        Key::Ledger(self.tenant.clone(), self.node.clone(), *piece)
    }

    fn remove(&self, pieces: &[LedgerPiece]) -> Result<(), Away> {
        let keys: Vec<Key> = pieces.iter().map(|piece| self.key(piece)).collect();
        if keys.is_empty() { Ok(()) } else { self.driver.objects.remove(&keys) }
    }

    /// Uploads local bytes that are missing in the remote copy.
    fn send(&self, at: &mut At, volumes: &[LedgerVolume]) -> Result<(), NotBrought> {
        let first = at.volume;
        for here in volumes.iter().filter(|here| here.first_seq >= first) {
            if here.first_seq > at.volume {
                at.pieces.clear();
                (at.volume, at.to) = (here.first_seq, 0);
            }
            at.path = Some(here.path.clone());
            while at.to < here.bytes {
                let to = here.bytes.min(at.to + LEDGER_PIECE_BYTES_MAX);
                let (lineage, volume) = (at.lineage, at.volume);
                let piece = LedgerPiece { lineage, volume, from: at.to, to };
                self.put(here, &piece)?;
                at.to = to;
                at.pieces.push(piece);
                self.join(at, here)?;
            }
        }
        Ok(())
    }

    fn put(&self, here: &LedgerVolume, piece: &LedgerPiece) -> Result<(), NotBrought> {
        let bytes = bytes_of(here, piece.from, piece.to)?;
        Ok(self.driver.objects.put(&self.key(piece), &bytes)?)
    }

    /// Compacts many small pieces into one.
    fn join(&self, at: &mut At, here: &LedgerVolume) -> Result<(), NotBrought> {
        let Some(range) = to_join(&at.pieces) else { return Ok(()) };
        let few = &at.pieces[range.clone()];
        let (Some(first), Some(last)) = (few.first(), few.last()) else { return Ok(()) };
        let joined = LedgerPiece { to: last.to, ..*first };
        if few.len() > 1 {
            self.put(here, &joined)?;
            self.remove(few)?;
        }
        let is_done = joined.bytes() >= LEDGER_PIECE_BYTES_MAX - SMALL_PIECE_BYTES;
        at.pieces.splice(range, (!is_done).then_some(joined));
        Ok(())
    }
}

impl At {
    fn nothing(lineage: Nonce) -> Self {
        Self { lineage, volume: 0, to: 0, path: None, pieces: Vec::new() }
    }

    /// Current volume extended to `end`, if `end` is in that volume.
    fn grown(&self, (volume, bytes): (u64, u64)) -> Option<LedgerVolume> {
        let path = self.path.clone().filter(|_| volume == self.volume)?;
        Some(LedgerVolume { first_seq: volume, path, bytes })
    }
}

/// Turn of an uploading caller. The drop of a turn starts the next one, even after a panic.
struct Turn<'a>(&'a LedgerBringer);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.inner().is_busy = false;
        self.0.changed.notify_all();
    }
}

/// Pieces to compare, to see that the remote ledger is the local one (REM-81). Each entry has the hash of the entry
/// before, so if the ends are equal, all before is equal. Pieces behind a gap, and redundant pieces, may belong to
/// another ledger and are compared, too.
fn to_compare(there: &BTreeMap<u64, Sorted>) -> Vec<LedgerPiece> {
    let mut pieces = Vec::new();
    let mut is_behind_hole = false;
    for (&volume, sorted) in there {
        let is_last = there.last_key_value().is_some_and(|(&last, _)| last == volume);
        is_behind_hole |= sorted.hole.is_some();
        let last = sorted.counting.last().filter(|_| is_last || is_behind_hole);
        pieces.extend(last.into_iter().chain(&sorted.other).chain(&sorted.superfluous));
    }
    pieces
}

/// Range of these consecutive pieces to compact into one.
fn to_join(pieces: &[LedgerPiece]) -> Option<std::ops::Range<usize>> {
    let sum: u64 = pieces.iter().map(LedgerPiece::bytes).sum();
    if sum >= LEDGER_PIECE_BYTES_MAX {
        let mut bytes = 0;
        let fits = |piece: &&LedgerPiece| {
            bytes += piece.bytes();
            bytes <= LEDGER_PIECE_BYTES_MAX
        };
        return Some(0..pieces.iter().take_while(fits).count().max(1));
    }
    let is_small = |piece: &&LedgerPiece| piece.bytes() < SMALL_PIECE_BYTES;
    let small = pieces.iter().rev().take_while(is_small).count();
    (small >= SMALL_PIECES_MAX).then(|| pieces.len() - small..pieces.len())
}

fn bytes_of(here: &LedgerVolume, from: u64, to: u64) -> Result<Vec<u8>, NotBrought> {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(&here.path)?;
        file.seek(SeekFrom::Start(from))?;
        let length = usize::try_from(to - from).expect("a piece is shorter than memory");
        let mut bytes = vec![0; length];
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| format!("{}: {error}", here.path.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(lengths: &[u64]) -> Vec<LedgerPiece> {
        let mut to = 0;
        let piece = |&length: &u64| {
            let from = to;
            to += length;
            LedgerPiece { lineage: Nonce::NONE, volume: 1, from, to }
        };
        lengths.iter().map(piece).collect()
    }

    #[test]
    fn many_small_pieces_become_one_and_much_in_smaller_ones_does() {
        let most = LEDGER_PIECE_BYTES_MAX;
        assert_eq!(to_join(&row(&[10; SMALL_PIECES_MAX - 1])), None);
        assert_eq!(to_join(&row(&[10; SMALL_PIECES_MAX])), Some(0..SMALL_PIECES_MAX));
        let mut mixed = vec![SMALL_PIECE_BYTES];
        mixed.extend([10; SMALL_PIECES_MAX]);
        assert_eq!(to_join(&row(&mixed)), Some(1..SMALL_PIECES_MAX + 1));
        assert_eq!(to_join(&row(&[most / 2, most / 2])), Some(0..2));
        assert_eq!(to_join(&row(&[most - 1, 5])), Some(0..1), "never longer than the longest");
        assert_eq!(to_join(&row(&[most])), Some(0..1));
    }
}
