//! The steps of a workload: what they are, how the dice choose them, and how a store takes them.
//!
//! A new operation of the store becomes a step in this file alone: a variant, a line in [`Step::draw`],
//! a line in [`Step::take`], and one in [`Step::expect`] where it changes what the store shows.

use std::collections::BTreeSet;

use engine::{
    Batch, EdgeDraft, EdgeId, ItemDraft, ItemId, Micros, SourceDraft, SourceId, Store,
    TombstoneDraft, WriteError,
};

use super::oracle::Oracle;
use super::shown::EVERYONE;
use crate::ground::Dice;
use crate::sample::{self, MODEL, halves, hide, link, note};

const REFS: u64 = 4;
const URIS: u64 = 3;

/// What is done to the store.
#[derive(Debug, Clone)]
pub enum Step {
    /// A batch is written.
    Write(Box<Batch>),
    /// The store is bound to an encoder.
    Bind,
    /// The tail is sealed.
    Seal,
    /// The store is closed and opened again.
    Reopen,
    /// The process is killed, and another one opens the store.
    Kill,
}

/// What is true once a step has succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// As much as the store's durability says of a write.
    Acknowledged,
    /// Everything before it, and itself, is on disk.
    Durable,
}

impl Step {
    /// A step that may be taken after what the oracle knows.
    pub fn draw(oracle: &Oracle, dice: &mut Dice) -> Self {
        match dice.below(20) {
            0 | 1 => Self::Seal,
            2 => Self::Reopen,
            3 => Self::Kill,
            4 | 5 if oracle.model().is_none() => Self::Bind,
            _ => Self::Write(Box::new(batch(oracle, dice))),
        }
    }

    /// Has the store do it. A step that needs another process is not one for a store.
    pub fn take(&self, store: &Store) -> Result<(), WriteError> {
        match self {
            Self::Write(batch) => store.write((**batch).clone()).map(drop),
            Self::Bind => store.bind_model(MODEL),
            Self::Seal => store.seal(),
            Self::Reopen | Self::Kill => Ok(()),
        }
    }

    /// What the store should show afterwards; `None` when that does not change.
    pub fn expect(&self, before: &Oracle) -> Option<Oracle> {
        let mut after = before.clone();
        match self {
            Self::Write(batch) => after.write(batch),
            Self::Bind => after.bind(MODEL),
            Self::Seal | Self::Reopen | Self::Kill => return None,
        }
        Some(after)
    }

    /// What its success promises.
    pub fn promise(&self) -> Promise {
        match self {
            Self::Write(_) => Promise::Acknowledged,
            // An opening brings to disk what it shows.
            Self::Bind | Self::Seal | Self::Reopen | Self::Kill => Promise::Durable,
        }
    }

    /// A few words for a person.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Write(_) => "write",
            Self::Bind => "bind_model",
            Self::Seal => "seal",
            Self::Reopen => "reopen",
            Self::Kill => "kill",
        }
    }
}

fn pick<T: Copy>(from: &[T], dice: &mut Dice) -> Option<T> {
    (!from.is_empty()).then(|| from[dice.index(from.len())])
}

/// Ids that have not been given yet: most rise, some fall.
struct Ids<'a> {
    next: u128,
    dice: &'a mut Dice,
}

/// Where ids that rise begin, and those that fall.
const MIDDLE: u128 = 1 << 100;

impl Ids<'_> {
    fn next(&mut self) -> u128 {
        self.next += 1;
        let noise = u128::from(self.dice.roll());
        let place = self.next << 64;
        if self.dice.below(8) == 0 { MIDDLE - place + noise } else { MIDDLE + place + noise }
    }

    /// A time that no other row has.
    fn time(&self) -> Option<Micros> {
        let rows = i64::try_from(self.next).expect("a simulation has few rows");
        Some(Micros(1_700_000_000_000_000 + rows))
    }
}

/// A batch that a store takes.
pub fn batch(oracle: &Oracle, dice: &mut Dice) -> Batch {
    let mut batch = Batch::default();
    let mut shape = Dice::new(dice.roll());
    let mut ids = Ids { next: oracle.rows() as u128, dice };
    let sources = if shape.below(3) == 0 { 1 + shape.below(2) } else { 0 };
    for _ in 0..sources {
        batch.sources.push(source(&mut ids, &mut shape));
    }
    let standing = oracle.standing();
    let items = if shape.below(6) == 0 { 0 } else { 1 + shape.below(4) };
    let mut refs = BTreeSet::new();
    for _ in 0..items {
        let item = item(oracle, &batch, &standing, &mut refs, &mut ids, &mut shape);
        batch.items.push(item);
    }
    let ends: Vec<ItemId> =
        standing.iter().copied().chain(batch.items.iter().filter_map(|item| item.id)).collect();
    for _ in 0..shape.below(4) {
        let (from, to) = (pick(&ends, &mut shape), pick(&ends, &mut shape));
        if let (Some(from), Some(to)) = (from, to) {
            batch.edges.push(edge(from, to, oracle, &mut ids, &mut shape));
        }
    }
    if shape.below(3) == 0 {
        let items: Vec<u128> = standing.iter().map(|id| id.0).collect();
        let edges: Vec<u128> = oracle.edges().filter_map(|edge| edge.id).map(|id| id.0).collect();
        for targets in [items, edges] {
            if shape.below(2) == 0
                && let Some(target) = pick(&targets, &mut shape)
            {
                ids.next += 1;
                let at = ids.time();
                batch.tombstones.push(TombstoneDraft { at, ..hide(ItemId(target)) });
            }
        }
    }
    if batch.records() == 0 {
        batch.items.push(plain_item(&mut ids, &mut shape));
    }
    batch
}

fn source(ids: &mut Ids<'_>, shape: &mut Dice) -> SourceDraft {
    let uri = format!("file:///{}", shape.below(URIS));
    SourceDraft {
        id: Some(SourceId(ids.next())),
        recorded_at: ids.time(),
        bytes: shape.below(1 << 40),
        ..sample::file(&uri)
    }
}

fn plain_item(ids: &mut Ids<'_>, shape: &mut Dice) -> ItemDraft {
    let id = ids.next();
    // Some texts are longer than a sector, so that a write of one can be torn.
    let words = if shape.below(4) == 0 { 20 + shape.index(300) } else { shape.index(12) };
    let text = format!("{EVERYONE} {:x} {}", ids.next, "silent ".repeat(words));
    ItemDraft { id: Some(ItemId(id)), recorded_at: ids.time(), ..note(&text) }
}

fn item(
    oracle: &Oracle,
    batch: &Batch,
    standing: &[ItemId],
    refs: &mut BTreeSet<u64>,
    ids: &mut Ids<'_>,
    shape: &mut Dice,
) -> ItemDraft {
    let mut item = plain_item(ids, shape);
    if shape.below(6) == 0 {
        let (id, recorded_at, text) = (item.id, item.recorded_at, item.text);
        item = ItemDraft { id, recorded_at, text, ..sample::full_item() };
        (item.reference, item.embedding) = (None, Vec::new());
    }
    let mut old = BTreeSet::new();
    for _ in 0..shape.below(3) {
        let earlier = batch.items.iter().filter_map(|item| item.id);
        let known: Vec<ItemId> = standing.iter().copied().chain(earlier).collect();
        old.extend(pick(&known, shape).filter(|_| shape.below(2) == 0));
    }
    let number = shape.below(REFS * 3);
    if number < REFS && refs.insert(number) {
        let reference = format!("ref/{number}");
        old.extend(oracle.holder(&reference));
        item.reference = Some(reference);
    }
    item.supersedes = old.into_iter().collect();
    let sources = oracle.sources().chain(&batch.sources).filter_map(|source| source.id);
    let sources: Vec<SourceId> = sources.collect();
    item.source = pick(&sources, shape).filter(|_| shape.below(2) == 0);
    item.searchable = shape.below(8) > 0;
    if oracle.model().is_some() && shape.below(2) == 0 {
        let mut value = || f32::from(i8::try_from(shape.below(17)).expect("small") - 8) / 4.0;
        item.embedding = halves([value(), value(), value(), value()]);
    }
    item
}

fn edge(
    from: ItemId,
    to: ItemId,
    oracle: &Oracle,
    ids: &mut Ids<'_>,
    shape: &mut Dice,
) -> EdgeDraft {
    let sources: Vec<SourceId> = oracle.sources().filter_map(|source| source.id).collect();
    let quarters = u8::try_from(shape.below(5)).expect("small");
    EdgeDraft {
        id: Some(EdgeId(ids.next())),
        recorded_at: ids.time(),
        source: pick(&sources, shape).filter(|_| shape.below(2) == 0),
        note: "why ".repeat(shape.index(4)),
        ..link(from, to, f32::from(quarters) / 4.0)
    }
}
