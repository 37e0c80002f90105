//! Object store in memory: correct, and unavailable on request.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use recalld_replication::{About, Away, Key, Objects, Tried};

use crate::plain::Plain;

/// Objects, with settings and counters.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    objects: Plain,
    is_away: AtomicBool,
    /// Number of further parts of files that the store accepts; `None` for any number.
    room: Mutex<Option<usize>>,
    /// Parts of files that were put.
    put: Mutex<Vec<String>>,
    pub(crate) requests: AtomicU64,
    /// Bytes of files that were read, and number of those reads.
    pub(crate) read: AtomicU64,
    pub(crate) reads: AtomicU64,
    /// If not 0, one of this many such reads fails.
    pub(crate) one_fails_of: AtomicU64,
    /// Ages of some objects in seconds, by the store's clock; all others are new.
    pub(crate) ages: Mutex<BTreeMap<String, u64>>,
}

impl Memory {
    /// Makes the store available or unavailable.
    pub(crate) fn answers(&self, answers: bool) {
        self.is_away.store(!answers, Ordering::SeqCst);
    }

    /// Sets the number of further parts of files that the store accepts.
    pub(crate) fn takes(&self, parts: Option<usize>) {
        *self.room.lock().unwrap() = parts;
    }

    /// Parts of files that were put since the last call.
    pub(crate) fn put_since(&self) -> Vec<String> {
        std::mem::take(&mut self.put.lock().unwrap())
    }

    /// Names of all objects with this prefix.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        self.lock().keys().filter(|name| name.starts_with(prefix)).cloned().collect()
    }

    pub(crate) fn tamper(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        change(self.lock().get_mut(name).expect("it is there"));
    }

    /// Puts an object under any name.
    pub(crate) fn insert(&self, name: &str, bytes: Vec<u8>) {
        self.lock().insert(name.to_owned(), bytes);
    }

    pub(crate) fn forget(&self, name: &str) {
        self.lock().remove(name).expect("it is there");
    }

    /// Returns true if any object contains these bytes.
    pub(crate) fn holds(&self, text: &str) -> bool {
        let wanted = text.as_bytes();
        let has = |bytes: &Vec<u8>| bytes.windows(wanted.len()).any(|part| part == wanted);
        self.lock().values().any(has)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.objects.lock()
    }

    fn here(&self) -> Result<&Plain, Away> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        if self.is_away.load(Ordering::SeqCst) {
            return Err(Away { why: "it is away".into(), may_pass: true });
        }
        Ok(&self.objects)
    }
}

impl Objects for Memory {
    fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), Away> {
        let objects = self.here()?;
        if matches!(key, Key::Data(..)) {
            match &mut *self.room.lock().unwrap() {
                Some(0) => return Err(Away { why: "it takes no more".into(), may_pass: true }),
                Some(room) => *room -= 1,
                None => {}
            }
            self.put.lock().unwrap().push(key.to_string());
        }
        objects.put(key, bytes)
    }

    fn put_new(&self, key: &Key, bytes: &[u8]) -> Tried {
        match self.here() {
            Ok(objects) => objects.put_new(key, bytes),
            Err(away) => Tried::Unsure(away.why),
        }
    }

    fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Away> {
        let found = self.here()?.get(key, range, most)?;
        if let (Key::Data(..), Some(bytes)) = (key, &found) {
            self.read.fetch_add(bytes.len() as u64, Ordering::SeqCst);
            let reads = self.reads.fetch_add(1, Ordering::SeqCst);
            let of = self.one_fails_of.load(Ordering::SeqCst);
            if of > 0 && reads.is_multiple_of(of) {
                return Err(Away { why: "it is away".into(), may_pass: true });
            }
        }
        Ok(found)
    }

    fn head(&self, key: &Key) -> Result<Option<About>, Away> {
        let found = self.here()?.head(key)?;
        let age_s = self.ages.lock().unwrap().get(&key.to_string()).copied().unwrap_or_default();
        Ok(found.map(|about| About { age_s, ..about }))
    }

    fn list(&self, prefix: &str, after: Option<&Key>, most: usize) -> Result<Vec<About>, Away> {
        self.here()?.list(prefix, after, most)
    }

    fn remove(&self, keys: &[Key]) -> Result<(), Away> {
        self.here()?.remove(keys)
    }
}
