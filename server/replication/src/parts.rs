//! A file as objects: cut into parts, sent from a disk and fetched back, several parts at a time.
//!
//! Knows lengths and hashes; not what files are for, nor how long anybody waits for them.

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

/// Bytes that are read at once to be hashed.
const HASHED_TOGETHER: usize = 1 << 20;

/// Where files of a workspace lie.
#[derive(Debug, Clone, Copy)]
pub struct Shelf<'a> {
    /// The object store.
    pub objects: &'a dyn Objects,
    /// Whose files.
    pub tenant: &'a Tenant,
}

/// Why a file was not sent or not fetched.
#[derive(Debug)]
pub enum Untransferred {
    /// The object store did not do it, or did not say so.
    Away(Away),
    /// An object is not there. Where a record names it, the record is not needed any more, or the store has
    /// lost it.
    Gone(Key),
    /// What came has another length or hash than it must have (REM-05).
    Other(String),
    /// The disk of this machine.
    Disk(String),
    /// It may be tried again later.
    Later(String),
    /// Nobody wants it any more.
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

/// How many parts a file of so many bytes has.
#[must_use]
pub(crate) fn count(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(PART_BYTES)).unwrap_or(u32::MAX)
}

/// The bytes of a file that are in a part.
fn range(bytes: u64, part: u32) -> Range<u64> {
    let from = u64::from(part) * PART_BYTES;
    from..bytes.min(from + PART_BYTES)
}

/// A file on its way to the object store. What was sent stays sent where the way is broken.
#[derive(Debug)]
pub struct Upload {
    key: DataKey,
    /// The place of its first byte in the source.
    from: u64,
    bytes: u64,
    parts: Vec<Part>,
}

/// A part on its way.
#[derive(Debug, Default)]
struct Part {
    /// Whether it is said to be there: then it is looked for before it is sent.
    is_said: bool,
    /// Whether it is there.
    is_sent: AtomicBool,
}

/// Runs of parts, each from its first to its last; ascending.
pub(crate) type Runs = Vec<(u32, u32)>;

impl Upload {
    /// Of the bytes `from..to` of a source, as the object `key`.
    #[must_use]
    pub fn new(key: DataKey, from: u64, to: u64) -> Self {
        let bytes = to.saturating_sub(from);
        let parts = (0..count(bytes)).map(|_| Part::default()).collect();
        Self { key, from, bytes, parts }
    }

    /// The same of a whole file, of which these parts are said to be there.
    pub(crate) fn resumed(key: DataKey, bytes: u64, said: &[(u32, u32)]) -> Self {
        let mut upload = Self::new(key, 0, bytes);
        for (number, part) in (0..).zip(&mut upload.parts) {
            part.is_said = said.iter().any(|(first, last)| (*first..=*last).contains(&number));
        }
        upload
    }

    /// What the object is called.
    pub(crate) fn key(&self) -> DataKey {
        self.key
    }

    /// The parts that are there, or said to be.
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

    /// Sends the parts that are not there yet, up to [`TRANSFERS_MAX`] at a time, for as long as `goes_on`. `sent` is
    /// told of each how many bytes it had.
    ///
    /// # Errors
    /// The first thing that went wrong; what was sent is not sent again.
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

/// The hash of the bytes `from..to` of a file on disk.
///
/// # Errors
/// They cannot be read.
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
    /// Fetches an object of `bytes` bytes into an empty file, up to [`TRANSFERS_MAX`] parts at a time; its hash must
    /// be `sha256`. It is not synced.
    ///
    /// # Errors
    /// Whatever went wrong first; the file has anything in it then.
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

    /// Some bytes of an object of `bytes` bytes. Nothing is known of them but how many they must be.
    ///
    /// # Errors
    /// A part is not there, or is shorter.
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

    /// The bytes of an object of at most [`PART_BYTES`], whose length and hash are known.
    ///
    /// # Errors
    /// It is not there, or is another one.
    pub fn small(&self, key: DataKey, bytes: u64, sha256: Hash) -> Result<Vec<u8>, Untransferred> {
        let mut all = Vec::new();
        for part in 0..count(bytes) {
            all.append(&mut self.part(key, part, length(&range(bytes, part)))?);
        }
        let found = Hash::of(&all);
        if found == sha256 { Ok(all) } else { Err(other(key, found, sha256)) }
    }

    /// Whether there is an object of this name and length.
    fn has(&self, name: &Key, bytes: u64) -> Result<bool, Untransferred> {
        Ok(self.objects.head(name)?.is_some_and(|about| about.bytes == bytes))
    }

    /// Whether an object of so many bytes is there in all its parts, by their lengths.
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

    /// Whether it is there and hashes to this.
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

    /// One part, which must have this length.
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

/// Does `work` for each number below `count`, on up to [`TRANSFERS_MAX`] threads, until one fails or nobody
/// wants it any more.
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
                // Nobody begins another one.
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
