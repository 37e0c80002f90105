//! What was seen and done, in the one order in which it happened, and whether that can be.
//!
//! C1: what was acknowledged is in all that comes later. C2: one content for one number, epochs never fall.
//! C3: one writer for one epoch. C4: an answer that says how old it is, is no older. C5: nothing is removed
//! that is needed, and in the end nothing else is there. C6: what was refused is nowhere. C7: what was
//! erased is gone. C8: in quiet, all goes on.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::rc::Rc;

use recalld_replication::core::{Collected, Mark, Reached};
use recalld_replication::{DataKey, Edge, Hash, Key, NodeId, Nonce, Record};

use super::node::Node;
use super::run::TROUBLE;
use super::store::{Happened, State};
use super::toy::{Tokens, contains, line};

const SECOND: u64 = 1_000_000_000;
/// How long others may need at the most to have what is given to a node that never comes: a lease, by a slow clock,
/// and ten attempts of each, which come by chance.
const GIVEN_MAX: u64 = 120 * SECOND;

/// Numbers of a run.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) acknowledged: u64,
    pub(crate) takes: u64,
    pub(crate) fenced: u64,
    pub(crate) unsure: u64,
    pub(crate) refused: u64,
    pub(crate) answers: u64,
    pub(crate) records_removed: u64,
    pub(crate) objects_removed: u64,
    pub(crate) made_below: u64,
    pub(crate) erasures: u64,
    pub(crate) everywhere: u64,
    pub(crate) restored: u64,
    pub(crate) resumed: u64,
    pub(crate) events: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.takes += other.takes;
        self.fenced += other.fenced;
        self.unsure += other.unsure;
        self.refused += other.refused;
        self.answers += other.answers;
        self.records_removed += other.records_removed;
        self.objects_removed += other.objects_removed;
        self.made_below += other.made_below;
        self.erasures += other.erasures;
        self.everywhere += other.everywhere;
        self.restored += other.restored;
        self.resumed += other.resumed;
        self.events += other.events;
    }
}

#[derive(Debug, Clone)]
struct Acknowledged {
    time: u64,
    token: u64,
}

/// A record as it lies there.
#[derive(Debug)]
struct Stored {
    epoch: u64,
    /// What the object is called that it is, if it is one.
    half: Nonce,
    keys: Vec<DataKey>,
}

#[derive(Debug)]
struct Erasure {
    token: u64,
    /// The full record that made history go, and when it was in the chain.
    done: Option<(u64, u64)>,
    /// Whether somebody was told that it is nowhere any more.
    is_everywhere: bool,
}

/// What a store shows, and how much of what was acknowledged is known to be in it.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) tokens: Tokens,
    checked: Cell<usize>,
}

impl Shown {
    pub(crate) fn new(tokens: Tokens) -> Self {
        Self { tokens, checked: Cell::new(0) }
    }
}

#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) now: u64,
    pub(crate) counts: Counts,
    pub(crate) violation: Option<String>,
    /// What everybody agrees on.
    truth: BTreeMap<u64, (Hash, u64)>,
    epochs: BTreeMap<u64, (NodeId, Nonce)>,
    acknowledged: Vec<Acknowledged>,
    doomed: BTreeSet<u64>,
    refused: BTreeSet<u64>,
    erasures: Vec<Erasure>,
    /// Objects that records name which lie there.
    named: BTreeMap<DataKey, BTreeSet<u64>>,
    stored: BTreeMap<u64, Stored>,
    last_token: u64,
    /// When it was given in quiet to a node that never comes, and whether somebody has it since.
    given: Option<(u64, bool)>,
    pub(crate) last_acknowledged: u64,
}

impl History {
    pub(crate) fn wrong(&mut self, why: impl Into<String>) {
        let time = self.now / SECOND;
        self.violation.get_or_insert_with(|| format!("at {time} s: {}", why.into()));
    }

    pub(crate) fn token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    /// Somebody believes this record.
    pub(crate) fn saw(&mut self, mark: &Mark, by: &str) {
        let head = &mark.head;
        let (hash, epoch) = *self.truth.entry(head.number).or_insert((mark.hash, head.epoch));
        if hash != mark.hash {
            let (number, by_run) = (head.number, head.run);
            self.wrong(format!(
                "C2: {by} sees record {number} of epoch {} by {by_run}, others saw another of epoch {epoch}",
                head.epoch
            ));
        }
        let before = self.truth.range(..head.number).next_back().map_or(0, |(_, seen)| seen.1);
        let after = self.truth.range(head.number + 1..).next().map_or(u64::MAX, |(_, seen)| seen.1);
        if !(before..=after).contains(&head.epoch) {
            let number = head.number;
            self.wrong(format!(
                "C3: record {number} is of epoch {}, between {before} and {after}",
                head.epoch
            ));
        }
        let writer = (head.node.clone(), head.run);
        if *self.epochs.entry(head.epoch).or_insert_with(|| writer.clone()) != writer {
            self.wrong(format!("C3: epoch {} has two writers", head.epoch));
        }
    }

    pub(crate) fn acknowledge(&mut self, token: u64) {
        self.counts.acknowledged += 1;
        self.last_acknowledged = self.now;
        self.acknowledged.push(Acknowledged { time: self.now, token });
    }

    pub(crate) fn refuse(&mut self, token: u64) {
        self.counts.refused += 1;
        self.refused.insert(token);
    }

    /// A writer halts. Somebody must have gone on.
    pub(crate) fn halts(&mut self, number: u64, epoch: u64, edge: &Edge) {
        self.counts.fenced += 1;
        let is_newer = self.stored.values().any(|stored| stored.epoch > epoch);
        if !is_newer && number > edge.boundary {
            self.wrong(format!("C8: epoch {epoch} halts at {number}, and nobody else has it"));
        }
    }

    /// It was given to a node that never comes; once.
    pub(crate) fn gives(&mut self) {
        self.given = Some((self.now, false));
    }

    /// Answers that a stop held up come up to nine minutes after all is healed.
    pub(crate) fn may_be_given(&self) -> bool {
        let quiet = (TROUBLE + 560) * SECOND..(TROUBLE + 760) * SECOND;
        self.given.is_none() && quiet.contains(&self.now)
    }

    /// Somebody has it.
    pub(crate) fn taken(&mut self) {
        self.is_free_by(self.now);
        self.given = self.given.map(|(since, _)| (since, true));
    }

    fn is_free_by(&mut self, now: u64) {
        if let Some((since, false)) = self.given
            && now - since > GIVEN_MAX
        {
            let since = since / SECOND;
            self.wrong(format!(
                "C8: given at {since} s to a node that never came, and nobody had it"
            ));
        }
    }

    /// A token that may be gone from now on.
    pub(crate) fn dooms(&mut self, token: u64) {
        self.doomed.insert(token);
    }

    pub(crate) fn begins_erasure(&mut self, token: u64) -> usize {
        self.erasures.push(Erasure { token, done: None, is_everywhere: false });
        self.erasures.len() - 1
    }

    pub(crate) fn erased(&mut self, erasure: usize, number: u64) {
        self.counts.erasures += 1;
        self.erasures[erasure].done = Some((number, self.now));
    }

    /// Somebody is told that an erasure reached everything.
    pub(crate) fn everywhere(&mut self, far: &Reached, state: &State, nodes: &[Rc<Node>]) {
        let mut found = None;
        for erasure in &mut self.erasures {
            let is_new = !erasure.is_everywhere
                && erasure.done.is_some_and(|(number, _)| far.is_everywhere(number));
            if !is_new {
                continue;
            }
            erasure.is_everywhere = true;
            self.counts.everywhere += 1;
            let token = erasure.token;
            let on_disk =
                |node: &&Rc<Node>| !node.is_rolled_back.get() && node.disk.borrow().toy.has(token);
            let on_node = nodes.iter().find(on_disk).map(|node| node.name.to_string());
            found = found.or_else(|| {
                let place = lies_in(state, token).or(on_node)?;
                Some(format!("C7: {token} is everywhere erased, and still in {place}"))
            });
        }
        found.into_iter().for_each(|why| self.wrong(why));
    }

    /// An answer of what was acknowledged up to `as_of` at least.
    pub(crate) fn answers(&mut self, shown: &Shown, as_of: u64, by: &str) {
        self.counts.answers += 1;
        let Shown { tokens, checked } = shown;
        if checked.get() == 0
            && let Some(token) = self.refused.iter().find(|token| tokens.contains(**token)).copied()
        {
            self.wrong(format!("C6: {by} shows {token}, which was refused"));
        }
        let due = self.acknowledged[checked.get()..].iter().take_while(|one| one.time < as_of);
        let is_missing =
            |one: &&Acknowledged| !tokens.contains(one.token) && !self.doomed.contains(&one.token);
        checked.set(checked.get() + due.clone().count());
        if let Some(Acknowledged { time, token }) = due.clone().find(is_missing).cloned() {
            let (time, as_of) = (time / SECOND, as_of / SECOND);
            self.wrong(format!("C4: {by} answers as of {as_of} s without {token} of {time} s"));
        }
    }

    pub(crate) fn collected(&mut self, collected: &Collected) {
        self.counts.records_removed += collected.records as u64;
        self.counts.objects_removed += collected.objects as u64;
    }

    /// Something was done to the storage.
    pub(crate) fn happens(&mut self, happened: Happened, edge: &Edge) {
        match happened {
            Happened::Created(number, bytes) => {
                self.forget(number);
                self.counts.made_below += u64::from(number <= edge.boundary);
                let Ok((record, _)) = Record::decode(&bytes) else { return };
                for key in record.keys() {
                    self.named.entry(key).or_default().insert(number);
                }
                let (epoch, half) = (record.head.epoch, Hash::of(&bytes).half());
                let stored = Stored { epoch, half, keys: record.keys() };
                self.stored.insert(number, stored);
            }
            Happened::RecordsRemoved(numbers) => {
                for number in numbers {
                    self.forget(number);
                    if !edge.is_below(number) {
                        self.wrong(format!(
                            "C5: record {number} is removed, edge {}",
                            edge.boundary
                        ));
                    }
                }
            }
            Happened::ObjectsRemoved(keys) => {
                for key in keys {
                    if let Key::Body(_, number, half) = key
                        && self.is_body(number, half)
                        && !edge.is_below(number)
                    {
                        self.wrong(format!("C5: {key} is removed, which is record {number}"));
                    }
                    let Key::Data(_, data, _) = key else { continue };
                    let by = self.named.get(&data).into_iter().flatten();
                    let by = by.copied().find(|&number| !edge.is_below(number));
                    if let Some(number) = by {
                        self.wrong(format!("C5: {data} is removed, which record {number} names"));
                    }
                }
            }
        }
    }

    /// Whether a record that lies there is made of that object.
    fn is_body(&self, number: u64, half: Nonce) -> bool {
        self.stored.get(&number).is_some_and(|stored| stored.half == half)
    }

    fn forget(&mut self, number: u64) {
        for key in self.stored.remove(&number).map(|stored| stored.keys).into_iter().flatten() {
            self.named.entry(key).or_default().remove(&number);
        }
    }

    /// At the end, after a long quiet: what is in the newest state and what lies there. `settled` is a time
    /// long enough ago that all must have been tidied since.
    pub(crate) fn ends(&mut self, tokens: &Tokens, newest: &Mark, state: &State, settled: u64) {
        self.saw(newest, "the end");
        let now = self.now;
        self.is_free_by(now);
        self.answers(&Shown::new(tokens.clone()), now, "the end");
        let edge = state.edge(&newest.head.tenant);
        for (&number, (_, made)) in &state.chain {
            if *made < settled && edge.is_below(number) {
                self.wrong(format!("C5: record {number} is there still, edge {}", edge.boundary));
            }
        }
        for (key, _, made) in state.objects.values() {
            if let Key::Body(_, number, half) = key
                && !self.is_body(*number, *half)
                && (*number <= newest.head.number && *made < settled)
            {
                self.wrong(format!("C5: {key} is there still, and no record is made of it"));
            }
            let Key::Data(_, data, _) = key else { continue };
            let mut by = self.named.get(data).into_iter().flatten();
            let is_needed = by.any(|&number| !edge.is_below(number));
            if !is_needed && data.epoch < newest.head.epoch && *made < settled {
                self.wrong(format!("C5: {data} is there still, and nothing names it"));
            }
        }
        for erasure in std::mem::take(&mut self.erasures) {
            let Some((number, time)) = erasure.done else { continue };
            if time >= settled {
                continue;
            }
            if edge.erased < number - 1 {
                self.wrong(format!("C7: history up to {} did not go", number - 1));
            }
            if !erasure.is_everywhere {
                self.wrong(format!("C7: {} was told to be nowhere by nobody", erasure.token));
            }
            if let Some(place) = lies_in(state, erasure.token) {
                self.wrong(format!(
                    "C7: {} is still in {place}, erased by {number} of {} s, edge {}, {}, epoch {}",
                    erasure.token,
                    time / SECOND,
                    edge.boundary,
                    edge.erased,
                    newest.head.epoch
                ));
            }
            if tokens.contains(erasure.token) {
                self.wrong(format!("C7: {} is shown", erasure.token));
            }
        }
    }

    /// Tokens whose erasure was done by then.
    pub(crate) fn erased_before(&self, settled: u64) -> Vec<u64> {
        let done = self.erasures.iter();
        done.filter(|one| one.done.is_some_and(|(_, time)| time < settled))
            .map(|one| one.token)
            .collect()
    }

    /// A token that is there and that may be erased.
    pub(crate) fn erasable(&self, tokens: &Tokens) -> Option<u64> {
        tokens.iter().find(|token| !self.doomed.contains(token))
    }
}

/// Where on the storage a token that was written lies.
fn lies_in(state: &State, token: u64) -> Option<String> {
    let line = line(token, false);
    let records = state.chain.iter().map(|(number, (bytes, _))| (number.to_string(), bytes));
    let objects = state.objects.iter().map(|(key, (_, bytes, _))| (key.clone(), bytes));
    let found = records.chain(objects).find(|(_, bytes)| contains(bytes, &line));
    found.map(|(place, _)| place)
}
