//! The store against a plain map: random batches, seals and reopenings, compared after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::{
    Batch, Direction, EdgeDraft, EdgeId, Filter, ItemDraft, ItemId, Options, Snapshot, SourceDraft,
    SourceId, Status, Store,
};
use proptest::prelude::*;
use tests::ground;
use tests::listing::{ALL, ids};
use tests::memory_disk::MemoryDisk;
use tests::sample::{file, hide, hide_edge, link, note, tombstones};

const REFS: usize = 4;
const URIS: usize = 3;

/// One step. Numbers pick among what is there, modulo how many there are.
#[derive(Debug, Clone)]
enum Step {
    Write(Vec<NewItem>),
    Link(Vec<(usize, usize, u8)>),
    Hide { items: Vec<usize>, edges: Vec<usize> },
    Seal,
    Reopen,
}

#[derive(Debug, Clone)]
struct NewItem {
    supersedes: Vec<usize>,
    reference: Option<usize>,
    uri: Option<usize>,
}

fn step() -> impl Strategy<Value = Step> {
    let item = (
        prop::collection::vec(any::<usize>(), 0..3),
        prop::option::weighted(0.3, 0..REFS),
        prop::option::weighted(0.4, 0..URIS),
    );
    let item = item.prop_map(|(supersedes, reference, uri)| NewItem { supersedes, reference, uri });
    let edge = (any::<usize>(), any::<usize>(), 0u8..=4);
    let picks = || prop::collection::vec(any::<usize>(), 0..2);
    prop_oneof![
        6 => prop::collection::vec(item, 1..4).prop_map(Step::Write),
        3 => prop::collection::vec(edge, 1..4).prop_map(Step::Link),
        2 => (picks(), picks()).prop_map(|(items, edges)| Step::Hide { items, edges }),
        1 => Just(Step::Seal),
        1 => Just(Step::Reopen),
    ]
}

#[derive(Debug, Clone)]
struct ModelItem {
    /// A word that no other item has.
    word: String,
    supersedes: Vec<ItemId>,
    reference: Option<String>,
    source: Option<SourceId>,
    hidden: bool,
}

#[derive(Debug, Clone)]
struct ModelEdge {
    from: ItemId,
    to: ItemId,
    weight: f32,
    hidden: bool,
}

/// What the store should hold. Ids rise, so the maps are in order of writing.
#[derive(Debug, Clone, Default)]
struct Model {
    items: BTreeMap<ItemId, ModelItem>,
    edges: BTreeMap<EdgeId, ModelEdge>,
    sources: Vec<(SourceId, String)>,
    commits: u64,
}

impl Model {
    fn pick(&self, number: usize) -> Option<ItemId> {
        let count = self.items.len();
        (count > 0).then(|| self.items.keys().nth(number % count).copied()).flatten()
    }

    fn successors(&self, id: ItemId) -> BTreeSet<ItemId> {
        let newer = self.items.iter().filter(|(_, item)| item.supersedes.contains(&id));
        newer.map(|(&id, _)| id).collect()
    }

    fn status(&self, id: ItemId) -> Status {
        if self.items[&id].hidden {
            Status::Tombstoned
        } else if self.successors(id).is_empty() {
            Status::Current
        } else {
            Status::Superseded
        }
    }

    /// Everything on the ways from `id`, without it.
    fn reached(&self, id: ItemId, step: &dyn Fn(ItemId) -> BTreeSet<ItemId>) -> BTreeSet<ItemId> {
        let mut reached = BTreeSet::new();
        let mut ahead = vec![id];
        while let Some(next) = ahead.pop() {
            ahead.extend(step(next).into_iter().filter(|&id| reached.insert(id)));
        }
        reached
    }

    fn current_successors(&self, id: ItemId) -> Vec<ItemId> {
        let newer = self.reached(id, &|id| self.successors(id));
        newer.into_iter().filter(|&id| self.status(id) == Status::Current).collect()
    }

    fn chain(&self, id: ItemId) -> Vec<ItemId> {
        let mut chain = self.reached(id, &|id| self.successors(id));
        let older = |id| self.items[&id].supersedes.iter().copied().collect();
        chain.extend(self.reached(id, &older));
        chain.insert(id);
        chain.into_iter().collect()
    }

    fn holder(&self, reference: &str) -> Option<ItemId> {
        let named = |item: &ModelItem| item.reference.as_deref() == Some(reference);
        let holders = self.items.iter().filter(|(_, item)| named(item)).map(|(&id, _)| id);
        holders.rev().find(|&id| self.status(id) == Status::Current)
    }

    /// Strongest first, then in order of edge; of an edge to itself, first out, then in.
    fn neighbours(&self, id: ItemId) -> Vec<(EdgeId, Direction, ItemId)> {
        let mut found = Vec::new();
        for (&edge, it) in self.edges.iter().filter(|(_, it)| !it.hidden) {
            let ends = [(it.from, it.to, Direction::Out), (it.to, it.from, Direction::In)];
            for (here, other, direction) in ends {
                if here == id && !self.items[&other].hidden {
                    found.push((it.weight, edge, direction, other));
                }
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        found.into_iter().map(|(_, edge, direction, other)| (edge, direction, other)).collect()
    }
}

/// The store, its model, and the disk that outlives a reopening.
struct Pair {
    disk: MemoryDisk,
    store: Option<Store>,
    opened: u64,
    model: Model,
}

impl Pair {
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
        self.store = Some(Store::open(ground, Options::default()).expect("it opens"));
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open between steps")
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Write(new) => self.write(new),
            Step::Link(new) => self.link(new),
            Step::Hide { items, edges } => self.hide(items, edges),
            Step::Seal => self.store().seal().expect("the disk works"),
            Step::Reopen => self.reopen(),
        }
    }

    /// Writes items, or checks that they are refused for the reason that the model knows.
    fn write(&mut self, new: &[NewItem]) {
        let mut after = self.model.clone();
        let mut batch = Batch::default();
        let mut refused = None;
        let mut refs = BTreeSet::new();
        for item in new {
            let source = item.uri.map(|uri| self.source(uri, &mut batch, &mut after));
            let old: BTreeSet<ItemId> =
                item.supersedes.iter().filter_map(|&number| after.pick(number)).collect();
            let supersedes: Vec<ItemId> = old.into_iter().collect();
            if supersedes.iter().any(|&id| after.items[&id].hidden) {
                refused = refused.or(Some("supersedes"));
            }
            let reference = item.reference.map(|number| format!("ref/{number}"));
            if let Some(reference) = &reference {
                // Holders are looked for among what was there before the batch.
                let holder = self.model.holder(reference);
                let free = holder.is_none_or(|id| supersedes.contains(&id));
                if !refs.insert(reference.clone()) || !free {
                    refused = refused.or(Some("ref"));
                }
            }
            let id = self.store().new_item_id();
            let word = rare_word(after.items.len());
            batch.items.push(ItemDraft {
                id: Some(id),
                supersedes: supersedes.clone(),
                reference: reference.clone(),
                source,
                ..note(&format!("everyone {word}"))
            });
            let hidden = false;
            after.items.insert(id, ModelItem { word, supersedes, reference, source, hidden });
        }
        self.commit(batch, after, refused);
    }

    /// A new version of a source.
    fn source(&self, uri: usize, batch: &mut Batch, after: &mut Model) -> SourceId {
        let id = self.store().new_source_id();
        let uri = format!("file:///{uri}");
        batch.sources.push(SourceDraft { id: Some(id), ..file(&uri) });
        after.sources.push((id, uri));
        id
    }

    fn link(&mut self, new: &[(usize, usize, u8)]) {
        let mut after = self.model.clone();
        let mut batch = Batch::default();
        let mut refused = None;
        for &(from, to, quarters) in new {
            let (Some(from), Some(to)) = (after.pick(from), after.pick(to)) else { return };
            let id = EdgeId(self.store().new_item_id().0);
            let weight = f32::from(quarters) / 4.0;
            batch.edges.push(EdgeDraft { id: Some(id), ..link(from, to, weight) });
            for (field, end) in [("from", from), ("to", to)] {
                if after.items[&end].hidden {
                    refused = refused.or(Some(field));
                }
            }
            after.edges.insert(id, ModelEdge { from, to, weight, hidden: false });
        }
        self.commit(batch, after, refused);
    }

    fn hide(&mut self, items: &[usize], edges: &[usize]) {
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

    fn compare(&self) {
        let snapshot = self.store().snapshot();
        self.compare_counts(&snapshot);
        for (&id, item) in &self.model.items {
            self.compare_item(&snapshot, id, item);
        }
        let known: Vec<ItemId> = self.model.items.keys().copied().collect();
        assert_eq!(listed(&snapshot, Ok(snapshot.places().collect())), known);
        for (&id, edge) in &self.model.edges {
            assert_eq!(snapshot.edge(id).expect("no damage").is_none(), edge.hidden);
        }
        for number in 0..REFS {
            let reference = format!("ref/{number}");
            let found = snapshot.find_ref(&reference).expect("no damage");
            let found = found.map(|place| snapshot.id(place).expect("no damage"));
            assert_eq!(found, self.model.holder(&reference), "{reference}");
        }
        self.compare_sources(&snapshot);
    }

    fn compare_counts(&self, snapshot: &Snapshot) {
        let model = &self.model;
        let of = |status| model.items.keys().filter(|&&id| model.status(id) == status).count();
        let (hidden, replaced) = (of(Status::Tombstoned), of(Status::Superseded));
        let edges = model.edges.values().filter(|edge| !edge.hidden).count();
        let counts = snapshot.counts();
        let found = [counts.items, counts.superseded, counts.tombstoned, counts.edges];
        let wanted = [model.items.len() - hidden, replaced, hidden, edges];
        assert_eq!(found, wanted.map(|count| count as u64));
        assert_eq!(counts.sources, model.sources.len() as u64);
        assert_eq!(snapshot.seq(), model.commits);
        let visible = model.items.iter().filter(|(_, item)| !item.hidden).map(|(&id, _)| id);
        let mut found = words(snapshot, "everyone", false);
        found.sort_unstable();
        assert_eq!(found, visible.collect::<Vec<_>>());
    }

    fn compare_item(&self, snapshot: &Snapshot, id: ItemId, wanted: &ModelItem) {
        let model = &self.model;
        let place = snapshot.find(id).expect("no damage").expect("it was written");
        let item = snapshot.item(place).expect("no damage");
        assert_eq!(item.supersedes, wanted.supersedes);
        assert_eq!(item.reference, wanted.reference.as_deref());
        assert_eq!(item.source, wanted.source);
        assert_eq!(item.text, format!("everyone {}", wanted.word));
        assert_eq!(snapshot.status(place), model.status(id));
        let successors = listed(snapshot, snapshot.current_successors(id));
        assert_eq!(successors, model.current_successors(id));
        let direct = listed(snapshot, snapshot.direct_successors(id));
        assert_eq!(direct, model.successors(id).into_iter().collect::<Vec<_>>());
        assert_eq!(listed(snapshot, snapshot.chain(id)), model.chain(id));
        let near = snapshot.neighbours(id).expect("no damage");
        let near = near
            .iter()
            .map(|one| (one.edge.id, one.direction, snapshot.id(one.place).expect("no damage")));
        assert_eq!(near.collect::<Vec<_>>(), model.neighbours(id));
        let found = |wanted| if wanted { vec![id] } else { vec![] };
        assert_eq!(words(snapshot, &wanted.word, false), found(!wanted.hidden));
        let is_current = model.status(id) == Status::Current;
        assert_eq!(words(snapshot, &wanted.word, true), found(is_current));
        let stones = snapshot.tombstones(id.0).expect("no damage").len();
        assert_eq!(stones > 0, wanted.hidden);
    }

    fn compare_sources(&self, snapshot: &Snapshot) {
        let sources = &self.model.sources;
        for (id, uri) in sources {
            let source = snapshot.source(*id).expect("no damage").expect("it was written");
            assert_eq!(source.uri, uri);
            let versions = snapshot.sources_of_uri(uri).expect("no damage");
            let wanted = sources.iter().filter(|(_, other)| other == uri).map(|(id, _)| *id);
            let found = versions.iter().map(|source| source.id);
            assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
            let of = self.model.items.iter().filter(|(_, item)| item.source == Some(*id));
            let wanted: Vec<ItemId> = of.map(|(&id, _)| id).collect();
            assert_eq!(listed(snapshot, snapshot.items_of_source(*id)), wanted);
        }
    }
}

/// A word of consonants only: nothing splits it and no stemmer shortens it.
fn rare_word(number: usize) -> String {
    let letters = b"bcdfghjklmnpqrtv";
    let digits = (0..4).map(|place| char::from(letters[number >> (4 * place) & 15]));
    format!("zx{}k", digits.collect::<String>())
}

fn listed(snapshot: &Snapshot, places: Result<Vec<engine::Place>, engine::Damage>) -> Vec<ItemId> {
    ids(snapshot, &places.expect("no damage")).expect("no damage")
}

fn words(snapshot: &Snapshot, word: &str, current_only: bool) -> Vec<ItemId> {
    let filter = Filter { current_only, ..Filter::default() };
    let hits = snapshot.search_words(word, ALL, &filter).expect("no damage");
    listed(snapshot, Ok(hits.into_iter().map(|hit| hit.place).collect()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// A failing case is printed whole and shrunk; it needs no seed to be run again.
    #[test]
    fn the_store_agrees_with_a_plain_map(steps in prop::collection::vec(step(), 1..40)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.take(step);
            pair.compare();
        }
        pair.reopen();
        pair.compare();
    }
}
