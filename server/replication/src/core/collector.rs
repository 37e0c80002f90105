//! Garbage collection: removes records beyond the retention, and objects that no record references.
//!
//! A writer collects its own workspace. The collector may be suspended at any request for any time, and continue after
//! another node has acquired the workspace. This is safe for three reasons. A watermark that it publishes is as valid
//! as before, nobody needs records at or below a watermark, and no object of a newer epoch is removed (REM-30, REM-32,
//! REM-33).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::newest::{Lost, read_whole};
use super::noted::Noted;
use super::pin::pins;
use super::port::Port;
use super::retain::{Retention, plan};
use crate::edge::Edge;
use crate::fault::Damage;
use crate::hex::Nonce;
use crate::limits::{CHAIN_KEPT_MIN, EDGES_KEPT, FIND_TRIES_MAX, NUMBERS_AT_ONCE};
use crate::names::{DataKey, Key};
use crate::objects::{Away, Tried};
use crate::ticks::Ticks;

/// Returns true if the writer still needs an object that no record references yet. For the writer's own epoch, this is
/// an upload, complete or in progress; for an earlier epoch, an upload to be adopted.
///
/// The result must be true from before the upload starts until [`Collector::note`] has received the record that
/// references the object, or until the upload is abandoned.
pub type Live<'a> = &'a dyn Fn(&DataKey) -> bool;

/// Report of one collection.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Removed records.
    pub records: usize,
    /// Removed objects.
    pub objects: usize,
    /// Removable records that still exist: not known for long enough, or pinned.
    pub waiting: usize,
    /// Number up to which history is removed because of an erasure; 0 if nothing was erased.
    pub erased: u64,
    /// Part of `waiting` from before the erasure.
    pub erased_waiting: usize,
    /// Number up to which nothing of the erased history is left.
    pub gone: u64,
}

/// A writer's knowledge of its record log, for as long as the epoch lasts.
#[derive(Debug)]
pub struct Collector {
    epoch: u64,
    /// Newest epoch of which a record was read.
    met: u64,
    retention: Retention,
    /// Time at which each record number was first known here (REM-30).
    known: BTreeMap<u64, Ticks>,
    records: BTreeMap<u64, Noted>,
    /// First and last record that reference each object. The records in between reference the object too, since no
    /// object comes back once a record has left it out (REM-06).
    names: BTreeMap<DataKey, (u64, u64)>,
}

impl Collector {
    /// Makes the collector for the writer of an epoch.
    #[must_use]
    pub fn new(epoch: u64, retention: Retention) -> Self {
        let (known, records, names) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { epoch, met: epoch, retention, known, records, names }
    }

    /// Newest epoch whose objects the collector removes.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Adds a record that is in the log. Each record of this epoch's writer must be added before the next collection.
    /// The collection finds the other records itself.
    pub fn note(&mut self, mut noted: Noted, now: Ticks) {
        self.known.entry(noted.number).or_insert(now);
        for key in std::mem::take(&mut noted.keys) {
            let (first, last) = self.names.entry(key).or_insert((noted.number, noted.number));
            (*first, *last) = (noted.number.min(*first), noted.number.max(*last));
        }
        self.records.insert(noted.number, noted);
    }

    /// Runs one collection. `at` is the time, in microseconds since 1970.
    ///
    /// # Errors
    /// The storage did not respond, or a record is invalid. The next collection removes the rest.
    pub async fn collect(
        &mut self,
        port: &Port,
        at: i64,
        live: Live<'_>,
    ) -> Result<Collected, Lost> {
        let learned = self.learn(port).await?;
        let plan = plan(&self.records, &learned, at, self.retention);
        let edge = match plan.and_then(|plan| plan.behind(&learned, self.epoch)) {
            Some(next) => raise_known(port, &learned, next).await?,
            None => learned,
        };
        let held = self.pinned(port, &edge).await?;
        let mut done = self.remove_records(port, &edge, &held).await?;
        done.objects = self.remove_objects(port, &edge, &held, live).await?;
        if port.guards_edge() {
            done.objects += self.remove_bodies(port, &edge).await?;
        }
        remove_edges(port).await?;
        Ok(done)
    }

    /// Publishes in the watermark how much of the erased history is gone, as the collection `done` reports. The caller
    /// must know that the writer has no live object from before the erasure.
    ///
    /// # Errors
    /// The storage did not respond; the progress is published after the next collection.
    pub async fn tell_gone(&self, port: &Port, done: &Collected) -> Result<(), Away> {
        // The usual case: nothing was ever erased.
        if done.gone == 0 {
            return Ok(());
        }
        let edge = port.edge().await?;
        if edge.gone >= done.gone {
            return Ok(());
        }
        let (turn, epoch, gone) = (edge.turn + 1, self.epoch, done.gone);
        raise(port, Edge { turn, epoch, gone, ..edge }).await.map(drop)
    }

    /// Lists the record numbers, and reads the records that the watermark does not drop.
    async fn learn(&mut self, port: &Port) -> Result<Edge, Lost> {
        for _ in 0..FIND_TRIES_MAX {
            let edge = port.edge().await?;
            self.list(port).await?;
            let numbers: Vec<u64> = self.known.keys().copied().collect();
            for number in numbers.into_iter().filter(|&number| !edge.is_below(number)) {
                self.read(port, number).await?;
            }
            // Another process that raises the watermark has acquired the workspace; the records just read may then be
            // from any writer.
            if port.edge().await?.place() == edge.place() {
                return Ok(edge);
            }
        }
        let why = "the edge rose again and again".into();
        Err(Away { why, may_pass: true }.into())
    }

    /// Adds all record numbers that exist, and forgets those that do not.
    async fn list(&mut self, port: &Port) -> Result<(), Away> {
        let mut found = BTreeSet::new();
        loop {
            let after = found.last().copied().unwrap_or_default();
            let numbers = port.numbers(after, NUMBERS_AT_ONCE).await?;
            found.extend(&numbers);
            if numbers.len() < NUMBERS_AT_ONCE {
                break;
            }
        }
        self.known.retain(|number, _| found.contains(number));
        self.records.retain(|number, _| found.contains(number));
        for number in found {
            self.known.entry(number).or_insert(port.now());
        }
        Ok(())
    }

    /// Reads a record unless it is known already. Returns false if there is no such record.
    async fn read(&mut self, port: &Port, number: u64) -> Result<bool, Lost> {
        if self.records.contains_key(&number) {
            return Ok(true);
        }
        let Some((record, hash, bytes)) = read_whole(port, number).await? else { return Ok(false) };
        self.met = self.met.max(record.head.epoch);
        self.note(Noted::of(&record, hash, &bytes), port.now());
        Ok(true)
    }

    /// Pinned records at or below the watermark, each with the records back to its base.
    async fn pinned(&mut self, port: &Port, edge: &Edge) -> Result<BTreeSet<u64>, Lost> {
        let mut held = BTreeSet::new();
        for number in pins(port).await? {
            if number <= edge.erased || number > edge.boundary || !self.read(port, number).await? {
                continue;
            }
            let base = self.records.get(&number).map_or(number, |record| record.base);
            for number in base.max(edge.erased + 1)..=number {
                if self.read(port, number).await? {
                    held.insert(number);
                }
            }
        }
        Ok(held)
    }

    async fn remove_records(
        &mut self,
        port: &Port,
        edge: &Edge,
        held: &BTreeSet<u64>,
    ) -> Result<Collected, Away> {
        let numbers = self.known.iter().filter(|(number, _)| edge.is_below(**number));
        let (old, young): (Vec<_>, Vec<_>) = numbers.partition(|&(number, since)| {
            port.now() - *since >= CHAIN_KEPT_MIN && !held.contains(number)
        });
        let erased_waiting = young.iter().filter(|(number, _)| **number <= edge.erased).count();
        let (waiting, erased) = (young.len(), edge.erased);
        let old: Vec<u64> = old.into_iter().map(|(number, _)| *number).collect();
        for some in old.chunks(NUMBERS_AT_ONCE) {
            port.remove_records(some.to_vec()).await?;
        }
        self.known.retain(|number, _| old.binary_search(number).is_err());
        self.records.retain(|number, _| old.binary_search(number).is_err());
        let first = self.known.keys().next().filter(|first| **first <= erased);
        let gone = first.map_or(erased, |first| first - 1);
        // Objects that a newer epoch added to this history are removed by the newer epoch's own collector.
        let gone = if self.met > self.epoch { edge.gone } else { gone };
        Ok(Collected { records: old.len(), objects: 0, waiting, erased, erased_waiting, gone })
    }

    async fn remove_objects(
        &mut self,
        port: &Port,
        edge: &Edge,
        held: &BTreeSet<u64>,
        live: Live<'_>,
    ) -> Result<usize, Away> {
        let low = edge.kept.iter().map(|kept| kept.number).chain(held.iter().copied()).collect();
        let needs = Needs { boundary: edge.boundary, low };
        let is_garbage = |key: &Key| match key {
            Key::Data(_, data, _) => self.is_garbage(data, &needs) && !live(data),
            _ => false,
        };
        let prefix = format!("t/{}/data/", port.tenant());
        let removed = remove_listed(port, &prefix, is_garbage).await?;
        self.names.retain(|_, (first, last)| needs.any(*first..=*last));
        Ok(removed)
    }

    /// Removes the objects of long records that are gone, and of long records that were never created (REM-62).
    async fn remove_bodies(&self, port: &Port, edge: &Edge) -> Result<usize, Away> {
        let is_garbage = |key: &Key| match key {
            Key::Body(_, number, half) => self.is_no_body(*number, *half, edge),
            _ => false,
        };
        remove_listed(port, &format!("t/{}/body/", port.tenant()), is_garbage).await
    }

    /// Returns true if no record is or will be stored as this object. A number without a record may still be created. A
    /// number with a record needs only that record's own object, whoever writes the workspace by now.
    fn is_no_body(&self, number: u64, half: Nonce, edge: &Edge) -> bool {
        match self.known.contains_key(&number) {
            true => self.records.get(&number).is_some_and(|record| record.half != half),
            false => number <= edge.boundary,
        }
    }

    /// Returns true if no needed record references the object or will reference it, except for a record in progress
    /// (REM-32).
    fn is_garbage(&self, key: &DataKey, needs: &Needs) -> bool {
        let names = self.names.get(key);
        key.epoch <= self.epoch && names.is_none_or(|&(first, last)| !needs.any(first..=last))
    }
}

/// Publishes a watermark, then reads the watermark in force: another process may have published one before or since.
async fn raise(port: &Port, edge: Edge) -> Result<Edge, Away> {
    match port.raise_edge(edge).await {
        Tried::Made | Tried::Unsure(_) => port.edge().await,
        Tried::Refused(why) => Err(Away { why, may_pass: false }),
    }
}

/// Raises the watermark from `learned` to `next`. A watermark that is neither of the two comes from a process that
/// knows records unknown here. Objects that only those records reference must not count as unreferenced (REM-33).
async fn raise_known(port: &Port, learned: &Edge, next: Edge) -> Result<Edge, Away> {
    let counts = raise(port, next.clone()).await?;
    if counts == *learned || counts == next {
        return Ok(counts);
    }
    let why = format!("somebody else raised the edge to {}", counts.boundary);
    Err(Away { why, may_pass: true })
}

/// Removes the garbage among the objects with this prefix. Returns the number of removed objects.
async fn remove_listed(
    port: &Port,
    prefix: &str,
    is_garbage: impl Fn(&Key) -> bool,
) -> Result<usize, Away> {
    let (mut after, mut removed) = (None, 0);
    loop {
        let found = port.list(prefix, after.take(), NUMBERS_AT_ONCE).await?;
        let is_last = found.len() < NUMBERS_AT_ONCE;
        after = found.last().map(|last| last.key.clone());
        let keys: Vec<Key> =
            found.into_iter().map(|about| about.key).filter(|key| is_garbage(key)).collect();
        removed += keys.len();
        if !keys.is_empty() {
            port.remove(keys).await?;
        }
        if is_last {
            return Ok(removed);
        }
    }
}

/// Records whose objects must stay.
struct Needs {
    boundary: u64,
    low: BTreeSet<u64>,
}

impl Needs {
    fn any(&self, numbers: RangeInclusive<u64>) -> bool {
        *numbers.end() > self.boundary || self.low.range(numbers).next().is_some()
    }
}

/// Removes watermarks that are no longer in force. The newest `EDGES_KEPT` of them stay for concurrent readers.
async fn remove_edges(port: &Port) -> Result<(), Away> {
    let prefix = format!("t/{}/edge/", port.tenant());
    let (mut after, mut newest) = (None, Vec::new());
    loop {
        let found = port.list(&prefix, after.take(), NUMBERS_AT_ONCE).await?;
        let is_last = found.len() < NUMBERS_AT_ONCE;
        newest.extend(found.into_iter().map(|about| about.key));
        let counting = newest.split_off(newest.len().saturating_sub(1 + EDGES_KEPT));
        let old = std::mem::replace(&mut newest, counting);
        after = newest.last().cloned();
        if !old.is_empty() {
            port.remove(old).await?;
        }
        if is_last {
            return Ok(());
        }
    }
}

impl From<Damage> for Away {
    fn from(damage: Damage) -> Self {
        Self { why: damage.to_string(), may_pass: false }
    }
}

#[cfg(test)]
mod tests;
