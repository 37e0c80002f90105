//! The steps of a workload: their kinds, their random choice, and their execution by a store.
//!
//! A new operation of the store becomes a step in this file alone: a variant, a line in [`Step::draw`], a line in
//! [`Step::take`], and one in [`Step::expect`] if it changes the contents of the store.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::{
    Batch, CompactionOutcome, EdgeDraft, EdgeId, ItemDraft, ItemId, Micros, NoThrottle, Options,
    ReembedError, SourceDraft, SourceId, Store, Throttle, TombstoneDraft, WriteError,
};

use super::oracle::Oracle;
use super::shown::{ERASER, EVERYONE};
use crate::ground::Dice;
use crate::other_model::{OtherModel, embedding};
use crate::sample::{self, MODEL, hide, link, note};

const REFS: u64 = 4;
const URIS: u64 = 3;

/// An operation on the store.
#[derive(Debug, Clone)]
pub enum Step {
    /// Writes a batch; if the write seals the tail, other work runs in the middle of the seal.
    Write(Box<Batch>, Meanwhile),
    /// Binds the store to an encoder.
    Bind,
    /// Seals the tail.
    Seal(Meanwhile),
    /// Syncs everything written.
    Sync,
    /// Merges segments.
    Compact(EndAt, Meanwhile),
    /// Erases items and edges.
    Erase(Vec<u128>, EndAt, Meanwhile),
    /// Continues an interrupted erasure.
    ErasePending(EndAt, Meanwhile),
    /// Migrates the store to another model.
    Reembed(OtherModel, EndAt, Meanwhile),
    /// Copies the store to another disk.
    Backup,
    /// Copies the backup to an empty disk.
    Restore,
    /// Closes and reopens the store.
    Reopen,
    /// Kills the process; another process opens the store.
    Kill,
}

/// Piece at which the throttle cancels a job; `None` lets the job finish.
pub type EndAt = Option<usize>;

/// Work in the middle of a step's job.
#[derive(Debug, Clone, Default)]
pub struct Meanwhile {
    /// Batches to write.
    pub batches: Vec<Batch>,
    /// True if another job runs then, of a kind that may run beside this one.
    pub job: bool,
}

/// Cancels a job at one of its pieces.
#[derive(Debug)]
struct Ending<'a> {
    at: EndAt,
    seen: AtomicUsize,
    /// The store to compact whenever a migration lets other jobs run.
    passing: Option<&'a Store>,
}

impl Throttle for Ending<'_> {
    fn after_write(&self, bytes: usize) -> bool {
        if let Some(store) = self.passing.filter(|_| bytes == 0) {
            let _the_move_fails_too_where_the_writer_stops = store.compact(&NoThrottle);
        }
        self.at != Some(self.seen.fetch_add(1, Ordering::SeqCst))
    }
}

impl Step {
    /// Draws a step that is possible after the state of the oracle.
    pub fn draw(oracle: &Oracle, options: &Options, dice: &mut Dice) -> Self {
        match dice.below(52) {
            0..=3 => Self::Seal(meanwhile(oracle, is_roomy(options), dice)),
            4 | 5 => Self::Reopen,
            6 | 7 => Self::Kill,
            8..=11 if oracle.model().is_none() => Self::Bind,
            12 | 13 => Self::Sync,
            14..=17 | 48..=51 => Self::Compact(end_at(1, dice), meanwhile(oracle, true, dice)),
            18..=20 => {
                let ids = to_erase(oracle, dice);
                if ids.is_empty() {
                    return Self::write(oracle, dice);
                }
                let mut begun = oracle.clone();
                begun.write(&erasure(&ids));
                Self::Erase(ids, end_at(4, dice), meanwhile(&begun, is_roomy(options), dice))
            }
            21..=23 if oracle.is_erasing() => {
                Self::ErasePending(end_at(4, dice), meanwhile(oracle, is_roomy(options), dice))
            }
            24..=26 => Self::Backup,
            27 => Self::Restore,
            28..=30 => {
                let encoder = OtherModel::new(dice.roll());
                Self::Reembed(encoder, end_at(8, dice), meanwhile(oracle, is_roomy(options), dice))
            }
            _ => Self::write(oracle, dice),
        }
    }

    fn write(oracle: &Oracle, dice: &mut Dice) -> Self {
        Self::Write(Box::new(batch(oracle, dice)), meanwhile(oracle, false, dice))
    }

    /// Runs the step on the store, and returns the number of merged segments. Steps that need another process or disk
    /// do nothing here.
    pub fn take(&self, store: &Store) -> Result<usize, WriteError> {
        let ending = |&at: &EndAt| Ending { at, seen: AtomicUsize::new(0), passing: None };
        match self {
            Self::Write(batch, _) => store.write((**batch).clone()).map(|_| 0),
            Self::Bind => store.bind_model(MODEL).map(|()| 0),
            Self::Seal(_) => store.seal().map(|()| 0),
            Self::Sync => store.sync().map(|()| 0),
            Self::Compact(at, _) => {
                let done = store.compact(&ending(at))?;
                store.build_next_index(&NoThrottle)?;
                Ok(match done {
                    CompactionOutcome::Merged { segments, .. } => segments,
                    _ => 0,
                })
            }
            Self::Erase(ids, at, _) => {
                store.erase(ids, ERASER, "asked for", &ending(at)).map(|()| 0)
            }
            Self::ErasePending(at, _) => store.erase_pending(&ending(at)).map(|_| 0),
            Self::Reembed(encoder, at, meanwhile) => {
                let passing = meanwhile.job.then_some(store);
                match store.reembed(&mut { *encoder }, &Ending { passing, ..ending(at) }) {
                    Ok(_) | Err(ReembedError::Cancelled) => Ok(0),
                    Err(ReembedError::Store(error)) => Err(error),
                    Err(error) => panic!("a move has no such reason to fail: {error}"),
                }
            }
            Self::Backup | Self::Restore | Self::Reopen | Self::Kill => Ok(0),
        }
    }

    /// Returns the expected states during the step, with `meanwhile` batches written in its middle. Only a step with
    /// [`Self::may_end_early`] may stop before the last state.
    pub fn expect(&self, before: &Oracle, meanwhile: usize) -> Vec<Oracle> {
        let mut now = before.clone();
        let mut seen = Vec::new();
        match self {
            Self::Write(batch, _) => now.write(batch),
            Self::Bind => now.bind(MODEL),
            Self::Erase(ids, ..) => now.write(&erasure(ids)),
            _ => {}
        }
        if matches!(self, Self::Write(..) | Self::Bind | Self::Erase(..)) {
            seen.push(now.clone());
        }
        for batch in self.meanwhile().into_iter().flat_map(|it| &it.batches).take(meanwhile) {
            now.write(batch);
            seen.push(now.clone());
        }
        if self.may_end_early() {
            match self {
                Self::Reembed(encoder, ..) => now.move_to(*encoder),
                _ => now.erase(),
            }
            seen.push(now);
        }
        seen
    }

    /// The work in the middle of the step.
    pub fn meanwhile(&self) -> Option<&Meanwhile> {
        match self {
            Self::Write(_, meanwhile)
            | Self::Seal(meanwhile)
            | Self::Compact(_, meanwhile)
            | Self::Erase(.., meanwhile)
            | Self::Reembed(.., meanwhile)
            | Self::ErasePending(_, meanwhile) => Some(meanwhile),
            _ => None,
        }
    }

    /// Returns true if success does not imply that the whole step was done.
    pub fn may_end_early(&self) -> bool {
        self.erases() || matches!(self, Self::Reembed(..))
    }

    /// Returns true if the step removes bytes from all files.
    pub fn erases(&self) -> bool {
        matches!(self, Self::Erase(..) | Self::ErasePending(..))
    }

    /// Returns true if the store, which ran the step without an error, has done all of it.
    pub fn is_done(&self, store: &Store) -> Result<bool, WriteError> {
        match self {
            Self::Reembed(encoder, ..) => Ok(store.snapshot().model() == Some(encoder.model())),
            _ if self.erases() => Ok(store.erasures_pending()? == 0),
            _ => Ok(true),
        }
    }

    /// Runs the job that may run in the middle of this step.
    pub fn run_beside(&self, store: &Store) -> Result<(), WriteError> {
        match self {
            Self::Write(..) | Self::Seal(_) => store.compact(&NoThrottle).map(drop),
            Self::Compact(..) => store.seal(),
            _ => Ok(()),
        }
    }

    /// Returns true if success implies that the step and all earlier writes are on disk.
    pub fn makes_durable(&self) -> bool {
        match self {
            Self::Write(..) | Self::Compact(..) | Self::Restore => false,
            // Opening a store syncs the contents that it shows.
            Self::Bind | Self::Seal(_) | Self::Sync | Self::Reopen | Self::Kill => true,
            Self::Backup | Self::Erase(..) | Self::ErasePending(..) | Self::Reembed(..) => true,
        }
    }

    /// Name of the step for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Write(..) => "write",
            Self::Bind => "bind_model",
            Self::Seal(_) => "seal",
            Self::Sync => "sync",
            Self::Compact(..) => "compact",
            Self::Erase(..) => "erase",
            Self::ErasePending(..) => "erase_pending",
            Self::Reembed(..) => "reembed",
            Self::Backup => "backup",
            Self::Restore => "restore",
            Self::Reopen => "reopen",
            Self::Kill => "kill",
        }
    }
}

/// Returns true if a few batches fit while a flush holds the tail: a write to a full tail would wait for the flush.
fn is_roomy(options: &Options) -> bool {
    options.tail_bytes_seal >= 1 << 20
}

fn end_at(pieces: usize, dice: &mut Dice) -> EndAt {
    (dice.below(3) == 0).then(|| dice.index(pieces))
}

fn meanwhile(oracle: &Oracle, may_write: bool, dice: &mut Dice) -> Meanwhile {
    let mut meanwhile = Meanwhile { job: dice.below(3) == 0, ..Meanwhile::default() };
    let mut oracle = oracle.clone();
    let batches = if may_write { dice.below(4) } else { 0 };
    for _ in 0..batches {
        let batch = batch(&oracle, dice);
        oracle.write(&batch);
        meanwhile.batches.push(batch);
    }
    meanwhile
}

/// Draws a few items and edges to erase, tombstoned ones included.
fn to_erase(oracle: &Oracle, dice: &mut Dice) -> Vec<u128> {
    let going = oracle.going();
    let items = oracle.items().filter_map(|item| item.id).map(|id| id.0);
    let edges = oracle.edges().filter_map(|edge| edge.id).map(|id| id.0);
    let kinds = [items.collect::<Vec<_>>(), edges.collect()];
    let mut ids = BTreeSet::new();
    for _ in 0..1 + dice.below(4) {
        let kind = &kinds[usize::from(dice.below(4) == 0)];
        ids.extend(pick(kind, dice).filter(|id| !going.contains(id)));
    }
    ids.into_iter().collect()
}

/// Makes the first commit of an erasure.
fn erasure(ids: &[u128]) -> Batch {
    let stone = |&target: &u128| TombstoneDraft {
        target,
        by: ERASER.to_owned(),
        reason: "asked for".to_owned(),
        erase: true,
        ..TombstoneDraft::default()
    };
    Batch { tombstones: ids.iter().map(stone).collect(), ..Batch::default() }
}

/// Random letters of a mark, followed by two fixed ones.
const MARK_LETTERS: usize = 6;

/// Returns a word that only this row has. Files are searched for its end, since a dictionary may omit the beginning of
/// a word.
fn mark_word(id: u128) -> String {
    let noise = u64::try_from(id & u128::from(u64::MAX)).expect("64 bits");
    let mut dice = Dice::new(noise);
    let letters = (0..MARK_LETTERS).map(|_| char::from(b"bcdfghjklmnpqrstvwxz"[dice.index(20)]));
    format!("zq{}qz", letters.collect::<String>())
}

/// Returns the eight bytes that identify data of a row in a file.
pub fn mark(id: u128) -> u64 {
    let word = mark_word(id);
    u64::from_le_bytes(word.as_bytes()[2..].try_into().expect("six letters and two"))
}

/// Returns the eight bytes that identify an item's embedding, which is at least four f16 values wide.
pub fn embedding_mark(item: &ItemDraft) -> Option<u64> {
    let bytes: Vec<u8> = item.embedding.iter().flat_map(|half| half.to_le_bytes()).collect();
    bytes.first_chunk().map(|&first| u64::from_le_bytes(first))
}

fn pick<T: Copy>(from: &[T], dice: &mut Dice) -> Option<T> {
    (!from.is_empty()).then(|| from[dice.index(from.len())])
}

/// Unused ids: most ascend, some descend.
struct Ids<'a> {
    next: u128,
    dice: &'a mut Dice,
}

/// Start of ascending and descending ids.
const MIDDLE: u128 = 1 << 100;

impl Ids<'_> {
    fn next(&mut self) -> u128 {
        self.next += 1;
        let noise = u128::from(self.dice.roll());
        let place = self.next << 64;
        if self.dice.below(8) == 0 { MIDDLE - place + noise } else { MIDDLE + place + noise }
    }

    /// Returns a time that no other row has.
    fn time(&self) -> Option<Micros> {
        let rows = i64::try_from(self.next).expect("a simulation has few rows");
        Some(Micros(1_700_000_000_000_000 + rows))
    }
}

/// Draws a batch that a store accepts.
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
        let going = oracle.going();
        let edges = oracle.edges().filter_map(|edge| edge.id).map(|id| id.0);
        let edges: Vec<u128> = edges.filter(|id| !going.contains(id)).collect();
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
    if batch.record_count() == 0 {
        batch.items.push(plain_item(&mut ids, &mut shape));
    }
    batch
}

fn source(ids: &mut Ids<'_>, shape: &mut Dice) -> SourceDraft {
    let uri = format!("file:///{}", shape.below(URIS));
    let id = ids.next();
    SourceDraft {
        id: Some(SourceId(id)),
        title: mark_word(id),
        recorded_at: ids.time(),
        bytes: shape.below(1 << 40),
        ..sample::file(&uri)
    }
}

fn plain_item(ids: &mut Ids<'_>, shape: &mut Dice) -> ItemDraft {
    let id = ids.next();
    // Some texts are longer than a sector, so that their write can be torn.
    let words = if shape.below(4) == 0 { 20 + shape.index(300) } else { shape.index(12) };
    let mark = mark_word(id);
    let text = format!("{EVERYONE} {:x} {mark} {}", ids.next, "silent ".repeat(words));
    ItemDraft {
        id: Some(ItemId(id)),
        title: if shape.below(2) == 0 { format!("about {mark}") } else { String::new() },
        attributes: format!(r#"{{"mark":"{mark}"}}"#),
        tags: vec![mark],
        recorded_at: ids.time(),
        ..note(&text)
    }
}

/// Sources that a row may reference: sources that no pending erasure removes.
fn staying(oracle: &Oracle) -> impl Iterator<Item = SourceId> {
    let going = oracle.going();
    let sources = oracle.sources().filter_map(|source| source.id);
    sources.filter(move |id| !going.contains(&id.0))
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
    let sources: Vec<SourceId> =
        staying(oracle).chain(batch.sources.iter().filter_map(|source| source.id)).collect();
    item.source = pick(&sources, shape).filter(|_| shape.below(2) == 0);
    item.searchable = shape.below(8) > 0;
    if let Some(model) = oracle.model().filter(|_| shape.below(2) == 0) {
        item.embedding = embedding(model.dimensions, shape);
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
    let sources: Vec<SourceId> = staying(oracle).collect();
    let quarters = u8::try_from(shape.below(5)).expect("small");
    let id = ids.next();
    EdgeDraft {
        id: Some(EdgeId(id)),
        recorded_at: ids.time(),
        source: pick(&sources, shape).filter(|_| shape.below(2) == 0),
        note: format!("{}{}", "why ".repeat(shape.index(4)), mark_word(id)),
        ..link(from, to, f32::from(quarters) / 4.0)
    }
}
