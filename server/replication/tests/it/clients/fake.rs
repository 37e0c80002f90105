//! Objects in memory: a correct store, and the flawed kinds of stores found in practice.

use std::ops::Range;
use std::sync::{Arc, Barrier};

use recalld_replication::limits::{PROBE_RACERS, PROBE_ROUNDS};
use recalld_replication::{About, Away, Chain, Key, ObjectChain, Objects, Tried};

use super::suite;
use crate::plain::Plain;

/// Flaw of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// No flaw.
    None,
    /// Accepts `If-None-Match: *` and ignores it.
    Ignores,
    /// Checks first and writes later: all concurrent writers win.
    LooksFirst,
    /// Reports success to one writer and stores the bytes of another.
    KeepsAnother,
    /// Does not list new objects.
    ListsLate,
    /// Removes nothing.
    Keeps,
    /// Honours the condition for objects from conditional puts, not for those from plain puts.
    Overwrites,
    /// Serves a range from the start of the object.
    WrongRange,
}

/// Objects in memory.
#[derive(Debug)]
pub(crate) struct Fake {
    flaw: Flaw,
    objects: Plain,
    together: Barrier,
}

impl Fake {
    pub(crate) fn open(flaw: Flaw) -> Arc<dyn Objects> {
        let together = Barrier::new(PROBE_RACERS);
        Arc::new(Self { flaw, objects: Plain::default(), together })
    }
}

impl Objects for Fake {
    fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), Away> {
        self.objects.put(key, bytes)
    }

    fn put_new(&self, key: &Key, bytes: &[u8]) -> Tried {
        let overwrite = || self.objects.lock().insert(key.to_string(), bytes.to_vec()).is_some();
        match self.flaw {
            Flaw::LooksFirst => {
                let is_there = self.objects.lock().contains_key(&key.to_string());
                self.together.wait();
                if is_there {
                    return Tried::Unsure("409".into());
                }
                overwrite();
            }
            Flaw::Overwrites if matches!(key, Key::Probe(_, PROBE_ROUNDS)) => drop(overwrite()),
            Flaw::Ignores => drop(overwrite()),
            Flaw::KeepsAnother if overwrite() => return Tried::Unsure("500".into()),
            Flaw::KeepsAnother => {}
            _ => return self.objects.put_new(key, bytes),
        }
        Tried::Made
    }

    fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Away> {
        let range = match range {
            Some(range) if self.flaw == Flaw::WrongRange => Some(0..range.end - range.start),
            range => range,
        };
        self.objects.get(key, range, most)
    }

    fn head(&self, key: &Key) -> Result<Option<About>, Away> {
        self.objects.head(key)
    }

    fn list(&self, prefix: &str, after: Option<&Key>, most: usize) -> Result<Vec<About>, Away> {
        match self.flaw {
            Flaw::ListsLate => Ok(Vec::new()),
            _ => self.objects.list(prefix, after, most),
        }
    }

    fn remove(&self, keys: &[Key]) -> Result<(), Away> {
        if self.flaw == Flaw::Keeps { Ok(()) } else { self.objects.remove(keys) }
    }
}

#[test]
fn objects_in_memory_pass_the_suite() {
    suite::objects(&Fake::open(Flaw::None));
}

#[test]
fn chains_on_them_pass_the_suite() {
    let objects = Fake::open(Flaw::None);
    let chains = [ObjectChain::new(Arc::clone(&objects)), ObjectChain::new(objects)];
    suite::chain(&chains[0] as &dyn Chain, &chains[1] as &dyn Chain);
}
