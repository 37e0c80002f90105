//! Objects in memory, always correct and available: the base of the stores in tests.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use recalld_replication::{About, Away, Key, Objects, Tried};

/// Objects by the text of their keys.
#[derive(Debug, Default)]
pub(crate) struct Plain(Mutex<BTreeMap<String, Vec<u8>>>);

impl Plain {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Objects for Plain {
    fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), Away> {
        self.lock().insert(key.to_string(), bytes.to_vec());
        Ok(())
    }

    fn put_new(&self, key: &Key, bytes: &[u8]) -> Tried {
        let mut objects = self.lock();
        let name = key.to_string();
        if objects.contains_key(&name) {
            return Tried::Unsure("412".into());
        }
        objects.insert(name, bytes.to_vec());
        Tried::Made
    }

    fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Away> {
        let objects = self.lock();
        let Some(bytes) = objects.get(&key.to_string()) else { return Ok(None) };
        let (from, to) = range.map_or((0, bytes.len()), |range| {
            let at = |place: u64| usize::try_from(place).unwrap().min(bytes.len());
            (at(range.start), at(range.end))
        });
        let found = bytes[from..to].to_vec();
        if found.len() as u64 > most {
            let why = format!("{key} is larger than was asked for");
            return Err(Away { why, may_pass: false });
        }
        Ok(Some(found))
    }

    fn head(&self, key: &Key) -> Result<Option<About>, Away> {
        let objects = self.lock();
        let about =
            |bytes: &Vec<u8>| About { key: key.clone(), bytes: bytes.len() as u64, age_s: 0 };
        Ok(objects.get(&key.to_string()).map(about))
    }

    fn list(&self, prefix: &str, after: Option<&Key>, most: usize) -> Result<Vec<About>, Away> {
        let objects = self.lock();
        let after = after.map(ToString::to_string).unwrap_or_default();
        let found = objects.iter().filter(|(name, _)| name.starts_with(prefix) && **name > after);
        let about = |(name, bytes): (&String, &Vec<u8>)| {
            Some(About { key: Key::parse(name)?, bytes: bytes.len() as u64, age_s: 0 })
        };
        Ok(found.filter_map(about).take(most).collect())
    }

    fn remove(&self, keys: &[Key]) -> Result<(), Away> {
        let mut objects = self.lock();
        for key in keys {
            objects.remove(&key.to_string());
        }
        Ok(())
    }
}
