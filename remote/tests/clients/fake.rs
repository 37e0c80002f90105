//! Objects in memory: honest, or as stores are met that are not.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Barrier, Mutex};

use remote::limits::{PROBE_RACERS, PROBE_ROUNDS};
use remote::{About, Away, Chain, Key, ObjectChain, Objects, Tried};

use crate::suite;

/// What is wrong with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Nothing.
    None,
    /// It takes `If-None-Match: *` and does not look at it.
    Ignores,
    /// It looks first and writes later: those who ask at the same time all win.
    LooksFirst,
    /// It tells one that it won, and keeps another's.
    KeepsAnother,
    /// What was just put there is not listed.
    ListsLate,
    /// Removes nothing.
    Keeps,
    /// Minds only what was created, not what was put.
    Overwrites,
    /// A range is from the beginning.
    WrongRange,
}

/// Objects in memory.
#[derive(Debug)]
pub(crate) struct Fake {
    flaw: Flaw,
    objects: Mutex<BTreeMap<String, (Key, Vec<u8>)>>,
    together: Barrier,
}

impl Fake {
    /// An empty store.
    pub(crate) fn open(flaw: Flaw) -> Arc<dyn Objects> {
        let together = Barrier::new(PROBE_RACERS);
        Arc::new(Self { flaw, objects: Mutex::default(), together })
    }
}

impl Objects for Fake {
    fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), Away> {
        let value = (key.clone(), bytes.to_vec());
        self.objects.lock().unwrap().insert(key.to_string(), value);
        Ok(())
    }

    fn put_new(&self, key: &Key, bytes: &[u8]) -> Tried {
        let name = key.to_string();
        let value = (key.clone(), bytes.to_vec());
        if self.flaw == Flaw::LooksFirst {
            let is_there = self.objects.lock().unwrap().contains_key(&name);
            self.together.wait();
            if !is_there {
                self.objects.lock().unwrap().insert(name, value);
                return Tried::Made;
            }
            return Tried::Unsure("409".into());
        }
        let mut objects = self.objects.lock().unwrap();
        let is_there = objects.contains_key(&name);
        match self.flaw {
            Flaw::Overwrites if matches!(key, Key::Probe(_, PROBE_ROUNDS)) => {
                objects.insert(name, value);
            }
            Flaw::Ignores => drop(objects.insert(name, value)),
            Flaw::KeepsAnother if is_there => {
                objects.insert(name, value);
                return Tried::Unsure("500".into());
            }
            _ if is_there => return Tried::Unsure("412".into()),
            _ => drop(objects.insert(name, value)),
        }
        Tried::Made
    }

    fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Away> {
        let objects = self.objects.lock().unwrap();
        let Some((_, bytes)) = objects.get(&key.to_string()) else { return Ok(None) };
        let mut range = range.unwrap_or(0..bytes.len() as u64);
        if self.flaw == Flaw::WrongRange {
            range = 0..range.end - range.start;
        }
        let place = |at: u64| usize::try_from(at).unwrap().min(bytes.len());
        let found = bytes[place(range.start)..place(range.end)].to_vec();
        if found.len() as u64 > most {
            return Err(Away { why: "too long".into(), may_pass: false });
        }
        Ok(Some(found))
    }

    fn head(&self, key: &Key) -> Result<Option<About>, Away> {
        let objects = self.objects.lock().unwrap();
        let about = |(key, bytes): &(Key, Vec<u8>)| {
            let (key, bytes) = (key.clone(), bytes.len() as u64);
            About { key, bytes, age_s: 0 }
        };
        Ok(objects.get(&key.to_string()).map(about))
    }

    fn list(&self, prefix: &str, after: Option<&Key>, most: usize) -> Result<Vec<About>, Away> {
        if self.flaw == Flaw::ListsLate {
            return Ok(Vec::new());
        }
        let after = after.map(Key::to_string);
        let objects = self.objects.lock().unwrap();
        let found = objects
            .iter()
            .filter(|(name, _)| name.starts_with(prefix) && Some(*name) > after.as_ref())
            .take(most);
        let about = |(key, bytes): &(Key, Vec<u8>)| About {
            key: key.clone(),
            bytes: bytes.len() as u64,
            age_s: 0,
        };
        Ok(found.map(|(_, object)| about(object)).collect())
    }

    fn remove(&self, keys: &[Key]) -> Result<(), Away> {
        if self.flaw != Flaw::Keeps {
            let mut objects = self.objects.lock().unwrap();
            keys.iter().for_each(|key| drop(objects.remove(&key.to_string())));
        }
        Ok(())
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
