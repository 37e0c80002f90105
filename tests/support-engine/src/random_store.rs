//! Stores of random rows: odd texts, extreme times and weights, superseded and hidden rows, seals.

use engine::{
    Batch, EdgeDraft, EdgeId, ItemDraft, ItemId, Micros, Sensitivity, SourceDraft, SourceId, Span,
    Store, TombstoneDraft,
};

use crate::ground::Dice;
use crate::sample::{DIMENSIONS, MODEL, halves, note};

/// Texts that a careless writer or reader corrupts.
const ODD_TEXTS: [&str; 12] = [
    "",
    "plain",
    "quotes \" and \\ and / and '",
    "line\nfeed\rreturn\ttab\u{8}\u{c}",
    "\u{0}\u{1}\u{1f}\u{7f}\u{80}\u{9f}",
    "\u{2028}\u{2029}\u{feff}",
    "\u{dc}bergr\u{f6}\u{df}e \u{1f9ed}\u{1f469}\u{200d}\u{1f680}",
    "e\u{301} \u{e9} \u{627}\u{644}\u{639} \u{202e}right to left",
    "\u{10ffff}\u{e000}\u{fffd}\u{fffe}",
    "{\"type\":\"item\"}",
    "data: event: \u{85}",
    "    ",
];
const TIMES: [i64; 10] = [
    i64::MIN + 1,
    -62_135_596_800_000_001,
    -62_135_596_800_000_000,
    -1,
    0,
    1_735_689_600_000_001,
    253_402_300_799_999_999,
    253_402_300_800_000_000,
    9_007_199_254_740_993,
    i64::MAX,
];
const WEIGHTS: [f32; 9] =
    [0.0, -0.0, 1.0, 0.1, f32::MIN_POSITIVE, 1e-45, 0.999_999_94, 0.333_333_34, 1e-7];
const KINDS: [&str; 5] = ["note", "document", "chunk", "job", "decision"];
const ATTRIBUTES: [&str; 6] =
    ["", "{}", "{ \"a\" : 1.50e3 }", "{\"b\":1,\n\"a\":2}", "{\"\\u00e9\":\"\u{e9}\"}", "{\t}\r"];

/// Objects that later batches may refer to.
#[derive(Debug, Default)]
struct Known {
    sources: Vec<SourceId>,
    standing: Vec<(ItemId, Option<String>)>,
    edges: Vec<EdgeId>,
    /// Items of the batch in progress.
    fresh: Vec<ItemId>,
    /// True if some tombstones also erase their targets.
    erase: bool,
}

/// Writes `commits` random commits with occasional seals. With `erase`, some tombstones request erasure.
///
/// # Panics
/// The store rejects a commit.
pub fn fill(store: &Store, seed: u64, commits: usize, erase: bool) {
    let mut dice = Dice::new(seed);
    let mut known = Known { erase, ..Known::default() };
    store.bind_model(MODEL).expect("a new store takes a model");
    for _ in 0..commits {
        let batch = batch(store, &mut dice, &mut known);
        let written = store.write(batch).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        known.edges.extend(written.edges);
        if dice.below(5) == 0 {
            store.seal().expect("the disk works");
        }
    }
}

fn one_of<T: Copy>(dice: &mut Dice, of: &[T]) -> T {
    let at = dice.below(of.len() as u64);
    of[usize::try_from(at).expect("an index")]
}

fn text(dice: &mut Dice) -> String {
    (0..=dice.below(3)).map(|_| one_of(dice, &ODD_TEXTS)).collect()
}

fn name(dice: &mut Dice) -> String {
    format!("n{}", text(dice))
}

fn time(dice: &mut Dice) -> Option<Micros> {
    match dice.below(3) {
        0 => None,
        1 => Some(Micros(one_of(dice, &TIMES))),
        _ => Some(Micros(i64::from_le_bytes(dice.roll().to_le_bytes()).max(i64::MIN + 1))),
    }
}

fn period(dice: &mut Dice) -> (Option<Micros>, Option<Micros>) {
    match (time(dice), time(dice)) {
        (Some(a), Some(b)) => (Some(a.min(b)), Some(a.max(b))),
        other => other,
    }
}

fn weight(dice: &mut Dice) -> f32 {
    if dice.below(2) == 0 {
        return one_of(dice, &WEIGHTS);
    }
    // Any bits below those of 1: every exponent, however small.
    let bits = dice.below(u64::from(1.0f32.to_bits()));
    f32::from_bits(u32::try_from(bits).expect("below the bits of 1"))
}

fn source(store: &Store, dice: &mut Dice, known: &mut Known) -> SourceDraft {
    let id = store.new_source_id();
    known.sources.push(id);
    let mut content_sha256 = [0; 32];
    content_sha256.fill_with(|| dice.roll().to_le_bytes()[0]);
    SourceDraft {
        id: Some(id),
        kind: name(dice),
        uri: text(dice),
        title: text(dice),
        content_sha256,
        bytes: dice.roll() >> dice.below(64),
        recorded_at: time(dice),
        recorded_by: text(dice),
        via: text(dice),
    }
}

fn item(store: &Store, dice: &mut Dice, known: &mut Known) -> ItemDraft {
    let id = store.new_item_id();
    let mut supersedes = Vec::new();
    let mut reference = (dice.below(4) == 0).then(|| format!("{}{id}", text(dice)));
    for _ in 0..dice.below(3).saturating_sub(1) {
        if known.standing.is_empty() {
            break;
        }
        let at = usize::try_from(dice.below(known.standing.len() as u64)).expect("an index");
        let (old, old_reference) = known.standing.swap_remove(at);
        supersedes.push(old);
        // A batch assigns a ref once.
        let old_reference = old_reference.filter(|_| !known.fresh.contains(&old));
        reference = old_reference.or(reference);
    }
    known.fresh.push(id);
    known.standing.push((id, reference.clone()));
    let span = Span {
        byte_start: dice.roll() >> dice.below(64),
        byte_end: dice.roll(),
        line_start: u32::from(dice.roll().to_le_bytes()[0]),
        line_end: u32::MAX,
    };
    let (valid_from, valid_to) = period(dice);
    let some_source =
        |dice: &mut Dice| (!known.sources.is_empty()).then(|| one_of(dice, &known.sources));
    let with_vector = dice.below(2) == 0;
    ItemDraft {
        id: Some(id),
        reference,
        kind: one_of(dice, &KINDS).to_owned(),
        modality: name(dice),
        title: text(dice),
        attributes: one_of(dice, &ATTRIBUTES).to_owned(),
        tags: (0..dice.below(3)).map(|_| name(dice)).collect(),
        gates: (0..dice.below(2)).map(|_| name(dice)).collect(),
        supersedes,
        source: some_source(dice),
        span: (dice.below(2) == 0).then_some(span),
        recorded_at: time(dice),
        recorded_by: text(dice),
        via: text(dice),
        valid_from,
        valid_to,
        sensitivity: one_of(dice, &Sensitivity::ALL),
        searchable: dice.below(4) > 0,
        embedding: if with_vector { halves([0.5; DIMENSIONS]) } else { Vec::new() },
        ..note(&text(dice))
    }
}

fn edge(dice: &mut Dice, known: &Known) -> EdgeDraft {
    let (valid_from, valid_to) = period(dice);
    EdgeDraft {
        id: None,
        from: one_of(dice, &known.ids()),
        to: one_of(dice, &known.ids()),
        relation: name(dice),
        weight: weight(dice),
        source: known.sources.first().copied().filter(|_| dice.below(2) == 0),
        recorded_at: time(dice),
        recorded_by: text(dice),
        valid_from,
        valid_to,
        note: text(dice),
    }
}

impl Known {
    fn ids(&self) -> Vec<ItemId> {
        self.standing.iter().map(|(id, _)| *id).collect()
    }

    /// Picks an item or an edge of an earlier commit to hide, and removes the item from the current ones.
    fn hide(&mut self, dice: &mut Dice) -> Option<u128> {
        if dice.below(2) == 0 && !self.edges.is_empty() {
            return Some(one_of(dice, &self.edges).0);
        }
        let at = dice.below(self.standing.len() as u64 + 1);
        let at = usize::try_from(at).expect("an index");
        (at < self.standing.len()).then(|| self.standing.swap_remove(at).0.0)
    }
}

fn batch(store: &Store, dice: &mut Dice, known: &mut Known) -> Batch {
    let mut batch = Batch::default();
    known.fresh.clear();
    // Tombstones are drawn first, since they can only hide objects of earlier commits.
    for _ in 0..dice.below(3) {
        if let Some(target) = known.hide(dice) {
            let (at, by, reason) = (time(dice), text(dice), text(dice));
            let erase = known.erase && dice.below(3) == 0;
            batch.tombstones.push(TombstoneDraft {
                target,
                at,
                by,
                reason,
                erase,
                ..TombstoneDraft::default()
            });
        }
    }
    batch.sources = (0..dice.below(3)).map(|_| source(store, dice, known)).collect();
    // At least one item, so that an edge has a source.
    batch.items = (0..=dice.below(4)).map(|_| item(store, dice, known)).collect();
    batch.edges = (0..dice.below(4)).map(|_| edge(dice, known)).collect();
    batch
}
