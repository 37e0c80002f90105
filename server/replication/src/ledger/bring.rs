//! Brings what a ledger has on disk to object storage.
//!
//! Owns which bytes are there. One caller brings, for all who wait meanwhile. Must not know what an entry is.

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

/// One file of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerVolume {
    /// Its first entry.
    pub first_seq: u64,
    /// Where it is.
    pub path: PathBuf,
    /// How many bytes of it survive a power cut.
    pub bytes: u64,
}

/// Where a ledger is on this machine.
pub trait LedgerSource: Send + Sync {
    /// Its volumes, oldest first; none while it has no entry (REM-83).
    ///
    /// # Errors
    /// It cannot be asked; says why.
    fn volumes(&self) -> Result<Vec<LedgerVolume>, String>;
}

/// Why a ledger was not brought as far as it was to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotBrought {
    /// For people.
    pub why: String,
    /// Whether to ask again can help.
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

/// Brings the ledger that this node keeps of a workspace.
pub struct LedgerBringer {
    driver: Driver,
    tenant: Tenant,
    node: NodeId,
    /// The workspace's folder.
    home: PathBuf,
    random: Arc<dyn Random>,
    source: OnceLock<Weak<dyn LedgerSource>>,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    /// `None` while somebody is at it, and before it is known.
    at: Option<At>,
    is_busy: bool,
    /// The farthest end that anybody wanted to be there: a volume, and bytes of it.
    wanted: (u64, u64),
    /// The end of what is there.
    there: (u64, u64),
    trouble: Option<String>,
    begun_anew: Option<String>,
}

/// How far a ledger is there.
#[derive(Debug)]
struct At {
    lineage: Nonce,
    volume: u64,
    to: u64,
    /// Where that volume is here, once something of it was sent.
    path: Option<PathBuf>,
    /// The pieces at the end of that volume that may yet become one.
    pieces: Vec<LedgerPiece>,
}

impl fmt::Debug for LedgerBringer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerBringer").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl LedgerBringer {
    /// For the ledger that `node` keeps of `tenant`, whose folder is `home`. Asks nothing yet.
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

    /// Whose ledger it is.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Where the ledger is. Told once; more than that is not listened to.
    pub fn of(&self, source: Weak<dyn LedgerSource>) {
        let _the_first_one_counts = self.source.set(source);
    }

    /// What went wrong last, until something goes right.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.inner().trouble.clone()
    }

    /// Why another ledger was begun there than the one that was there, if one was: told once.
    #[must_use]
    pub fn take_begun_anew(&self) -> Option<String> {
        self.inner().begun_anew.take()
    }

    /// Returns once all that is on disk now is there, or so much time has passed.
    ///
    /// # Errors
    /// It may be there or not.
    pub fn bring_all(&self, wait: Duration) -> Result<(), NotBrought> {
        let volumes = self.volumes()?;
        let end = volumes.last().map_or((0, 0), |last| (last.first_seq, last.bytes));
        self.bring(end, wait)
    }

    /// Returns once it is there up to `end`: a volume by its first entry, and bytes of it.
    ///
    /// # Errors
    /// After `wait`, or at once where waiting does not help: it may be there or not.
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

    /// Waits for what is to be brought, or for the turn to bring it; `None` once it is there.
    fn turn(&self, end: (u64, u64), left: Duration) -> Result<Option<Option<At>>, NotBrought> {
        let mut inner = self.inner();
        // Whoever has the next turn brings it for this one, too.
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
        // One that only grew is known: the folder is looked at again when another volume began.
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
            // What cannot be brought keeps nothing else from it.
            inner.wanted = (0, 0);
        }
        if let Some(at) = &at {
            inner.there = (at.volume, at.to);
        }
        inner.at = at;
        done
    }

    /// Where it goes on: behind what is there, if that is what is here (REM-81).
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

    /// What is there of a ledger, or why it is not the one that is here.
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
        // Only now: of another ledger nothing is removed, whatever is here.
        for superfluous in sorted.values().map(|sorted| &sorted.superfluous) {
            self.remove(superfluous)?;
        }
        // What is missing in the middle is brought again, with all that comes behind it.
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

    /// Why a piece is not of the ledger that is here, if it is not.
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

    /// Sends what is here and not there.
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

    /// Makes one piece of many small ones.
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

    /// The volume that it ends in, where that is to be there up to `end` and no other.
    fn grown(&self, (volume, bytes): (u64, u64)) -> Option<LedgerVolume> {
        let path = self.path.clone().filter(|_| volume == self.volume)?;
        Some(LedgerVolume { first_seq: volume, path, bytes })
    }
}

/// The turn of one who brings; the next one's begins when it is dropped, by a panic too.
struct Turn<'a>(&'a LedgerBringer);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.inner().is_busy = false;
        self.0.changed.notify_all();
    }
}

/// The pieces by which it is seen whether a ledger there is the one that is here (REM-81). Each entry has the hash of
/// the one before it, so that what is equal at its end is equal from the start on; what follows a hole, or is in
/// another piece as well, may be another's.
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

/// Which of these pieces, which follow one another, are to be one.
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
