//! Compares a snapshot with the plain model at one moment.

use std::collections::BTreeSet;

use engine::{
    AsOf, Direction, EdgeFilter, Filter, ItemId, NEIGHBOURS_MAX, Snapshot, Status, WalkLimits,
};
use support_engine::listing::{ALL, ids};

use super::reference_model::{Model, ModelItem, RELATIONS, View};
use super::{EAST, REFS};

pub(crate) fn compare(snapshot: &Snapshot, model: &Model, moment: AsOf) {
    let snapshot = snapshot.with_as_of(moment);
    let view = model.at(moment);
    compare_counts(&snapshot, view);
    for (&id, item) in &model.items {
        if view.knows(id) {
            compare_item(&snapshot, view, id, item);
        } else {
            assert_eq!(snapshot.find(id), Ok(None));
        }
        compare_chain(&snapshot, view, id);
        compare_walks(&snapshot, view, id);
    }
    for &id in model.erased.keys() {
        assert_eq!(snapshot.find(id), Ok(None));
        assert_eq!(snapshot.is_erased(id.0), Ok(true));
        compare_chain(&snapshot, view, id);
    }
    let known: Vec<ItemId> = view.known().map(|(id, _)| id).collect();
    let places = snapshot.item_addresses().map(Iterator::collect);
    assert_eq!(listed(&snapshot, places), known);
    for (&id, edge) in &model.edges {
        let shown = !edge.hidden && edge.times.known(moment);
        assert_eq!(snapshot.edge(id).expect("no damage").is_some(), shown);
    }
    for number in 0..REFS {
        let reference = format!("ref/{number}");
        let found = snapshot.find_ref(&reference).expect("no damage");
        let found = found.map(|place| snapshot.id(place).expect("no damage"));
        assert_eq!(found, view.holder(&reference), "{reference}");
    }
    compare_sources(&snapshot, view);
}

fn compare_counts(snapshot: &Snapshot, view: View<'_>) {
    let model = view.model;
    let of = |status| view.known().filter(|&(id, _)| view.status(id) == status).count();
    let (hidden, replaced) = (of(Status::Tombstoned), of(Status::Superseded));
    let edges = model.edges.values();
    let edges = edges.filter(|edge| !edge.hidden && edge.times.known(view.moment)).count();
    let sources = model.sources.iter().filter(|(.., times)| times.known(view.moment)).count();
    let all = view.known().count();
    let counts = snapshot.row_counts().expect("no damage");
    let found = [counts.items, counts.superseded, counts.tombstoned, counts.edges];
    assert_eq!(found, [all - hidden, replaced, hidden, edges].map(|count| count as u64));
    assert_eq!([counts.sources, counts.vectors], [sources, all].map(|count| count as u64));
    let census = snapshot.item_counts().expect("no damage");
    assert_eq!(census.kinds.get("note").copied().unwrap_or(0), (all - hidden) as u64);
    assert_eq!(snapshot.seq(), model.commits);
    let visible = |current_only: bool| {
        let ids = model.items.keys().copied().filter(|&id| view.shows(id));
        let ids = ids.filter(|&id| !current_only || view.status(id) == Status::Current);
        ids.collect::<Vec<_>>()
    };
    for current_only in [false, true] {
        let mut found = words(snapshot, "everyone", current_only);
        found.sort_unstable();
        assert_eq!(found, visible(current_only), "words");
        let filter = Filter { current_only, ..Filter::default() };
        let near = snapshot.nearest(&kernels::Kernels::detect(), &EAST, ALL, &filter);
        let near = near.expect("no damage").into_iter().map(|hit| hit.address).collect();
        assert_eq!(listed(snapshot, Ok(near)), visible(current_only), "nearest");
    }
}

fn compare_item(snapshot: &Snapshot, view: View<'_>, id: ItemId, wanted: &ModelItem) {
    let place = snapshot.find(id).expect("no damage").expect("it was written");
    let item = snapshot.item(place).expect("no damage");
    assert_eq!(item.supersedes, wanted.supersedes);
    assert_eq!(item.reference, wanted.reference.as_deref());
    assert_eq!(item.source, wanted.source);
    assert_eq!(item.text, format!("everyone {}", wanted.word));
    assert_eq!(snapshot.status(place), Ok(view.status(id)));
    let direct = listed(snapshot, snapshot.direct_successors(id));
    let there = |ids: BTreeSet<ItemId>| ids.into_iter().filter(|&id| !view.is_erased(id));
    assert_eq!(direct, there(view.successors(id)).collect::<Vec<_>>());
    let direct: BTreeSet<_> =
        listed(snapshot, snapshot.direct_predecessors(id)).into_iter().collect();
    assert_eq!(direct, there(view.predecessors(id)).collect());
    let found = |wanted| if wanted { vec![id] } else { vec![] };
    assert_eq!(words(snapshot, &wanted.word, false), found(view.shows(id)));
    let is_current = view.shows(id) && view.status(id) == Status::Current;
    assert_eq!(words(snapshot, &wanted.word, true), found(is_current));
    let stones = snapshot.tombstones(id.0).expect("no damage").len();
    assert_eq!(stones > 0, wanted.hidden);
}

fn compare_chain(snapshot: &Snapshot, view: View<'_>, id: ItemId) {
    let successors = snapshot.current_successors(id).expect("no damage");
    assert!(!successors.truncated);
    assert_eq!(listed(snapshot, Ok(successors.addresses)), view.current_successors(id));
    let chain = snapshot.chain(id).expect("no damage");
    assert!(!chain.truncated);
    let members: Vec<ItemId> = chain.members.iter().map(|member| member.id).collect();
    let there = |ids: &[ItemId]| -> Vec<ItemId> {
        ids.iter().copied().filter(|&id| !view.is_erased(id)).collect()
    };
    // Existing members are in order of writing; an erased item comes after its predecessors and before its successors.
    let wanted = view.chain(id);
    assert_eq!(there(&members), there(&wanted));
    assert_eq!(members.iter().copied().collect::<BTreeSet<_>>(), wanted.into_iter().collect());
    let place = |id: &ItemId| members.iter().position(|member| member == id);
    for (at, member) in chain.members.iter().enumerate() {
        assert_eq!(member.address.is_none(), view.is_erased(member.id));
        for old in view.predecessors(member.id) {
            assert!(place(&old).is_none_or(|place| place < at), "{old} in {members:?}");
        }
    }
}

fn compare_walks(snapshot: &Snapshot, view: View<'_>, id: ItemId) {
    let filters = [
        EdgeFilter::default(),
        EdgeFilter { current_only: true, ..EdgeFilter::default() },
        EdgeFilter { relations: vec![RELATIONS[1].to_owned()], ..EdgeFilter::default() },
        EdgeFilter { direction: Some(Direction::In), ..EdgeFilter::default() },
    ];
    for which in &filters {
        let wanted = view.neighbours(id, which);
        for limit in [NEIGHBOURS_MAX, 2] {
            let near = snapshot.neighbours(id, limit, which).expect("no damage");
            let near = near.iter().map(|one| {
                let other = snapshot.id(one.address).expect("no damage");
                (one.edge.weight, one.edge.id, one.direction, other)
            });
            let wanted = wanted.iter().copied().take(limit);
            assert_eq!(near.collect::<Vec<_>>(), wanted.collect::<Vec<_>>(), "{which:?}");
        }
        compare_paths(snapshot, view, id, which);
    }
}

/// Compares the neighbourhood of an item, and the length of the shortest path to each item of the store.
fn compare_paths(snapshot: &Snapshot, view: View<'_>, id: ItemId, which: &EdgeFilter) {
    const HOPS: usize = 3;
    let limits = WalkLimits::default();
    let found = snapshot.neighbourhood(&[id], HOPS, which, limits).expect("no damage");
    assert!(!found.truncated);
    let nodes = found.nodes.iter().map(|node| {
        assert_eq!(snapshot.id(node.address), Ok(node.id));
        (node.id, node.distance, node.via.map(|step| step.edge))
    });
    let around = view.around(id, HOPS, which);
    assert_eq!(nodes.collect::<Vec<_>>(), around, "{which:?}");
    if which.current_only {
        return; // a way may end at a superseded item, which a walk does not show
    }
    for &to in view.model.items.keys().take(6) {
        let path = snapshot.path(id, to, HOPS, which, limits).expect("no damage");
        let distance =
            around.iter().find(|(node, ..)| *node == to).map(|(_, distance, _)| *distance);
        // A path may end at an item that is not valid at the moment, as a traversal may begin at one.
        if view.knows(to) && !view.shows(to) && !view.model.items[&to].hidden {
            continue;
        }
        assert_eq!(path.steps.as_ref().map(Vec::len), distance, "{id} to {to}, {which:?}");
        let mut at = id;
        for step in path.steps.unwrap_or_default() {
            assert_eq!(step.from, at);
            let edge = &view.model.edges[&step.edge];
            let ends = [(edge.from, edge.to), (edge.to, edge.from)];
            assert_eq!((step.from, step.to), ends[usize::from(step.direction == Direction::In)]);
            assert!(which.direction.is_none_or(|direction| direction == step.direction));
            at = step.to;
        }
        assert!(distance.is_none() || at == to);
    }
}

fn compare_sources(snapshot: &Snapshot, view: View<'_>) {
    let sources = &view.model.sources;
    for (id, uri, times) in sources {
        let source = snapshot.source(*id).expect("no damage");
        assert_eq!(source.is_some(), times.known(view.moment));
        assert!(source.is_none_or(|source| source.uri == uri));
        let versions = snapshot.sources_by_uri(uri).expect("no damage");
        let wanted = sources.iter().filter(|(_, other, _)| other == uri);
        let wanted = wanted.filter(|(.., times)| times.known(view.moment)).map(|(id, ..)| *id);
        let found = versions.iter().map(|source| source.id);
        assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
        let of = view.known().filter(|(_, item)| item.source == Some(*id));
        let wanted: Vec<ItemId> = of.map(|(id, _)| id).collect();
        assert_eq!(listed(snapshot, snapshot.items_by_source(*id)), wanted);
    }
}

fn listed(
    snapshot: &Snapshot,
    places: Result<Vec<engine::RowAddress>, engine::CorruptionError>,
) -> Vec<ItemId> {
    ids(snapshot, &places.expect("no damage")).expect("no damage")
}

fn words(snapshot: &Snapshot, word: &str, current_only: bool) -> Vec<ItemId> {
    let filter = Filter { current_only, ..Filter::default() };
    let hits = snapshot.search_words(word, ALL, &filter).expect("no damage");
    listed(snapshot, Ok(hits.into_iter().map(|hit| hit.address).collect()))
}
