//! Storage in memory: objects and a record log. Each request is executed at once, as one step. The world decides which
//! requests are late, lost or reported wrongly.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use recalld_replication::core::{Answer, Ask};
use recalld_replication::{
    About, Away, Beat, Chain, Edge, Hash, Key, NodeId, Nonce, Objects, Tenant, Tried,
};

const SECOND: u64 = 1_000_000_000;

/// Kind of a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// Objects that honour `If-None-Match: *`.
    Objects,
    /// Record logs by transactions that check the low watermark and the writer's lease.
    Guarded,
    /// Objects that accept the condition and ignore it.
    Blind,
    /// Objects that check the condition first and write later.
    Racy,
}

/// A change of the storage, for the checker.
#[derive(Debug)]
pub(crate) enum Happened {
    Created(u64, Vec<u8>),
    RecordsRemoved(Vec<u64>),
    ObjectsRemoved(Vec<Key>),
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) flavour: Flavour,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) now: u64,
    pub(crate) chain: BTreeMap<u64, (Vec<u8>, u64)>,
    pub(crate) objects: BTreeMap<String, (Key, Vec<u8>, u64)>,
    beats: BTreeMap<NodeId, (Beat, u64)>,
    happened: Vec<Happened>,
}

/// Storage as one process sees it.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) store: Arc<Store>,
    pub(crate) node: NodeId,
    pub(crate) run: Nonce,
    /// Result of an earlier check of the condition (racy storage).
    pub(crate) looked: Option<bool>,
    /// True if the object of a long record was put before, by a request of its own.
    pub(crate) has_body: bool,
}

/// Object of a long record on a transactional storage. In the simulation the record's hash decides if it is long.
pub(crate) fn body_of(tenant: &Tenant, number: u64, bytes: &[u8]) -> Option<Key> {
    let half = Hash::of(bytes).half();
    half.0[0].is_multiple_of(2).then(|| Key::Body(tenant.clone(), number, half))
}

impl Store {
    pub(crate) fn new(flavour: Flavour) -> Arc<Self> {
        Arc::new(Self { flavour, state: Mutex::default() })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn happened(&self) -> Vec<Happened> {
        std::mem::take(&mut self.state().happened)
    }
}

impl State {
    pub(crate) fn edge(&self, tenant: &Tenant) -> Edge {
        let edges = self.objects.range(format!("t/{tenant}/edge/")..format!("t/{tenant}/edge0"));
        edges.last().map_or_else(Edge::default, |(_, (_, bytes, _))| Edge::decode(bytes).unwrap())
    }
}

impl View {
    pub(crate) fn perform(&self, tenant: &Tenant, ask: &Ask) -> Answer {
        ask.perform(tenant, self, self)
    }

    /// Returns true if the key of this create is free; `None` for other requests.
    pub(crate) fn is_free(&self, ask: &Ask) -> Option<bool> {
        let state = self.store.state();
        match ask {
            Ask::Create { number, .. } => Some(!state.chain.contains_key(number)),
            Ask::PutNew(key, _) => Some(!state.objects.contains_key(&key.to_string())),
            _ => None,
        }
    }

    /// Object that must be put before this create, by a request of its own.
    pub(crate) fn body_before(&self, tenant: &Tenant, ask: &Ask) -> Option<(Key, Arc<[u8]>)> {
        let Ask::Create { number, bytes } = ask else { return None };
        let is_guarded = self.store.flavour == Flavour::Guarded && !self.has_body;
        let key = body_of(tenant, *number, bytes).filter(|_| is_guarded)?;
        Some((key, Arc::clone(bytes)))
    }

    fn may_create(&self, is_free: bool) -> bool {
        match self.store.flavour {
            Flavour::Objects | Flavour::Guarded => is_free,
            Flavour::Blind => true,
            Flavour::Racy => self.looked.unwrap_or(is_free),
        }
    }

    fn create_object(&self, key: &Key, bytes: &[u8]) -> Tried {
        let mut state = self.store.state();
        let now = state.now;
        if !self.may_create(!state.objects.contains_key(&key.to_string())) {
            return Tried::Unsure("412".into());
        }
        state.objects.insert(key.to_string(), (key.clone(), bytes.to_vec(), now));
        Tried::Made
    }
}

impl Chain for View {
    fn create(&self, tenant: &Tenant, number: u64, bytes: &[u8]) -> Tried {
        let ask = Ask::Create { number, bytes: bytes.into() };
        if let Some((key, bytes)) = self.body_before(tenant, &ask) {
            let _put = self.put(&key, &bytes);
        }
        let mut state = self.store.state();
        let now = state.now;
        if self.store.flavour == Flavour::Guarded {
            let lives = |(beat, until): &(Beat, u64)| beat.run == self.run && *until > now;
            if number <= state.edge(tenant).boundary
                || !state.beats.get(&self.node).is_some_and(lives)
            {
                return Tried::Unsure("the guard".into());
            }
        }
        if !self.may_create(!state.chain.contains_key(&number)) {
            return Tried::Unsure("412".into());
        }
        state.chain.insert(number, (bytes.to_vec(), now));
        state.happened.push(Happened::Created(number, bytes.to_vec()));
        Tried::Made
    }

    fn read(&self, tenant: &Tenant, number: u64) -> Result<Option<Vec<u8>>, Away> {
        let state = self.store.state();
        let Some((bytes, _)) = state.chain.get(&number) else { return Ok(None) };
        let body = body_of(tenant, number, bytes);
        let body = body.filter(|_| self.store.flavour == Flavour::Guarded);
        match body.filter(|key| !state.objects.contains_key(&key.to_string())) {
            None => Ok(Some(bytes.clone())),
            Some(key) => Err(Away { why: format!("{key} is not there"), may_pass: true }),
        }
    }

    fn age(&self, _: &Tenant, _: u64) -> Result<Option<Duration>, Away> {
        unreachable!("nothing is emptied here")
    }

    fn numbers(&self, _: &Tenant, after: u64, most: usize) -> Result<Vec<u64>, Away> {
        Ok(self
            .store
            .state()
            .chain
            .range(after + 1..)
            .map(|(number, _)| *number)
            .take(most)
            .collect())
    }

    fn edge(&self, tenant: &Tenant) -> Result<Edge, Away> {
        Ok(self.store.state().edge(tenant))
    }

    fn raise_edge(&self, tenant: &Tenant, edge: &Edge) -> Tried {
        let is_lower = edge.place() <= self.store.state().edge(tenant).place();
        if self.store.flavour == Flavour::Guarded && is_lower {
            return Tried::Unsure("it is higher".into());
        }
        let (boundary, turn) = edge.place();
        self.create_object(&Key::Edge(tenant.clone(), boundary, turn), &edge.encode())
    }

    fn remove(&self, _: &Tenant, numbers: &[u64]) -> Result<(), Away> {
        let mut state = self.store.state();
        let there = numbers.iter().copied().filter(|number| state.chain.contains_key(number));
        let there: Vec<u64> = there.collect();
        state.chain.retain(|number, _| !there.contains(number));
        state.happened.push(Happened::RecordsRemoved(there));
        Ok(())
    }

    fn beat(&self, beat: &Beat) -> Result<(), Away> {
        let mut state = self.store.state();
        // A key that vanishes frees the workspace at once, so it must live as long as an observer waits: a lease and a
        // quarter.
        let until = state.now + u64::from(beat.lease_s) * SECOND / 4 * 5;
        state.beats.insert(beat.node.clone(), (beat.clone(), until));
        Ok(())
    }

    fn beats(&self) -> Result<Vec<Beat>, Away> {
        let state = self.store.state();
        let is_guarded = self.store.flavour == Flavour::Guarded;
        let lives = |(_, until): &&(Beat, u64)| !is_guarded || *until > state.now;
        Ok(state.beats.values().filter(lives).map(|(beat, _)| beat.clone()).collect())
    }

    fn guards_edge(&self) -> bool {
        self.store.flavour == Flavour::Guarded
    }
}

impl Objects for View {
    fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), Away> {
        let mut state = self.store.state();
        let now = state.now;
        state.objects.insert(key.to_string(), (key.clone(), bytes.to_vec(), now));
        Ok(())
    }

    fn put_new(&self, key: &Key, bytes: &[u8]) -> Tried {
        self.create_object(key, bytes)
    }

    fn get(&self, key: &Key, range: Option<Range<u64>>, _: u64) -> Result<Option<Vec<u8>>, Away> {
        let state = self.store.state();
        let Some((_, bytes, _)) = state.objects.get(&key.to_string()) else { return Ok(None) };
        let at = |at: u64| usize::try_from(at).unwrap().min(bytes.len());
        let range = range.map_or(0..bytes.len(), |range| at(range.start)..at(range.end));
        Ok(Some(bytes[range].to_vec()))
    }

    fn head(&self, key: &Key) -> Result<Option<About>, Away> {
        let state = self.store.state();
        Ok(state.objects.get(&key.to_string()).map(|object| about(object, state.now)))
    }

    fn list(&self, prefix: &str, after: Option<&Key>, most: usize) -> Result<Vec<About>, Away> {
        let state = self.store.state();
        let after = after.map(Key::to_string).unwrap_or_default();
        let found = state.objects.range(prefix.to_owned()..);
        let found = found.take_while(|(name, _)| name.starts_with(prefix));
        let found = found.filter(|(name, _)| **name > after).take(most);
        Ok(found.map(|(_, object)| about(object, state.now)).collect())
    }

    fn remove(&self, keys: &[Key]) -> Result<(), Away> {
        let mut state = self.store.state();
        state.objects.retain(|_, (key, _, _)| !keys.contains(key));
        state.happened.push(Happened::ObjectsRemoved(keys.to_vec()));
        Ok(())
    }
}

fn about((key, bytes, written): &(Key, Vec<u8>, u64), now: u64) -> About {
    About { key: key.clone(), bytes: bytes.len() as u64, age_s: (now - written) / SECOND }
}
