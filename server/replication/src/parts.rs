//! Multipart transfer of a file: cut into parts, uploaded from a disk and fetched back, several parts at a time.
//!
//! Knows lengths and hashes, but neither the use of a file nor the time that a caller waits for it.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use engine::os::disk::{DiskFile, DiskRead};
use sha2::{Digest, Sha256};

use crate::hex::{Hash, Hex};
use crate::limits::{PART_BYTES, TRANSFERS_MAX};
use crate::names::{DataKey, Key, Tenant};
use crate::objects::{Away, Objects};

/// Bytes read and hashed at a time.
const HASHED_TOGETHER: usize = 1 << 20;

/// Files of a workspace on object storage.
#[derive(Debug, Clone, Copy)]
pub struct Shelf<'a> {
    /// Object store.
    pub objects: &'a dyn Objects,
    /// Workspace of the files.
    pub tenant: &'a Tenant,
}

/// Error of an upload or a fetch.
#[derive(Debug)]
pub enum Untransferred {
    /// The object store failed or did not respond.
    Away(Away),
    /// An object is absent. If a record names it, the record is no longer needed, or the store has lost the object.
    Gone(Key),
    /// The fetched bytes have a wrong length or hash (REM-05).
    Other(String),
    /// The local disk failed.
    Disk(String),
    /// Not possible now; a later retry may succeed.
    Later(String),
    /// The transfer was cancelled.
    Stopped,
}

impl fmt::Display for Untransferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(away) => away.fmt(f),
            Self::Gone(key) => write!(f, "{key} is not there"),
            Self::Other(why) => write!(f, "REM-05: {why}"),
            Self::Disk(why) | Self::Later(why) => f.write_str(why),
            Self::Stopped => f.write_str("it was called off"),
        }
    }
}

impl std::error::Error for Untransferred {}

impl From<Away> for Untransferred {
    fn from(away: Away) -> Self {
        Self::Away(away)
    }
}

/// Number of parts of a file.
#[must_use]
pub(crate) fn count(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(PART_BYTES)).unwrap_or(u32::MAX)
}

/// Byte range of a part within its file.
fn range(bytes: u64, part: u32) -> Range<u64> {
    let from = u64::from(part) * PART_BYTES;
    from..bytes.min(from + PART_BYTES)
}

/// Upload of a file. After an error, the uploaded parts are not uploaded again.
#[derive(Debug)]
pub struct Upload {
    key: DataKey,
    /// Offset of the first byte in the source.
    from: u64,
    bytes: u64,
    parts: Vec<Part>,
}

/// A part of an upload.
#[derive(Debug, Default)]
struct Part {
    /// True if an earlier process claims to have uploaded the part, which is checked before the part is sent.
    is_said: bool,
    /// True if the part is stored.
    is_sent: AtomicBool,
}

/// Ascending runs of parts, each from its first to its last part.
pub(crate) type Runs = Vec<(u32, u32)>;

impl Upload {
    /// Uploads the bytes `from..to` of a source as the object `key`.
    #[must_use]
    pub fn new(key: DataKey, from: u64, to: u64) -> Self {
        let bytes = to.saturating_sub(from);
        let parts = (0..count(bytes)).map(|_| Part::default()).collect();
        Self { key, from, bytes, parts }
    }

    /// Resumes the upload of a whole file of which these parts are claimed to be stored.
    pub(crate) fn resumed(key: DataKey, bytes: u64, said: &[(u32, u32)]) -> Self {
        let mut upload = Self::new(key, 0, bytes);
        for (number, part) in (0..).zip(&mut upload.parts) {
            part.is_said = said.iter().any(|(first, last)| (*first..=*last).contains(&number));
        }
        upload
    }

    /// Key of the object.
    pub(crate) fn key(&self) -> DataKey {
        self.key
    }

    /// Parts that are stored, or claimed to be.
    pub(crate) fn runs(&self) -> Runs {
        let is_there = |part: &Part| part.is_said || part.is_sent.load(Ordering::Acquire);
        let mut runs = Runs::new();
        for (number, _) in (0..).zip(&self.parts).filter(|(_, part)| is_there(part)) {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => runs.push((number, number)),
            }
        }
        runs
    }

    /// Uploads the missing parts, up to [`TRANSFERS_MAX`] at a time, while `goes_on` returns true. Calls `sent` with
    /// the length of each part.
    ///
    /// # Errors
    /// The first error. A retry does not upload the stored parts again.
    pub fn send(
        &self,
        shelf: Shelf<'_>,
        source: &dyn DiskRead,
        goes_on: &(dyn Fn() -> bool + Sync),
        sent: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Untransferred> {
        in_parallel(self.parts.len(), goes_on, |part| {
            let Part { is_said, is_sent } = &self.parts[part];
            if is_sent.load(Ordering::Acquire) {
                return Ok(());
            }
            let part = u32::try_from(part).expect("parts are counted by it");
            let place = range(self.bytes, part);
            let name = Key::Data(shelf.tenant.clone(), self.key, part);
            if *is_said && shelf.has(&name, place.end - place.start)? {
                is_sent.store(true, Ordering::Release);
                return Ok(());
            }
            let mut bytes = vec![0; length(&place)];
            let read = source.read_at(self.from + place.start, &mut bytes);
            read.map_err(|error| Untransferred::Disk(error.to_string()))?;
            shelf.objects.put(&name, &bytes)?;
            is_sent.store(true, Ordering::Release);
            sent(bytes.len() as u64);
            Ok(())
        })
    }
}

/// Hashes the bytes `from..to` of a file on disk.
///
/// # Errors
/// The bytes cannot be read.
pub fn hash_of(source: &dyn DiskRead, from: u64, to: u64) -> Result<Hash, Untransferred> {
    let mut hasher = Sha256::new();
    let mut at = from;
    let mut piece = vec![0; HASHED_TOGETHER];
    while at < to {
        let bytes = length(&(at..to.min(at + HASHED_TOGETHER as u64)));
        let read = source.read_at(at, &mut piece[..bytes]);
        read.map_err(|error| Untransferred::Disk(error.to_string()))?;
        hasher.update(&piece[..bytes]);
        at += bytes as u64;
    }
    Ok(Hex(hasher.finalize().into()))
}

impl Shelf<'_> {
    /// Fetches an object of `bytes` bytes into an empty file, up to [`TRANSFERS_MAX`] parts at a time; its hash must be
    /// `sha256`. The file is not synced.
    ///
    /// # Errors
    /// The first error; the content of the file is undefined then.
    pub fn fetch(
        &self,
        key: DataKey,
        (bytes, sha256): (u64, Hash),
        into: &dyn DiskFile,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), Untransferred> {
        let mut hasher = Sha256::new();
        let parts: Vec<u32> = (0..count(bytes)).collect();
        for few in parts.chunks(TRANSFERS_MAX) {
            let fetched: Vec<OnceLock<Vec<u8>>> = few.iter().map(|_| OnceLock::new()).collect();
            in_parallel(few.len(), goes_on, |at| {
                let part = self.part(key, few[at], length(&range(bytes, few[at])))?;
                let _nobody_else_has_this_part = fetched[at].set(part);
                Ok(())
            })?;
            for part in fetched.iter().filter_map(OnceLock::get) {
                hasher.update(part);
                into.append(part).map_err(|error| Untransferred::Disk(error.to_string()))?;
            }
        }
        let found = Hex(hasher.finalize().into());
        if found == sha256 { Ok(()) } else { Err(other(key, found, sha256)) }
    }

    /// Fetches a range of an object of `bytes` bytes. Only the length of the result is checked, as the hash of a range
    /// is unknown.
    ///
    /// # Errors
    /// A part is absent or too short.
    pub(crate) fn range(
        &self,
        key: DataKey,
        bytes: u64,
        wanted: Range<u64>,
    ) -> Result<Vec<u8>, Untransferred> {
        let mut found = Vec::new();
        let mut at = wanted.start;
        while at < wanted.end {
            let part = u32::try_from(at / PART_BYTES).unwrap_or(u32::MAX);
            let whole = range(bytes, part);
            let piece = at..wanted.end.min(whole.end);
            let within = piece.start - whole.start..piece.end - whole.start;
            let name = Key::Data(self.tenant.clone(), key, part);
            let fetched = self.objects.get(&name, Some(within), PART_BYTES)?;
            let mut fetched = fetched.ok_or_else(|| Untransferred::Gone(name.clone()))?;
            if fetched.len() != length(&piece) {
                return Err(of_length(&name, fetched.len() as u64, length(&piece) as u64));
            }
            found.append(&mut fetched);
            at = piece.end;
        }
        Ok(found)
    }

    /// Fetches an object of at most [`PART_BYTES`] with a known length and hash.
    ///
    /// # Errors
    /// The object is absent, or has other bytes.
    pub fn small(&self, key: DataKey, bytes: u64, sha256: Hash) -> Result<Vec<u8>, Untransferred> {
        let mut all = Vec::new();
        for part in 0..count(bytes) {
            all.append(&mut self.part(key, part, length(&range(bytes, part)))?);
        }
        let found = Hash::of(&all);
        if found == sha256 { Ok(all) } else { Err(other(key, found, sha256)) }
    }

    /// Returns true if there is an object of this name and length.
    fn has(&self, name: &Key, bytes: u64) -> Result<bool, Untransferred> {
        Ok(self.objects.head(name)?.is_some_and(|about| about.bytes == bytes))
    }

    /// Checks that all parts of an object exist with the right lengths.
    pub(crate) fn check_lengths(&self, key: DataKey, bytes: u64) -> Result<(), Untransferred> {
        (0..count(bytes)).try_for_each(|part| {
            let name = Key::Data(self.tenant.clone(), key, part);
            let wanted = length(&range(bytes, part)) as u64;
            match self.objects.head(&name)? {
                None => Err(Untransferred::Gone(name)),
                Some(about) if about.bytes == wanted => Ok(()),
                Some(about) => Err(of_length(&name, about.bytes, wanted)),
            }
        })
    }

    /// Checks that an object exists and has this hash.
    pub(crate) fn check_bytes(
        &self,
        key: DataKey,
        bytes: u64,
        sha256: Hash,
    ) -> Result<(), Untransferred> {
        let mut hasher = Sha256::new();
        for part in 0..count(bytes) {
            hasher.update(self.part(key, part, length(&range(bytes, part)))?);
        }
        let found = Hex(hasher.finalize().into());
        if found == sha256 { Ok(()) } else { Err(other(key, found, sha256)) }
    }

    /// Fetches one part, which must have this length.
    fn part(&self, key: DataKey, part: u32, bytes: usize) -> Result<Vec<u8>, Untransferred> {
        let name = Key::Data(self.tenant.clone(), key, part);
        let found = self.objects.get(&name, None, PART_BYTES)?;
        let found = found.ok_or_else(|| Untransferred::Gone(name.clone()))?;
        if found.len() == bytes {
            return Ok(found);
        }
        Err(of_length(&name, found.len() as u64, bytes as u64))
    }
}

fn of_length(name: &Key, found: u64, wanted: u64) -> Untransferred {
    Untransferred::Other(format!("{name} has {found} bytes instead of {wanted}"))
}

fn other(key: DataKey, found: Hash, wanted: Hash) -> Untransferred {
    Untransferred::Other(format!("{key} hashes to {found} instead of {wanted}"))
}

fn length(place: &Range<u64>) -> usize {
    usize::try_from(place.end - place.start).expect("a part is shorter than memory")
}

/// Calls `work` for each number below `count`, on up to [`TRANSFERS_MAX`] threads, until a call fails or `goes_on`
/// returns false.
fn in_parallel(
    count: usize,
    goes_on: &(dyn Fn() -> bool + Sync),
    work: impl Fn(usize) -> Result<(), Untransferred> + Sync,
) -> Result<(), Untransferred> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let one = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return;
            }
            let done = if goes_on() { work(at) } else { Err(Untransferred::Stopped) };
            if let Err(why) = done {
                // No thread starts another call.
                next.store(count, Ordering::Relaxed);
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
                return;
            }
        }
    };
    match count.min(TRANSFERS_MAX) {
        0 | 1 => one(),
        threads => thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(one);
            }
            one();
        }),
    }
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
