//! Record logs as objects, for stores that honour `If-None-Match: *`.

use std::sync::Arc;
use std::time::Duration;

use super::Chain;
use crate::beat::Beat;
use crate::edge::Edge;
use crate::limits::{
    BEAT_BYTES_MAX, EDGE_BYTES_MAX, FIND_TRIES_MAX, NODES_MAX, NUMBERS_AT_ONCE, RECORD_BYTES_MAX,
};
use crate::names::{Key, Tenant};
use crate::objects::{Away, Objects, Tried};

/// Record logs whose records are stored beside the data.
#[derive(Debug)]
pub struct ObjectChain {
    objects: Arc<dyn Objects>,
}

impl ObjectChain {
    /// Makes the record logs of this object store.
    #[must_use]
    pub fn new(objects: Arc<dyn Objects>) -> Self {
        Self { objects }
    }

    /// Boundary and turn of the highest watermark.
    fn highest_edge(&self, tenant: &Tenant) -> Result<Option<(u64, u64)>, Away> {
        let prefix = format!("t/{tenant}/edge/");
        let mut highest: Option<(u64, u64)> = None;
        loop {
            let after = highest.map(|(boundary, turn)| Key::Edge(tenant.clone(), boundary, turn));
            let listed = self.objects.list(&prefix, after.as_ref(), NUMBERS_AT_ONCE)?;
            let last = listed.iter().rev().find_map(|about| match about.key {
                Key::Edge(_, boundary, turn) => Some((boundary, turn)),
                _ => None,
            });
            if last.is_none() {
                return Ok(highest);
            }
            highest = last;
            if listed.len() < NUMBERS_AT_ONCE {
                return Ok(highest);
            }
        }
    }
}

impl Chain for ObjectChain {
    fn create(&self, tenant: &Tenant, number: u64, bytes: &[u8]) -> Tried {
        self.objects.put_new(&Key::Chain(tenant.clone(), number), bytes)
    }

    fn read(&self, tenant: &Tenant, number: u64) -> Result<Option<Vec<u8>>, Away> {
        self.objects.get(&Key::Chain(tenant.clone(), number), None, RECORD_BYTES_MAX as u64)
    }

    fn age(&self, tenant: &Tenant, number: u64) -> Result<Option<Duration>, Away> {
        match self.objects.head(&Key::Chain(tenant.clone(), number))? {
            Some(about) => Ok(Some(Duration::from_secs(about.age_s))),
            None => Err(Away { why: format!("record {number} is not there"), may_pass: true }),
        }
    }

    fn numbers(&self, tenant: &Tenant, after: u64, most: usize) -> Result<Vec<u64>, Away> {
        let (prefix, after) = (format!("t/{tenant}/chain/"), Key::Chain(tenant.clone(), after));
        let listed = self.objects.list(&prefix, Some(&after), most)?;
        let number = |key| if let Key::Chain(_, number) = key { Some(number) } else { None };
        Ok(listed.into_iter().filter_map(|about| number(about.key)).collect())
    }

    fn edge(&self, tenant: &Tenant) -> Result<Edge, Away> {
        for _ in 0..FIND_TRIES_MAX {
            let Some(place) = self.highest_edge(tenant)? else { return Ok(Edge::default()) };
            let key = Key::Edge(tenant.clone(), place.0, place.1);
            // The watermark object was removed meanwhile: there is a higher one.
            let Some(bytes) = self.objects.get(&key, None, EDGE_BYTES_MAX as u64)? else {
                continue;
            };
            let wrong = |why: String| Away { why: format!("{key}: {why}"), may_pass: false };
            let edge = Edge::decode(&bytes).map_err(|damage| wrong(damage.to_string()))?;
            if edge.place() != place {
                return Err(wrong(format!("it says that it is edge {}", edge.boundary)));
            }
            return Ok(edge);
        }
        Err(Away { why: format!("edges of {tenant} go faster than they are read"), may_pass: true })
    }

    fn raise_edge(&self, tenant: &Tenant, edge: &Edge) -> Tried {
        let (boundary, turn) = edge.place();
        self.objects.put_new(&Key::Edge(tenant.clone(), boundary, turn), &edge.encode())
    }

    fn remove(&self, tenant: &Tenant, numbers: &[u64]) -> Result<(), Away> {
        let keys: Vec<Key> =
            numbers.iter().map(|&number| Key::Chain(tenant.clone(), number)).collect();
        self.objects.remove(&keys)
    }

    fn beat(&self, beat: &Beat) -> Result<(), Away> {
        self.objects.put(&Key::Beat(beat.node.clone()), &beat.encode())
    }

    fn beats(&self) -> Result<Vec<Beat>, Away> {
        // Each node has at most two objects: its heartbeat and its inventory.
        let listed = self.objects.list("node/", None, 2 * NODES_MAX)?;
        let mut beats = Vec::new();
        for about in listed {
            let Key::Beat(node) = &about.key else { continue };
            let Some(bytes) = self.objects.get(&about.key, None, BEAT_BYTES_MAX as u64)? else {
                continue;
            };
            beats.extend(Beat::decode(&bytes).ok().filter(|beat| beat.node == *node));
        }
        Ok(beats)
    }

    fn guards_edge(&self) -> bool {
        false
    }
}
