//! Checker: receives all events of a run in their real order, and reports violations.
//!
//! C1: every acknowledged write is in all later states. C2: a number has one content, and epochs never fall. C3: an
//! epoch has one writer. C4: a read with a reported staleness is no older. C5: no needed object is removed, and in the
//! end no other object exists. C6: a rejected write is nowhere. C7: erased data is gone. C8: without faults, all nodes
//! make progress.

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
/// Maximum time until another node acquires a workspace that was released to an absent node: a lease by a slow clock,
/// and ten random attempts of each node.
const GIVEN_MAX: u64 = 120 * SECOND;

/// Statistics of a run.
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

/// A stored record.
#[derive(Debug)]
struct Stored {
    epoch: u64,
    /// First half of the record's hash, which is the name of its object, if it has one.
    half: Nonce,
    keys: Vec<DataKey>,
}

#[derive(Debug)]
struct Erasure {
    token: u64,
    /// Number of the full record that removed the history, and its time.
    done: Option<(u64, u64)>,
    /// True if a node was told that the erasure is complete everywhere.
    is_everywhere: bool,
}

/// Visible tokens of a store, and the number of acknowledged writes already checked against them.
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
    /// Hash and epoch of each record, as first seen; all nodes must agree.
    truth: BTreeMap<u64, (Hash, u64)>,
    epochs: BTreeMap<u64, (NodeId, Nonce)>,
    acknowledged: Vec<Acknowledged>,
    doomed: BTreeSet<u64>,
    refused: BTreeSet<u64>,
    erasures: Vec<Erasure>,
    /// Objects named by stored records.
    named: BTreeMap<DataKey, BTreeSet<u64>>,
    stored: BTreeMap<u64, Stored>,
    last_token: u64,
    /// Time of a release to an absent node after the faults, and true once another node has acquired the workspace.
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

    /// A node accepts this record as part of the log.
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

    /// A writer stops. Another node must have acquired the workspace.
    pub(crate) fn halts(&mut self, number: u64, epoch: u64, edge: &Edge) {
        self.counts.fenced += 1;
        let is_newer = self.stored.values().any(|stored| stored.epoch > epoch);
        if !is_newer && number > edge.boundary {
            self.wrong(format!("C8: epoch {epoch} halts at {number}, and nobody else has it"));
        }
    }

    /// The workspace was released to an absent node; once in a run.
    pub(crate) fn gives(&mut self) {
        self.given = Some((self.now, false));
    }

    /// Responses delayed by a pause may arrive up to nine minutes after the last fault.
    pub(crate) fn may_be_given(&self) -> bool {
        let quiet = (TROUBLE + 560) * SECOND..(TROUBLE + 760) * SECOND;
        self.given.is_none() && quiet.contains(&self.now)
    }

    /// A node has acquired the workspace.
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

    /// From now on this token may be gone.
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

    /// A node is told which erasures are complete everywhere.
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

    /// A node answers a read, with everything acknowledged up to `as_of` at least.
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

    /// The storage was changed.
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

    /// Returns true if a stored record has this object as its content.
    fn is_body(&self, number: u64, half: Nonce) -> bool {
        self.stored.get(&number).is_some_and(|stored| stored.half == half)
    }

    fn forget(&mut self, number: u64) {
        for key in self.stored.remove(&number).map(|stored| stored.keys).into_iter().flatten() {
            self.named.entry(key).or_default().remove(&number);
        }
    }

    /// Checks the newest state and the storage at the end, after a long time without faults. Everything from before
    /// `settled` must have been cleaned up.
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

    /// Tokens whose erasure was done before `settled`.
    pub(crate) fn erased_before(&self, settled: u64) -> Vec<u64> {
        let done = self.erasures.iter();
        done.filter(|one| one.done.is_some_and(|(_, time)| time < settled))
            .map(|one| one.token)
            .collect()
    }

    /// A visible token that may be erased.
    pub(crate) fn erasable(&self, tokens: &Tokens) -> Option<u64> {
        tokens.iter().find(|token| !self.doomed.contains(token))
    }
}

/// Record or object that contains a written token.
fn lies_in(state: &State, token: u64) -> Option<String> {
    let line = line(token, false);
    let records = state.chain.iter().map(|(number, (bytes, _))| (number.to_string(), bytes));
    let objects = state.objects.iter().map(|(key, (_, bytes, _))| (key.clone(), bytes));
    let found = records.chain(objects).find(|(_, bytes)| contains(bytes, &line));
    found.map(|(place, _)| place)
}
