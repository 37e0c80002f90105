//! A file of a known length that lies here in part: a page that is asked for and absent is fetched, checked, and
//! written in its place.
//!
//! Owns which pages are here, and that a page that is here never changes again. Knows the checksums that pages must
//! have, and neither where pages come from nor what they mean.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use memmap2::{Advice, MmapOptions, MmapRaw};

use super::disk_read::DiskRead;
use crate::error::DiskError;
use crate::limits::{FILL_BYTES, FILL_THREADS_MAX, FILL_WAIT_MAX, FILL_WIDE_BYTES};

/// Bytes of a page: what one checksum is of.
const PAGE_BYTES: usize = crate::layout::PAGE_BYTES;
/// Pages that are fetched together where one is wanted, and where many are.
const FEW: usize = FILL_BYTES / PAGE_BYTES;
const MANY: usize = FILL_WIDE_BYTES / PAGE_BYTES;

/// Where the bytes of a file come from that are not here.
pub trait Fetch: Send + Sync + fmt::Debug {
    /// These bytes of the file, all of them. It may wait, for a time that has a bound of its own.
    ///
    /// # Errors
    /// Why they did not come, for people.
    fn fetch(&self, range: Range<u64>) -> Result<Vec<u8>, String>;

    /// Whether more may come than is wanted now: what lies around it, which is wanted soon as a rule.
    fn has_room(&self) -> bool {
        true
    }
}

/// Why pages that were asked for are not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfilled {
    /// They did not come this time (FAR-01).
    Away(String),
    /// What came, twice, has not the checksum of this page.
    Wrong(usize),
}

impl fmt::Display for Unfilled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(why) => f.write_str(why),
            Self::Wrong(page) => {
                write!(f, "the checksum of page {page} (byte {}) is wrong", page * PAGE_BYTES)
            }
        }
    }
}

/// What the pages of a file must be.
#[derive(Debug)]
pub(crate) struct PageChecks {
    /// The CRC-32C of each page, of which the last one may be cut short by `covered`.
    pub(crate) sums: Vec<u32>,
    /// Where what they cover ends. What follows was checked by whoever made this.
    pub(crate) covered: usize,
}

/// A file that is about to fill, which is this one's alone: no map of it is anywhere, and nobody else writes it.
#[derive(Debug)]
pub(crate) struct PartFile {
    file: File,
    /// Whether pages of an earlier time may lie in it.
    is_old: bool,
}

impl PartFile {
    /// The file at `path`, with what is in it already if it has this length. Where another one fills it, in this
    /// process or not, that one keeps it without a name, and this is a new one.
    pub(crate) fn open(path: &Path, bytes: u64) -> io::Result<Self> {
        let mut open = File::options();
        let open = open.read(true).write(true).mode(0o600);
        if let Ok(file) = open.open(path) {
            let is_old = file.metadata()?.len() == bytes;
            match file.try_lock() {
                Ok(()) if is_old => return Ok(Self { file, is_old }),
                Err(TryLockError::Error(error)) => return Err(error),
                // What a map may be of is not written to.
                Ok(()) | Err(TryLockError::WouldBlock) => fs::remove_file(path)?,
            }
        }
        let file = open.create_new(true).open(path)?;
        file.lock()?;
        Ok(Self { file, is_old: false })
    }

    pub(crate) fn is_old(&self) -> bool {
        self.is_old
    }

    /// Bytes that lie in it.
    pub(crate) fn read(&self, bytes: Range<usize>) -> io::Result<Vec<u8>> {
        let mut found = vec![0; bytes.len()];
        self.file.read_exact_at(&mut found, bytes.start as u64)?;
        Ok(found)
    }
}

/// A file that fills.
pub struct Filling {
    name: String,
    map: MmapRaw,
    file: File,
    checks: PageChecks,
    /// Whether pages of an earlier time may lie in the file.
    is_old: bool,
    /// One bit for each page that is here.
    here: Vec<AtomicU64>,
    /// How many are not.
    absent: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
    source: Arc<dyn Fetch>,
}

#[derive(Debug, Default)]
struct State {
    /// Pages that a thread is bringing.
    in_flight: BTreeSet<usize>,
    /// How often that failed, and how the last time.
    failures: u64,
    last: Option<Unfilled>,
}

/// Pages that a thread has taken to bring them. With this they are given back, and all that wait are told.
struct Flight<'a> {
    of: &'a Filling,
    piece: Range<usize>,
    /// Why they did not come.
    failure: Option<Unfilled>,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut state = self.of.state();
        state.in_flight.retain(|page| !self.piece.contains(page));
        if self.failure.is_some() {
            state.failures += 1;
            state.last = self.failure.take();
        }
        self.of.changed.notify_all();
    }
}

impl fmt::Debug for Filling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (absent, bytes) = (self.absent.load(Ordering::Relaxed), self.map.len());
        write!(f, "{} of {bytes} bytes, {absent} pages of it absent", self.name)
    }
}

impl Filling {
    /// Over a file that is as long as the checks and `tail` say. `tail` is what follows the checked pages, from the
    /// start of the page on in which those end.
    pub(crate) fn over(
        name: &str,
        PartFile { file, is_old }: PartFile,
        checks: PageChecks,
        tail: &[u8],
        source: Arc<dyn Fetch>,
    ) -> io::Result<Self> {
        let tail_page = checks.covered / PAGE_BYTES;
        let length = tail_page * PAGE_BYTES + tail.len();
        file.set_len(length as u64)?;
        file.write_all_at(tail, (tail_page * PAGE_BYTES) as u64)?;
        let made = Self { is_old, ..Self::mapped(name, file, checks, source, length)? };
        // Only a whole page is marked: what of the first one the checks cover came with it.
        (tail_page..length.div_ceil(PAGE_BYTES)).for_each(|page| made.mark(page));
        Ok(made)
    }

    /// A file all of which is here and never changes.
    pub(crate) fn whole(name: &str, file: File, source: Arc<dyn Fetch>) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let checks = PageChecks { sums: Vec::new(), covered: 0 };
        let made = Self::mapped(name, file, checks, source, length)?;
        (0..made.pages()).for_each(|page| made.mark(page));
        Ok(made)
    }

    /// With no page marked.
    fn mapped(
        name: &str,
        file: File,
        checks: PageChecks,
        source: Arc<dyn Fetch>,
        length: usize,
    ) -> io::Result<Self> {
        // A raw map makes no reference to any of its bytes by itself.
        let map = MmapOptions::new().len(length).map_raw_read_only(&file)?;
        let pages = length.div_ceil(PAGE_BYTES);
        Ok(Self {
            name: name.to_owned(),
            map,
            file,
            checks,
            is_old: false,
            here: (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            absent: AtomicUsize::new(pages),
            state: Mutex::default(),
            changed: Condvar::new(),
            source,
        })
    }

    /// How long it is, once it is whole as before.
    pub(crate) fn length(&self) -> usize {
        self.map.len()
    }

    /// Whether all of it is here. Once it is, it stays so.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.absent.load(Ordering::Acquire) == 0
    }

    /// Bytes of the pages that are here.
    pub fn bytes_here(&self) -> u64 {
        let absent = self.absent.load(Ordering::Relaxed);
        self.map.len().saturating_sub(absent * PAGE_BYTES) as u64
    }

    /// Returns once these bytes are here.
    ///
    /// # Errors
    /// Why they are not, after [`FILL_WAIT_MAX`] and what the last fetch took at the latest.
    pub fn need(&self, bytes: Range<usize>) -> Result<(), Unfilled> {
        let pages = bytes.start / PAGE_BYTES..bytes.end.min(self.map.len()).div_ceil(PAGE_BYTES);
        let Some(first) = self.first_absent(&pages) else { return Ok(()) };
        let until = Instant::now() + FILL_WAIT_MAX;
        let wanted = first..pages.end;
        let pieces = wanted.len().div_ceil(MANY);
        match pieces.min(FILL_THREADS_MAX) {
            0 | 1 => self.gather(&wanted, until),
            threads => thread::scope(|scope| {
                for _ in 1..threads {
                    // What it meets is met here, too; and without a thread all is done here.
                    let gather = || self.gather(&wanted, until);
                    let _spawned = thread::Builder::new().spawn_scoped(scope, gather);
                }
                self.gather(&wanted, until)
            }),
        }
    }

    /// Returns once all of it is here. It is waited for as long as more of it comes.
    ///
    /// # Errors
    /// What did not come, or not within [`FILL_WAIT_MAX`]; what did stays.
    pub fn need_all(&self) -> Result<(), Unfilled> {
        let step = MANY * FILL_THREADS_MAX;
        while let Some(first) = self.first_absent(&(0..self.pages())) {
            self.need(first * PAGE_BYTES..(first + step) * PAGE_BYTES)?;
        }
        Ok(())
    }

    /// Brings the first piece that is absent; gives whether one was.
    ///
    /// # Errors
    /// Why it did not come.
    pub fn fill_on(&self) -> Result<bool, Unfilled> {
        let Some(first) = self.first_absent(&(0..self.pages())) else { return Ok(false) };
        self.gather(&(first..first + 1), Instant::now() + FILL_WAIT_MAX).map(|()| true)
    }

    /// Returns once what is here survives a power cut.
    pub fn sync(&self) -> Result<(), DiskError> {
        self.file.sync_all().map_err(|error| DiskError::new("sync", &self.name, error))
    }

    /// These bytes, if they are here.
    #[expect(unsafe_code, reason = "the one place that looks at bytes of a file that fills")]
    pub(crate) fn slice(&self, bytes: Range<usize>) -> Option<&[u8]> {
        let pages = bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES);
        if bytes.start > bytes.end || bytes.end > self.map.len() {
            return None;
        }
        if !self.is_whole() && self.first_absent(&pages).is_some() {
            return None;
        }
        let start = self.map.as_ptr().wrapping_add(bytes.start);
        // SAFETY: the range lies within the map, which lives as long as `self`. Each of its pages is
        // marked as here, and such a page never changes again: once the file is mapped, `fetch` alone
        // writes to it, only pages that `take` gave its thread, which are neither marked nor another
        // thread's, and marks them after that (`AcqRel`; `first_absent` and `is_whole` read with
        // `Acquire`). The file is never cut: its length is set before it is mapped. No other `Filling`
        // writes it: each holds the file's lock for as long as it lives (`PartFile::open`), and what was
        // `whole` from the start is never written. Everything else only renames or unlinks it, which a
        // map outlives; a foreign process that alters it regardless is outside what
        // format-spec/README.md promises. So no reference ever covers a byte that may change.
        Some(unsafe { std::slice::from_raw_parts(start, bytes.len()) })
    }

    /// Gives whether the system took the advice. It changes nothing but time.
    pub(crate) fn advise(&self, advice: Advice, range: Range<usize>) -> bool {
        self.map.advise_range(advice, range.start, range.len()).is_ok()
    }

    fn pages(&self) -> usize {
        self.map.len().div_ceil(PAGE_BYTES)
    }

    fn is_here(&self, page: usize) -> bool {
        self.here[page / 64].load(Ordering::Acquire) >> (page % 64) & 1 == 1
    }

    /// Marks a page as here, which it is for good.
    fn mark(&self, page: usize) {
        let bit = 1 << (page % 64);
        if self.here[page / 64].fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            self.absent.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn first_absent(&self, pages: &Range<usize>) -> Option<usize> {
        let mut page = pages.start;
        while page < pages.end {
            let absent = !self.here[page / 64].load(Ordering::Acquire) >> (page % 64);
            if absent != 0 {
                page += absent.trailing_zeros() as usize;
                return (page < pages.end).then_some(page);
            }
            page = (page / 64 + 1) * 64;
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings what of these pages nobody brings, and waits for what others bring.
    fn gather(&self, pages: &Range<usize>, until: Instant) -> Result<(), Unfilled> {
        let mut state = self.state();
        let failures = state.failures;
        while self.first_absent(pages).is_some() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let seconds = FILL_WAIT_MAX.as_secs();
                return Err(Unfilled::Away(format!("{}: not here after {seconds} s", self.name)));
            }
            let Some(piece) = self.take(&mut state, pages) else {
                state = self.wait(state, left);
                match &state.last {
                    Some(why) if state.failures != failures => return Err(why.clone()),
                    _ => continue,
                }
            };
            drop(state);
            self.bring_taken(piece)?;
            state = self.state();
        }
        Ok(())
    }

    /// Has these pages here, which are the caller's until this ends, however it does.
    fn bring_taken(&self, piece: Range<usize>) -> Result<(), Unfilled> {
        let panicked = format!("{}: whoever fetched it panicked", self.name);
        let mut flight = Flight { of: self, piece, failure: Some(Unfilled::Away(panicked)) };
        let brought = self.bring(&flight.piece);
        flight.failure = brought.clone().err();
        brought
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, left: Duration) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// A run of absent pages that nobody brings: the first such of `pages`, and what lies around it, where there is
    /// room. It is the caller's from here on.
    fn take(&self, state: &mut State, pages: &Range<usize>) -> Option<Range<usize>> {
        let is_free = |state: &State, page: usize| {
            page < self.pages() && !self.is_here(page) && !state.in_flight.contains(&page)
        };
        let first = pages.clone().find(|&page| is_free(state, page))?;
        let block = |pages: usize| first / pages * pages..(first / pages + 1) * pages;
        let most = match pages.len() {
            // The first page is needed to open the file, and nothing else of it may ever be.
            1 if first == 0 => 0..1,
            _ if !self.source.has_room() => first..pages.end.min(first + FEW),
            few if few <= FEW => block(FEW),
            _ => block(MANY),
        };
        let mut piece = first..first + 1;
        while piece.start > most.start && is_free(state, piece.start - 1) {
            piece.start -= 1;
        }
        while piece.end < most.end && is_free(state, piece.end) {
            piece.end += 1;
        }
        state.in_flight.extend(piece.clone());
        Some(piece)
    }

    /// Has these pages here, which are the caller's.
    fn bring(&self, piece: &Range<usize>) -> Result<(), Unfilled> {
        let mut next = piece.start;
        while next < piece.end {
            if self.is_old && self.was_here(next)? {
                self.mark(next);
                next += 1;
                continue;
            }
            let mut end = next + 1;
            while end < piece.end && !(self.is_old && self.was_here(end)?) {
                end += 1;
            }
            self.fetch(next..end)?;
            next = end;
        }
        Ok(())
    }

    /// Whether a page of an earlier time lies in the file. A hole has not its checksum, unless the page is zeros.
    fn was_here(&self, page: usize) -> Result<bool, Unfilled> {
        let mut bytes = vec![0; self.extent(page).len()];
        let read = self.file.read_exact_at(&mut bytes, (page * PAGE_BYTES) as u64);
        // A sector that cannot be read is written anew.
        Ok(read.is_ok() && self.is_right(page, &bytes))
    }

    /// Fetches pages, checks and writes them. Wrong ones are fetched once more.
    fn fetch(&self, pages: Range<usize>) -> Result<(), Unfilled> {
        let bytes = pages.start * PAGE_BYTES..self.extent(pages.end - 1).end;
        let wrong = |fetched: &[u8]| {
            let each = fetched.chunks(PAGE_BYTES).zip(pages.clone());
            each.filter(|(bytes, page)| !self.is_right(*page, bytes)).map(|(_, page)| page).next()
        };
        let mut fetched = self.ask(bytes.clone())?;
        if wrong(&fetched).is_some() {
            fetched = self.ask(bytes.clone())?;
        }
        if let Some(page) = wrong(&fetched) {
            return Err(Unfilled::Wrong(page));
        }
        let written = self.file.write_all_at(&fetched, bytes.start as u64);
        written
            .map_err(|error| Unfilled::Away(format!("could not write {}: {error}", self.name)))?;
        pages.for_each(|page| self.mark(page));
        Ok(())
    }

    fn ask(&self, bytes: Range<usize>) -> Result<Vec<u8>, Unfilled> {
        let fetched = self.source.fetch(bytes.start as u64..bytes.end as u64);
        let fetched = fetched.map_err(Unfilled::Away)?;
        if fetched.len() == bytes.len() {
            return Ok(fetched);
        }
        let (found, wanted) = (fetched.len(), bytes.len());
        Err(Unfilled::Away(format!("{}: {found} bytes came, {wanted} were asked for", self.name)))
    }

    /// The bytes of a page.
    fn extent(&self, page: usize) -> Range<usize> {
        let start = page * PAGE_BYTES;
        start..(start + PAGE_BYTES).min(self.map.len())
    }

    fn is_right(&self, page: usize, bytes: &[u8]) -> bool {
        let covered = (self.checks.covered - page * PAGE_BYTES).min(bytes.len());
        self.checks.sums.get(page) == Some(&crc32c::crc32c(&bytes[..covered]))
    }
}

/// All of a piece that is read is here then.
impl DiskRead for Arc<Filling> {
    fn bytes(&self) -> u64 {
        self.map.len() as u64
    }

    fn bring(&self) -> Result<(), DiskError> {
        let fail = |why: Unfilled| io::Error::other(why.to_string());
        self.need_all().map_err(|why| DiskError::new("fill", &self.name, fail(why)))
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let fail = |why: String| DiskError::new("read", &self.name, io::Error::other(why));
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        let bytes = from..from.saturating_add(into.len());
        self.need(bytes.clone()).map_err(|why| fail(why.to_string()))?;
        let found = self.slice(bytes).ok_or_else(|| fail("it ends before".into()))?;
        into.copy_from_slice(found);
        Ok(())
    }
}
