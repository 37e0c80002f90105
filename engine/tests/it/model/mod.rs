//! The store against a plain model: random batches, erasures, seals and reopenings, compared after every step, both now
//! and as of a random moment. Recorded times are in no order, as in an imported history.

mod comparison;
mod reference_model;

use std::collections::BTreeSet;
use std::sync::Arc;

use comparison::compare;
use engine::{
    AsOf, Batch, EdgeDraft, EdgeId, ItemDraft, ItemId, Micros, NoThrottle, Options, SourceDraft,
    SourceId, Store,
};
use proptest::prelude::*;
use reference_model::{BitemporalStamp, Model, ModelEdge, ModelItem, RELATIONS};
use support_engine::ground;
use support_engine::memory_disk::MemoryDisk;
use support_engine::sample::{MODEL, file, halves, hide, hide_edge, link, note, tombstones};

const REFS: usize = 4;
const URIS: usize = 3;
/// Few distinct times, so that many are equal.
const TIMES: i64 = 6;

const EAST: [f32; 4] = [1.0, 0.0, 0.0, 0.0];

/// A step. Its numbers select among the existing objects, modulo their count.
#[derive(Debug, Clone)]
enum ModelStep {
    Write(Vec<NewItem>),
    Link(Vec<NewEdge>),
    Hide { items: Vec<usize>, edges: Vec<usize> },
    Erase(usize),
    Seal,
    Reopen,
}

#[derive(Debug, Clone)]
struct NewItem {
    supersedes: Vec<usize>,
    reference: Option<usize>,
    uri: Option<usize>,
    times: BitemporalStamp,
}

#[derive(Debug, Clone)]
struct NewEdge {
    from: usize,
    to: usize,
    quarters: u8,
    relation: usize,
    times: BitemporalStamp,
}

fn times() -> impl Strategy<Value = BitemporalStamp> {
    let end = || prop::option::weighted(0.3, 0..TIMES);
    (0..TIMES, end(), end()).prop_map(|(recorded, from, to)| {
        // A validity period does not end before it starts.
        let to = to.map(|to| from.map_or(to, |from| from.max(to)));
        BitemporalStamp { recorded, from, to }
    })
}

fn moment() -> impl Strategy<Value = AsOf> {
    let time = || prop::option::weighted(0.7, (-1..=TIMES).prop_map(Micros));
    (time(), time()).prop_map(|(as_of, valid_at)| AsOf { known_at: as_of, valid_at })
}

fn step() -> impl Strategy<Value = ModelStep> {
    let item = (
        prop::collection::vec(any::<usize>(), 0..3),
        prop::option::weighted(0.3, 0..REFS),
        prop::option::weighted(0.4, 0..URIS),
        times(),
    );
    let item = item.prop_map(|(supersedes, reference, uri, times)| NewItem {
        supersedes,
        reference,
        uri,
        times,
    });
    let edge = (any::<usize>(), any::<usize>(), 0u8..=4, 0..RELATIONS.len(), times());
    let edge = edge.prop_map(|(from, to, quarters, relation, times)| NewEdge {
        from,
        to,
        quarters,
        relation,
        times,
    });
    let picks = || prop::collection::vec(any::<usize>(), 0..2);
    prop_oneof![
        6 => prop::collection::vec(item, 1..4).prop_map(ModelStep::Write),
        3 => prop::collection::vec(edge, 1..4).prop_map(ModelStep::Link),
        2 => (picks(), picks()).prop_map(|(items, edges)| ModelStep::Hide { items, edges }),
        2 => any::<usize>().prop_map(ModelStep::Erase),
        1 => Just(ModelStep::Seal),
        1 => Just(ModelStep::Reopen),
    ]
}

/// The store, its model, and the disk that outlives a reopening.
struct StoreAndModel {
    disk: MemoryDisk,
    store: Option<Store>,
    opened: u64,
    model: Model,
}

impl StoreAndModel {
    fn new() -> Self {
        let mut pair =
            Self { disk: MemoryDisk::default(), store: None, opened: 0, model: Model::default() };
        pair.reopen();
        pair
    }

    fn reopen(&mut self) {
        self.store = None;
        self.opened += 1;
        let mut ground = ground::still(Arc::new(self.disk.clone()), self.opened);
        ground.clock = Arc::new(ground::SteppingClock::after(self.opened));
        let store = Store::open(ground, Options::default()).expect("it opens");
        store.bind_model(MODEL).expect("the one that it is bound to");
        self.store = Some(store);
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open between steps")
    }

    fn apply(&mut self, step: &ModelStep) {
        match step {
            ModelStep::Write(new) => self.write(new),
            ModelStep::Link(new) => self.link(new),
            ModelStep::Hide { items, edges } => self.tombstone(items, edges),
            ModelStep::Erase(number) => self.erase(*number),
            ModelStep::Seal => self.store().seal().expect("the disk works"),
            ModelStep::Reopen => self.reopen(),
        }
    }

    /// Writes items, or checks that they are rejected for the reason that the model predicts.
    fn write(&mut self, new: &[NewItem]) {
        let mut after = self.model.clone();
        let mut batch = Batch::default();
        let mut refused = None;
        let mut refs = BTreeSet::new();
        for item in new {
            let times = item.times;
            let source = item.uri.map(|uri| self.source(uri, times, &mut batch, &mut after));
            let old: BTreeSet<ItemId> =
                item.supersedes.iter().filter_map(|&number| after.pick(number)).collect();
            let supersedes: Vec<ItemId> = old.into_iter().collect();
            if supersedes.iter().any(|&id| after.items[&id].hidden) {
                refused = refused.or(Some("supersedes"));
            }
            let reference = item.reference.map(|number| format!("ref/{number}"));
            if let Some(reference) = &reference {
                // The holder of a reference is looked up in the state before the batch.
                let holder = self.model.at(AsOf::default()).holder(reference);
                let free = holder.is_none_or(|id| supersedes.contains(&id));
                if !refs.insert(reference.clone()) || !free {
                    refused = refused.or(Some("ref"));
                }
            }
            let id = self.store().new_item_id();
            let word = rare_word(after.items.len() + after.erased.len());
            batch.items.push(ItemDraft {
                id: Some(id),
                supersedes: supersedes.clone(),
                reference: reference.clone(),
                source,
                recorded_at: Some(Micros(times.recorded)),
                valid_from: times.from.map(Micros),
                valid_to: times.to.map(Micros),
                embedding: halves(EAST),
                ..note(&format!("everyone {word}"))
            });
            let hidden = false;
            after
                .items
                .insert(id, ModelItem { word, supersedes, reference, source, times, hidden });
        }
        self.commit(batch, after, refused);
    }

    /// Adds a new version of a source.
    fn source(
        &self,
        uri: usize,
        times: BitemporalStamp,
        batch: &mut Batch,
        after: &mut Model,
    ) -> SourceId {
        let id = self.store().new_source_id();
        let uri = format!("file:///{uri}");
        let recorded_at = Some(Micros(times.recorded));
        batch.sources.push(SourceDraft { id: Some(id), recorded_at, ..file(&uri) });
        after.sources.push((id, uri, times));
        id
    }

    fn link(&mut self, new: &[NewEdge]) {
        let mut after = self.model.clone();
        let mut batch = Batch::default();
        let mut refused = None;
        for &NewEdge { from, to, quarters, relation, times } in new {
            let (Some(from), Some(to)) = (after.pick(from), after.pick(to)) else { return };
            let id = EdgeId(self.store().new_item_id().0);
            let weight = f32::from(quarters) / 4.0;
            batch.edges.push(EdgeDraft {
                id: Some(id),
                relation: RELATIONS[relation].to_owned(),
                recorded_at: Some(Micros(times.recorded)),
                valid_from: times.from.map(Micros),
                valid_to: times.to.map(Micros),
                ..link(from, to, weight)
            });
            for (field, end) in [("from", from), ("to", to)] {
                if after.items[&end].hidden {
                    refused = refused.or(Some(field));
                }
            }
            let hidden = false;
            after.edges.insert(id, ModelEdge { from, to, weight, relation, times, hidden });
        }
        self.commit(batch, after, refused);
    }

    fn tombstone(&mut self, items: &[usize], edges: &[usize]) {
        let mut after = self.model.clone();
        let mut stones = Vec::new();
        for id in items.iter().filter_map(|&number| self.model.pick(number)) {
            stones.push(hide(id));
            after.items.entry(id).and_modify(|item| item.hidden = true);
        }
        for &number in edges {
            let known: Vec<EdgeId> = after.edges.keys().copied().collect();
            if let Some(&id) = known.get(number % known.len().max(1)) {
                stones.push(hide_edge(id));
                after.edges.entry(id).and_modify(|edge| edge.hidden = true);
            }
        }
        if !stones.is_empty() {
            self.commit(tombstones(stones), after, None);
        }
    }

    fn erase(&mut self, number: usize) {
        let Some(id) = self.model.pick(number) else { return };
        self.store().erase(&[id.0], "officer", "asked for", &NoThrottle).expect("the disk works");
        self.model.erase(id);
        self.model.commits += 1;
    }

    fn commit(&mut self, batch: Batch, after: Model, refused: Option<&str>) {
        match (self.store().write(batch), refused) {
            (Ok(written), None) => {
                self.model = after;
                self.model.commits += 1;
                assert_eq!(written.seq, self.model.commits);
            }
            (Err(engine::WriteError::Refused { field, .. }), Some(wanted)) => {
                assert_eq!(field, wanted);
            }
            (got, wanted) => panic!("{got:?}, and the model said {wanted:?}"),
        }
    }
}

/// Returns a word of consonants only, which no analyzer step splits or shortens.
fn rare_word(number: usize) -> String {
    let letters = b"bcdfghjklmnpqrtv";
    let digits = (0..4).map(|place| char::from(letters[number >> (4 * place) & 15]));
    format!("zx{}k", digits.collect::<String>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// proptest prints and shrinks a failing case; it needs no seed to run again.
    #[test]
    fn random_operations_match_the_reference_model(
        steps in prop::collection::vec((step(), moment()), 1..40),
    ) {
        let mut pair = StoreAndModel::new();
        for (step, moment) in &steps {
            pair.apply(step);
            compare(&pair.store().snapshot(), &pair.model, AsOf::default());
            compare(&pair.store().snapshot(), &pair.model, *moment);
        }
        pair.reopen();
        compare(&pair.store().snapshot(), &pair.model, AsOf::default());
        for (_, moment) in &steps {
            compare(&pair.store().snapshot(), &pair.model, *moment);
        }
    }
}
