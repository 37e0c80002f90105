//! An object store and the chains on it, in memory: honest, and away when it is told to be.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use remote::{About, Away, Beat, Chain, Edge, Key, NodeId, Objects, Tenant, Tried};

/// Objects by the text of their keys.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    is_away: AtomicBool,
    /// How many requests were made.
    pub(crate) requests: AtomicU64,
}

impl Memory {
    /// Whether it answers from now on.
    pub(crate) fn answers(&self, answers: bool) {
        self.is_away.store(!answers, Ordering::SeqCst);
    }

    /// The names of all objects that begin so.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        self.lock().keys().filter(|name| name.starts_with(prefix)).cloned().collect()
    }

    /// Changes an object.
    pub(crate) fn tamper(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        change(self.lock().get_mut(name).expect("it is there"));
    }

    /// Whether any object has these bytes in it.
    pub(crate) fn holds(&self, text: &str) -> bool {
        let wanted = text.as_bytes();
        let has = |bytes: &Vec<u8>| bytes.windows(wanted.len()).any(|part| part == wanted);
        self.lock().values().any(has)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn here(&self) -> Result<MutexGuard<'_, BTreeMap<String, Vec<u8>>>, Away> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        if self.is_away.load(Ordering::SeqCst) {
            return Err(Away { why: "it is away".into(), may_pass: true });
        }
        Ok(self.lock())
    }
}

impl Objects for Memory {
    fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), Away> {
        self.here()?.insert(key.to_string(), bytes.to_vec());
        Ok(())
    }

    fn put_new(&self, key: &Key, bytes: &[u8]) -> Tried {
        let Ok(mut objects) = self.here() else { return Tried::Unsure("it is away".into()) };
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
        let objects = self.here()?;
        let Some(bytes) = objects.get(&key.to_string()) else { return Ok(None) };
        let (from, to) = range.map_or((0, bytes.len()), |range| {
            let at = |place: u64| usize::try_from(place).unwrap().min(bytes.len());
            (at(range.start), at(range.end))
        });
        let bytes = bytes[from..to].to_vec();
        assert!(bytes.len() as u64 <= most, "{key} is larger than was asked for");
        Ok(Some(bytes))
    }

    fn head(&self, key: &Key) -> Result<Option<About>, Away> {
        let objects = self.here()?;
        let about =
            |bytes: &Vec<u8>| About { key: key.clone(), bytes: bytes.len() as u64, age_s: 0 };
        Ok(objects.get(&key.to_string()).map(about))
    }

    fn list(&self, prefix: &str, after: Option<&Key>, most: usize) -> Result<Vec<About>, Away> {
        let objects = self.here()?;
        let after = after.map(ToString::to_string).unwrap_or_default();
        let found = objects.iter().filter(|(name, _)| name.starts_with(prefix) && **name > after);
        let about = |(name, bytes): (&String, &Vec<u8>)| {
            Some(About { key: Key::parse(name)?, bytes: bytes.len() as u64, age_s: 0 })
        };
        Ok(found.filter_map(about).take(most).collect())
    }

    fn remove(&self, keys: &[Key]) -> Result<(), Away> {
        let mut objects = self.here()?;
        for key in keys {
            objects.remove(&key.to_string());
        }
        Ok(())
    }
}

impl Chain for Memory {
    fn create(&self, tenant: &Tenant, number: u64, bytes: &[u8]) -> Tried {
        self.put_new(&Key::Chain(tenant.clone(), number), bytes)
    }

    fn read(&self, tenant: &Tenant, number: u64) -> Result<Option<Vec<u8>>, Away> {
        self.get(&Key::Chain(tenant.clone(), number), None, u64::MAX)
    }

    fn numbers(&self, tenant: &Tenant, after: u64, most: usize) -> Result<Vec<u64>, Away> {
        let after = Key::Chain(tenant.clone(), after);
        let listed = self.list(&format!("t/{tenant}/chain/"), Some(&after), most)?;
        let number = |about: About| match about.key {
            Key::Chain(_, number) => Some(number),
            _ => None,
        };
        Ok(listed.into_iter().filter_map(number).collect())
    }

    fn edge(&self, tenant: &Tenant) -> Result<Edge, Away> {
        let listed = self.list(&format!("t/{tenant}/edge/"), None, usize::MAX)?;
        let Some(newest) = listed.last() else { return Ok(Edge::default()) };
        let bytes = self.get(&newest.key, None, u64::MAX)?.unwrap_or_default();
        Edge::decode(&bytes).map_err(|damage| Away { why: damage.to_string(), may_pass: false })
    }

    fn raise_edge(&self, tenant: &Tenant, edge: &Edge) -> Tried {
        self.put_new(&Key::Edge(tenant.clone(), edge.boundary), &edge.encode())
    }

    fn remove(&self, tenant: &Tenant, numbers: &[u64]) -> Result<(), Away> {
        let keys: Vec<Key> =
            numbers.iter().map(|number| Key::Chain(tenant.clone(), *number)).collect();
        Objects::remove(self, &keys)
    }

    fn beat(&self, beat: &Beat) -> Result<(), Away> {
        self.put(&Key::Beat(beat.node.clone()), &beat.encode())
    }

    fn beats(&self) -> Result<Vec<Beat>, Away> {
        let listed = self.list("node/", None, usize::MAX)?;
        let nodes = listed.into_iter().filter_map(|about| match about.key {
            Key::Beat(node) => Some(node),
            _ => None,
        });
        let nodes: Vec<NodeId> = nodes.collect();
        let mut beats = Vec::new();
        for node in nodes {
            if let Some(bytes) = self.get(&Key::Beat(node), None, u64::MAX)? {
                beats.extend(Beat::decode(&bytes));
            }
        }
        Ok(beats)
    }

    fn guards_edge(&self) -> bool {
        false
    }
}
