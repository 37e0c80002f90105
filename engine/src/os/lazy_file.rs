//! Lazy file: a partially present local file of known length. An absent page is fetched, checked and written in place
//! on first use.
//!
//! Tracks the present pages and guarantees that a present page never changes. The expected checksums are given, and a
//! [`RangeFetcher`] provides the bytes.

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

/// Bytes covered by one checksum.
const PAGE_BYTES: usize = crate::layout::PAGE_BYTES;
/// Pages per fetch for a request of few pages; `FETCH_PAGES_WIDE` for a request of more.
const FETCH_PAGES: usize = FILL_BYTES / PAGE_BYTES;
const FETCH_PAGES_WIDE: usize = FILL_WIDE_BYTES / PAGE_BYTES;

/// Source of a file's absent bytes.
pub trait RangeFetcher: Send + Sync + fmt::Debug {
    /// Returns all bytes of the range. May block, for a time bounded by the source.
    ///
    /// # Errors
    /// Why the bytes are unavailable, as text for a person.
    fn fetch(&self, range: Range<u64>) -> Result<Vec<u8>, String>;

    /// Returns true if a fetch may include surrounding pages, which are usually needed soon.
    fn can_read_ahead(&self) -> bool {
        true
    }
}

/// Error of a page fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageFetchError {
    /// The pages are unavailable for now (FAR-01).
    Unavailable(String),
    /// The checksum of this page was wrong in two fetches.
    ChecksumMismatch(usize),
}

impl fmt::Display for PageFetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => f.write_str(why),
            Self::ChecksumMismatch(page) => {
                write!(f, "the checksum of page {page} (byte {}) is wrong", page * PAGE_BYTES)
            }
        }
    }
}

/// Expected checksums of a file's pages.
#[derive(Debug)]
pub(crate) struct PageChecksums {
    /// CRC-32C of each page; the last page may be cut short by `covered`.
    pub(crate) checksums: Vec<u32>,
    /// End of the covered bytes. The caller has checked all bytes after it.
    pub(crate) covered_bytes: usize,
}

/// Local file for a lazy file, with exclusive access: no mapping of it exists, and no other writer.
#[derive(Debug)]
pub(crate) struct PartialFile {
    file: File,
    /// True if the file may have pages of an earlier run.
    is_old: bool,
}

impl PartialFile {
    /// Opens the file at `path`, and retains its contents if it has the given length. If another lazy file uses it, in
    /// this process or another, it is unlinked for that user, and a new file is created.
    pub(crate) fn open(path: &Path, bytes: u64) -> io::Result<Self> {
        let mut open = File::options();
        let open = open.read(true).write(true).mode(0o600);
        if let Ok(file) = open.open(path) {
            let is_old = file.metadata()?.len() == bytes;
            match file.try_lock() {
                Ok(()) if is_old => return Ok(Self { file, is_old }),
                Err(TryLockError::Error(error)) => return Err(error),
                // A file that may be mapped must not be written.
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

    /// Reads a range of the file.
    pub(crate) fn read(&self, bytes: Range<usize>) -> io::Result<Vec<u8>> {
        let mut found = vec![0; bytes.len()];
        self.file.read_exact_at(&mut found, bytes.start as u64)?;
        Ok(found)
    }
}

/// Partially present file that fetches absent pages.
pub struct LazyFile {
    name: String,
    map: MmapRaw,
    file: File,
    page_checksums: PageChecksums,
    /// True if the file may have pages of an earlier run.
    is_old: bool,
    /// Bit set of the present pages.
    present_pages: Vec<AtomicU64>,
    /// Number of absent pages.
    absent_pages: AtomicUsize,
    state: Mutex<FetchState>,
    changed: Condvar,
    source: Arc<dyn RangeFetcher>,
}

#[derive(Debug, Default)]
struct FetchState {
    /// Pages that a thread is fetching.
    in_flight: BTreeSet<usize>,
    /// Number of failed fetches; `last_error` is the latest error.
    failures: u64,
    last_error: Option<PageFetchError>,
}

/// Pages reserved by a fetching thread. Dropping this value releases them and wakes all waiting threads.
struct FetchGuard<'a> {
    file: &'a LazyFile,
    pages: Range<usize>,
    /// Error of the fetch; `None` after success.
    failure: Option<PageFetchError>,
}

impl Drop for FetchGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.file.state();
        state.in_flight.retain(|page| !self.pages.contains(page));
        if self.failure.is_some() {
            state.failures += 1;
            state.last_error = self.failure.take();
        }
        self.file.changed.notify_all();
    }
}

impl fmt::Debug for LazyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (absent, bytes) = (self.absent_pages.load(Ordering::Relaxed), self.map.len());
        write!(f, "{} of {bytes} bytes, {absent} pages of it absent", self.name)
    }
}

impl LazyFile {
    /// Creates a lazy file over a local file. `tail` has the bytes after the checked pages, beginning with the page in
    /// which the checked range ends; `checks` and `tail` determine the length.
    pub(crate) fn new(
        name: &str,
        PartialFile { file, is_old }: PartialFile,
        checks: PageChecksums,
        tail: &[u8],
        source: Arc<dyn RangeFetcher>,
    ) -> io::Result<Self> {
        let tail_page = checks.covered_bytes / PAGE_BYTES;
        let length = tail_page * PAGE_BYTES + tail.len();
        file.set_len(length as u64)?;
        file.write_all_at(tail, (tail_page * PAGE_BYTES) as u64)?;
        let made = Self { is_old, ..Self::map(name, file, checks, source, length)? };
        // The tail's first page is complete: `tail` includes its part that the checks cover.
        (tail_page..length.div_ceil(PAGE_BYTES)).for_each(|page| made.mark_present(page));
        Ok(made)
    }

    /// Wraps a completely present file that never changes.
    pub(crate) fn complete(
        name: &str,
        file: File,
        source: Arc<dyn RangeFetcher>,
    ) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let checks = PageChecksums { checksums: Vec::new(), covered_bytes: 0 };
        let made = Self::map(name, file, checks, source, length)?;
        (0..made.pages()).for_each(|page| made.mark_present(page));
        Ok(made)
    }

    /// Maps the file, with all pages marked absent.
    fn map(
        name: &str,
        file: File,
        checks: PageChecksums,
        source: Arc<dyn RangeFetcher>,
        length: usize,
    ) -> io::Result<Self> {
        // A raw map creates no references to its bytes.
        let map = MmapOptions::new().len(length).map_raw_read_only(&file)?;
        let pages = length.div_ceil(PAGE_BYTES);
        Ok(Self {
            name: name.to_owned(),
            map,
            file,
            page_checksums: checks,
            is_old: false,
            present_pages: (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            absent_pages: AtomicUsize::new(pages),
            state: Mutex::default(),
            changed: Condvar::new(),
            source,
        })
    }

    /// Full length of the file, including absent pages.
    pub(crate) fn length(&self) -> usize {
        self.map.len()
    }

    /// Returns true if all pages are present. Once true, the result stays true.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.absent_pages.load(Ordering::Acquire) == 0
    }

    /// Bytes of the present pages.
    pub fn bytes_present(&self) -> u64 {
        let absent = self.absent_pages.load(Ordering::Relaxed);
        self.map.len().saturating_sub(absent * PAGE_BYTES) as u64
    }

    /// Blocks until these bytes are present.
    ///
    /// # Errors
    /// The bytes are unavailable: reported at the latest after [`FILL_WAIT_MAX`] plus the time of the last fetch.
    pub fn ensure_present(&self, bytes: Range<usize>) -> Result<(), PageFetchError> {
        let pages = bytes.start / PAGE_BYTES..bytes.end.min(self.map.len()).div_ceil(PAGE_BYTES);
        let Some(first) = self.first_absent(&pages) else { return Ok(()) };
        let until = Instant::now() + FILL_WAIT_MAX;
        let wanted = first..pages.end;
        let pieces = wanted.len().div_ceil(FETCH_PAGES_WIDE);
        match pieces.min(FILL_THREADS_MAX) {
            0 | 1 => self.ensure_pages(&wanted, until),
            threads => thread::scope(|scope| {
                for _ in 1..threads {
                    // This thread gathers the same pages, so it meets the same errors, and does all the work if a spawn
                    // fails.
                    let gather = || self.ensure_pages(&wanted, until);
                    let _spawned = thread::Builder::new().spawn_scoped(scope, gather);
                }
                self.ensure_pages(&wanted, until)
            }),
        }
    }

    /// Blocks until the whole file is present, for as long as fetches make progress.
    ///
    /// # Errors
    /// A fetch failed, or none finished within [`FILL_WAIT_MAX`]. Pages fetched before stay present.
    pub fn ensure_complete(&self) -> Result<(), PageFetchError> {
        let step = FETCH_PAGES_WIDE * FILL_THREADS_MAX;
        while let Some(first) = self.first_absent(&(0..self.pages())) {
            self.ensure_present(first * PAGE_BYTES..(first + step) * PAGE_BYTES)?;
        }
        Ok(())
    }

    /// Fetches the first absent run of pages; returns false if no page was absent.
    ///
    /// # Errors
    /// The pages are unavailable.
    pub fn fetch_next(&self) -> Result<bool, PageFetchError> {
        let Some(first) = self.first_absent(&(0..self.pages())) else { return Ok(false) };
        self.ensure_pages(&(first..first + 1), Instant::now() + FILL_WAIT_MAX).map(|()| true)
    }

    /// Blocks until all present pages survive a power cut.
    pub fn sync(&self) -> Result<(), DiskError> {
        self.file.sync_all().map_err(|error| DiskError::new("sync", &self.name, error))
    }

    /// Returns these bytes if they are present.
    #[expect(unsafe_code, reason = "the one place that looks at bytes of a file that fills")]
    pub(crate) fn slice(&self, bytes: Range<usize>) -> Option<&[u8]> {
        let pages = bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES);
        if bytes.start > bytes.end || bytes.end > self.map.len() {
            return None;
        }
        if !self.is_complete() && self.first_absent(&pages).is_some() {
            return None;
        }
        let start = self.map.as_ptr().wrapping_add(bytes.start);
        // SAFETY: the range is within the map, which lives as long as `self`. Each page of the range is marked present,
        // and a present page never changes again. Once the file is mapped, only `fetch` writes to it: only pages that
        // `take` reserved for its thread, which are neither marked nor another thread's. `fetch` marks them after the
        // write (`AcqRel`; `first_absent` and `is_whole` read with `Acquire`). The file is never truncated: its length
        // is set before it is mapped. No other `LazyFile` writes the file: each holds the file's lock for its whole
        // life (`PartialFile::open`), and a file that was `whole` from the start is never written. All other code only
        // renames or unlinks the file, which a map outlives; a foreign process that alters it regardless is outside the
        // promises of format-spec/README.md. So no reference ever covers a byte that may change.
        Some(unsafe { std::slice::from_raw_parts(start, bytes.len()) })
    }

    /// Passes advice to the system, which affects only performance. Returns true if the system accepted the advice.
    pub(crate) fn advise(&self, advice: Advice, range: Range<usize>) -> bool {
        self.map.advise_range(advice, range.start, range.len()).is_ok()
    }

    fn pages(&self) -> usize {
        self.map.len().div_ceil(PAGE_BYTES)
    }

    fn is_present(&self, page: usize) -> bool {
        self.present_pages[page / 64].load(Ordering::Acquire) >> (page % 64) & 1 == 1
    }

    /// Marks a page as present, permanently.
    fn mark_present(&self, page: usize) {
        let bit = 1 << (page % 64);
        if self.present_pages[page / 64].fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            self.absent_pages.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn first_absent(&self, pages: &Range<usize>) -> Option<usize> {
        let mut page = pages.start;
        while page < pages.end {
            let absent = !self.present_pages[page / 64].load(Ordering::Acquire) >> (page % 64);
            if absent != 0 {
                page += absent.trailing_zeros() as usize;
                return (page < pages.end).then_some(page);
            }
            page = (page / 64 + 1) * 64;
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, FetchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches the absent pages that no thread is fetching, and waits for those of other threads.
    fn ensure_pages(&self, pages: &Range<usize>, until: Instant) -> Result<(), PageFetchError> {
        let mut state = self.state();
        let failures = state.failures;
        while self.first_absent(pages).is_some() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let seconds = FILL_WAIT_MAX.as_secs();
                return Err(PageFetchError::Unavailable(format!(
                    "{}: not here after {seconds} s",
                    self.name
                )));
            }
            let Some(piece) = self.claim(&mut state, pages) else {
                state = self.wait(state, left);
                match &state.last_error {
                    Some(why) if state.failures != failures => return Err(why.clone()),
                    _ => continue,
                }
            };
            drop(state);
            self.load_claimed(piece)?;
            state = self.state();
        }
        Ok(())
    }

    /// Fetches pages reserved by the caller, and releases them on any end, a panic too.
    fn load_claimed(&self, piece: Range<usize>) -> Result<(), PageFetchError> {
        let panicked = format!("{}: whoever fetched it panicked", self.name);
        let mut flight = FetchGuard {
            file: self,
            pages: piece,
            failure: Some(PageFetchError::Unavailable(panicked)),
        };
        let brought = self.load(&flight.pages);
        flight.failure = brought.clone().err();
        brought
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, FetchState>,
        left: Duration,
    ) -> MutexGuard<'a, FetchState> {
        let waited = self.changed.wait_timeout(state, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Reserves a run of absent pages that no thread is fetching: the first of `pages` and, if the source has room, the
    /// pages around it.
    fn claim(&self, state: &mut FetchState, pages: &Range<usize>) -> Option<Range<usize>> {
        let is_free = |state: &FetchState, page: usize| {
            page < self.pages() && !self.is_present(page) && !state.in_flight.contains(&page)
        };
        let first = pages.clone().find(|&page| is_free(state, page))?;
        let block = |pages: usize| first / pages * pages..(first / pages + 1) * pages;
        let most = match pages.len() {
            // Opening the file needs its first page, and possibly no other page ever.
            1 if first == 0 => 0..1,
            _ if !self.source.can_read_ahead() => first..pages.end.min(first + FETCH_PAGES),
            few if few <= FETCH_PAGES => block(FETCH_PAGES),
            _ => block(FETCH_PAGES_WIDE),
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

    /// Makes pages reserved by the caller present, from earlier contents or by a fetch.
    fn load(&self, piece: &Range<usize>) -> Result<(), PageFetchError> {
        let mut next = piece.start;
        while next < piece.end {
            if self.is_old && self.was_fetched_before(next)? {
                self.mark_present(next);
                next += 1;
                continue;
            }
            let mut end = next + 1;
            while end < piece.end && !(self.is_old && self.was_fetched_before(end)?) {
                end += 1;
            }
            self.fetch_pages(next..end)?;
            next = end;
        }
        Ok(())
    }

    /// Returns true if the local file has this page from an earlier run. A hole fails the checksum, unless the page is
    /// all zeros.
    fn was_fetched_before(&self, page: usize) -> Result<bool, PageFetchError> {
        let mut bytes = vec![0; self.page_bytes(page).len()];
        let read = self.file.read_exact_at(&mut bytes, (page * PAGE_BYTES) as u64);
        // An unreadable sector is fetched and rewritten.
        Ok(read.is_ok() && self.matches_checksum(page, &bytes))
    }

    /// Fetches, checks and writes pages. If a checksum is wrong, all of them are fetched once more.
    fn fetch_pages(&self, pages: Range<usize>) -> Result<(), PageFetchError> {
        let bytes = pages.start * PAGE_BYTES..self.page_bytes(pages.end - 1).end;
        let wrong = |fetched: &[u8]| {
            let each = fetched.chunks(PAGE_BYTES).zip(pages.clone());
            each.filter(|(bytes, page)| !self.matches_checksum(*page, bytes))
                .map(|(_, page)| page)
                .next()
        };
        let mut fetched = self.request(bytes.clone())?;
        if wrong(&fetched).is_some() {
            fetched = self.request(bytes.clone())?;
        }
        if let Some(page) = wrong(&fetched) {
            return Err(PageFetchError::ChecksumMismatch(page));
        }
        let written = self.file.write_all_at(&fetched, bytes.start as u64);
        written.map_err(|error| {
            PageFetchError::Unavailable(format!("could not write {}: {error}", self.name))
        })?;
        pages.for_each(|page| self.mark_present(page));
        Ok(())
    }

    fn request(&self, bytes: Range<usize>) -> Result<Vec<u8>, PageFetchError> {
        let fetched = self.source.fetch(bytes.start as u64..bytes.end as u64);
        let fetched = fetched.map_err(PageFetchError::Unavailable)?;
        if fetched.len() == bytes.len() {
            return Ok(fetched);
        }
        let (found, wanted) = (fetched.len(), bytes.len());
        Err(PageFetchError::Unavailable(format!(
            "{}: {found} bytes came, {wanted} were asked for",
            self.name
        )))
    }

    /// Byte range of a page.
    fn page_bytes(&self, page: usize) -> Range<usize> {
        let start = page * PAGE_BYTES;
        start..(start + PAGE_BYTES).min(self.map.len())
    }

    fn matches_checksum(&self, page: usize, bytes: &[u8]) -> bool {
        let covered = (self.page_checksums.covered_bytes - page * PAGE_BYTES).min(bytes.len());
        self.page_checksums.checksums.get(page) == Some(&crc32c::crc32c(&bytes[..covered]))
    }
}

/// A read blocks until its whole range is present.
impl DiskRead for Arc<LazyFile> {
    fn bytes(&self) -> u64 {
        self.map.len() as u64
    }

    fn fetch_all(&self) -> Result<(), DiskError> {
        let fail = |why: PageFetchError| io::Error::other(why.to_string());
        self.ensure_complete().map_err(|why| DiskError::new("fill", &self.name, fail(why)))
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let fail = |why: String| DiskError::new("read", &self.name, io::Error::other(why));
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        let bytes = from..from.saturating_add(into.len());
        self.ensure_present(bytes.clone()).map_err(|why| fail(why.to_string()))?;
        let found = self.slice(bytes).ok_or_else(|| fail("it ends before".into()))?;
        into.copy_from_slice(found);
        Ok(())
    }
}
