//! Removing what no longer counts: records that went out of time, and objects that no record names.
//!
//! A holder collects its own workspace. It may be stopped at any ask for any time and go on when another has
//! the workspace: an edge that it adds is as true as it was, records at or below an edge count for
//! nobody, and of objects it removes none that a newer epoch brought (REM-30, REM-32, REM-33).

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

/// Whether the writer still needs an object that no record names as yet: of its own epoch, one that it put
/// or is putting; of an earlier one, what it found and will name. It says so from before it puts it until
/// [`Collector::note`] was told of the record that names it, or until it gave it up.
pub type Live<'a> = &'a dyn Fn(&DataKey) -> bool;

/// What one collection did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Records that were removed.
    pub records: usize,
    /// Objects that were removed.
    pub objects: usize,
    /// Records that may go and are there still: they are not known for long enough, or somebody reads them.
    pub waiting: usize,
    /// Up to where history went because of an erasure; of `waiting`, so many belong to it.
    pub erased: u64,
    /// Of those that wait, how many are from before the erasure.
    pub erased_waiting: usize,
    /// Up to here nothing of that history is left.
    pub gone: u64,
}

/// What a holder knows of its chain, for as long as it holds it.
#[derive(Debug)]
pub struct Collector {
    epoch: u64,
    /// The newest epoch of which a record was read.
    met: u64,
    retention: Retention,
    /// When each number was known here first (REM-30).
    known: BTreeMap<u64, Ticks>,
    records: BTreeMap<u64, Noted>,
    /// The first and the last record that names an object. Those between name it too, or it would have come
    /// back, which none does (REM-06).
    names: BTreeMap<DataKey, (u64, u64)>,
}

impl Collector {
    /// The collector of the holder of an epoch.
    #[must_use]
    pub fn new(epoch: u64, retention: Retention) -> Self {
        let (known, records, names) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { epoch, met: epoch, retention, known, records, names }
    }

    /// Whose objects and those of earlier ones it removes.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A record is in the chain. Each that this epoch's holder made must be told, before the next
    /// collection; others are found.
    pub fn note(&mut self, mut noted: Noted, now: Ticks) {
        self.known.entry(noted.number).or_insert(now);
        for key in std::mem::take(&mut noted.keys) {
            let (first, last) = self.names.entry(key).or_insert((noted.number, noted.number));
            (*first, *last) = (noted.number.min(*first), noted.number.max(*last));
        }
        self.records.insert(noted.number, noted);
    }

    /// Collects once. `at` is the time, microseconds since 1970.
    ///
    /// # Errors
    /// No answer, or records that cannot be. What was not removed is removed by the next collection.
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

    /// Tells by an edge how much is gone of what goes since something in it was erased, as a collection says. Whoever
    /// asks for it knows that no object was left to the writer that is from before that.
    ///
    /// # Errors
    /// No answer; it is told after the next collection.
    pub async fn tell_gone(&self, port: &Port, done: &Collected) -> Result<(), Away> {
        // Nothing was ever erased, as a rule.
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

    /// Learns what records there are, and reads those that count.
    async fn learn(&mut self, port: &Port) -> Result<Edge, Lost> {
        for _ in 0..FIND_TRIES_MAX {
            let edge = port.edge().await?;
            self.list(port).await?;
            let numbers: Vec<u64> = self.known.keys().copied().collect();
            for number in numbers.into_iter().filter(|&number| !edge.is_below(number)) {
                self.read(port, number).await?;
            }
            // Somebody else who raises it took the workspace, and what was read may be anybody's.
            if port.edge().await?.place() == edge.place() {
                return Ok(edge);
            }
        }
        let why = "the edge rose again and again".into();
        Err(Away { why, may_pass: true }.into())
    }

    /// Notes which numbers there are, and forgets those that are not.
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

    /// Reads a record that is not known yet; whether it is there.
    async fn read(&mut self, port: &Port, number: u64) -> Result<bool, Lost> {
        if self.records.contains_key(&number) {
            return Ok(true);
        }
        let Some((record, hash, bytes)) = read_whole(port, number).await? else { return Ok(false) };
        self.met = self.met.max(record.head.epoch);
        self.note(Noted::of(&record, hash, &bytes), port.now());
        Ok(true)
    }

    /// The records at or below the edge that somebody reads, each from its base on.
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
        // What a newer epoch brought to that history, its own collector removes.
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

    /// Removes what long records were that are gone, and what never became one (REM-62).
    async fn remove_bodies(&self, port: &Port, edge: &Edge) -> Result<usize, Away> {
        let is_garbage = |key: &Key| match key {
            Key::Body(_, number, half) => self.is_no_body(*number, *half, edge),
            _ => false,
        };
        remove_listed(port, &format!("t/{}/body/", port.tenant()), is_garbage).await
    }

    /// Whether no record is made of this object, nor will be. Of a number that has no record yet nobody knows; of one
    /// that has, none but its own is, whoever holds the workspace by now.
    fn is_no_body(&self, number: u64, half: Nonce, edge: &Edge) -> bool {
        match self.known.contains_key(&number) {
            true => self.records.get(&number).is_some_and(|record| record.half != half),
            false => number <= edge.boundary,
        }
    }

    /// Whether no record names an object that counts, nor will, but for one that is being written (REM-32).
    fn is_garbage(&self, key: &DataKey, needs: &Needs) -> bool {
        let names = self.names.get(key);
        key.epoch <= self.epoch && names.is_none_or(|&(first, last)| !needs.any(first..=last))
    }
}

/// Puts an edge there. Which one counts then is asked: another may have put one there, before or since.
async fn raise(port: &Port, edge: Edge) -> Result<Edge, Away> {
    match port.raise_edge(edge).await {
        Tried::Made | Tried::Unsure(_) => port.edge().await,
        Tried::Refused(why) => Err(Away { why, may_pass: false }),
    }
}

/// Raises the edge that was learned. One that is neither this nor the next is by somebody who knows records that
/// are not known here: what only those name must not count as named by none (REM-33).
async fn raise_known(port: &Port, learned: &Edge, next: Edge) -> Result<Edge, Away> {
    let counts = raise(port, next.clone()).await?;
    if counts == *learned || counts == next {
        return Ok(counts);
    }
    let why = format!("somebody else raised the edge to {}", counts.boundary);
    Err(Away { why, may_pass: true })
}

/// Removes the objects that begin so and are garbage; how many.
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

/// The records whose objects must stay.
struct Needs {
    boundary: u64,
    low: BTreeSet<u64>,
}

impl Needs {
    fn any(&self, numbers: RangeInclusive<u64>) -> bool {
        *numbers.end() > self.boundary || self.low.range(numbers).next().is_some()
    }
}

/// Removes edges that count no more. Some are left for whoever is just reading one.
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
