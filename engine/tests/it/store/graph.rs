//! Hubs, neighbourhoods and paths: the order of results, and the effect of a limit.

use engine::{
    Batch, Direction, EdgeDraft, EdgeFilter, HOPS_MAX, ItemDraft, ItemId, NEIGHBOURS_MAX,
    ReachedItem, Snapshot, WalkLimits,
};
use support_engine::sample::{hide, items, link, note, tombstones};

use super::scratch_store::ScratchStore;

fn filled(count: usize) -> (ScratchStore, Vec<ItemId>) {
    let scratch = ScratchStore::unmerged();
    let bare = ItemDraft { searchable: false, ..note("") };
    let made = scratch.write(items((0..count).map(|_| bare.clone()))).items;
    (scratch, made)
}

fn join(scratch: &ScratchStore, edges: impl IntoIterator<Item = EdgeDraft>) {
    scratch.write(Batch { edges: edges.into_iter().collect(), ..Batch::default() });
}

fn around(
    snapshot: &Snapshot,
    seed: ItemId,
    hops: usize,
    limits: WalkLimits,
) -> (Vec<ReachedItem>, bool) {
    let which = EdgeFilter::default();
    let found = snapshot.neighbourhood(&[seed], hops, &which, limits).expect("no damage");
    (found.nodes, found.truncated)
}

fn ids(nodes: &[ReachedItem]) -> Vec<ItemId> {
    nodes.iter().map(|node| node.id).collect()
}

fn path_ids(snapshot: &Snapshot, from: ItemId, to: ItemId, hops: usize) -> Option<Vec<ItemId>> {
    let found = snapshot.path(from, to, hops, &EdgeFilter::default(), WalkLimits::default());
    let steps = found.expect("no damage").steps?;
    Some([from].into_iter().chain(steps.iter().map(|step| step.to)).collect())
}

/// The strongest edges of a hub are its newest here, and more than are ever returned.
#[test]
fn hub_returns_its_strongest_edges() {
    let leaves = NEIGHBOURS_MAX + 500;
    let (scratch, made) = filled(leaves + 1);
    let hub = made[0];
    let weight = |n: usize| f32::from(u16::try_from(n).unwrap()) / 8192.0;
    for part in made[1..].chunks(1500).enumerate() {
        let (at, part) = part;
        let edges =
            part.iter().enumerate().map(|(n, &leaf)| link(hub, leaf, weight(at * 1500 + n)));
        join(&scratch, edges);
        scratch.seal();
    }
    let snapshot = scratch.snapshot();
    let which = EdgeFilter::default();
    for limit in [0, 1, 7, NEIGHBOURS_MAX, usize::MAX] {
        let near = snapshot.neighbours(hub, limit, &which).unwrap();
        let near: Vec<ItemId> = near.iter().map(|one| one.edge.to).collect();
        let wanted = made[1..].iter().rev().copied().take(limit.min(NEIGHBOURS_MAX));
        assert_eq!(near, wanted.collect::<Vec<_>>(), "limit {limit}");
    }
}

#[test]
fn edges_are_filtered_by_relation_and_direction() {
    let (scratch, made) = filled(4);
    let of = |from: usize, to: usize, relation: &str| EdgeDraft {
        relation: relation.to_owned(),
        ..link(made[from], made[to], 0.5)
    };
    join(&scratch, [of(0, 1, "cites")]);
    scratch.seal();
    join(&scratch, [of(0, 2, "part_of"), of(3, 0, "cites")]);
    scratch.write(items([ItemDraft { supersedes: vec![made[1]], ..note("newer") }]));
    let snapshot = scratch.snapshot();
    let seen = |relations: &[&str], direction, current_only| {
        let relations = relations.iter().map(|&name| name.to_owned()).collect();
        let which = EdgeFilter { relations, direction, current_only, mask: None };
        let near = snapshot.neighbours(made[0], 9, &which).unwrap();
        let seen = near.iter().map(|one| snapshot.id(one.address).unwrap());
        seen.map(|id| made.iter().position(|&known| known == id).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(seen(&[], None, false), [1, 2, 3]);
    assert_eq!(seen(&["cites"], None, false), [1, 3]);
    assert_eq!(seen(&["cites", "part_of", "unheard_of"], None, false), [1, 2, 3]);
    assert_eq!(seen(&["unheard_of"], None, false), [] as [usize; 0]);
    assert_eq!(seen(&[], Some(Direction::Out), false), [1, 2]);
    assert_eq!(seen(&["cites"], Some(Direction::In), false), [3]);
    assert_eq!(seen(&[], None, true), [2, 3]);
}

/// A chain 0 - 1 - 2 - ... - 8, and a shortcut 0 - 5.
#[test]
fn shortest_path_is_found_bidirectionally() {
    let (scratch, made) = filled(10);
    let line = (0..8).map(|n| link(made[n], made[n + 1], 0.5));
    join(&scratch, line);
    scratch.seal();
    join(&scratch, [link(made[5], made[0], 0.25)]);
    let snapshot = scratch.snapshot();
    let of = |numbers: &[usize]| Some(numbers.iter().map(|&n| made[n]).collect::<Vec<_>>());
    assert_eq!(path_ids(&snapshot, made[0], made[0], 0), of(&[0]));
    assert_eq!(path_ids(&snapshot, made[0], made[3], 6), of(&[0, 1, 2, 3]));
    assert_eq!(path_ids(&snapshot, made[0], made[8], 6), of(&[0, 5, 6, 7, 8]));
    assert_eq!(path_ids(&snapshot, made[0], made[8], 4), of(&[0, 5, 6, 7, 8]));
    assert_eq!(path_ids(&snapshot, made[0], made[8], 3), None);
    assert_eq!(path_ids(&snapshot, made[0], made[9], 6), None);
    assert_eq!(path_ids(&snapshot, made[0], ItemId(4), 6), None);
    let out = EdgeFilter { direction: Some(Direction::Out), ..EdgeFilter::default() };
    let limits = WalkLimits::default();
    let path = snapshot.path(made[0], made[6], HOPS_MAX, &out, limits).unwrap();
    assert_eq!(path.steps.map(|steps| steps.len()), Some(6));
    let path = snapshot.path(made[4], made[0], HOPS_MAX, &out, limits).unwrap();
    assert_eq!(path.steps.map(|steps| steps.len()), Some(2));
    assert_eq!(snapshot.path(made[6], made[0], HOPS_MAX, &out, limits).unwrap().steps, None);
}

/// A path does not lead through tombstoned items, nor begin or end there.
#[test]
fn paths_avoid_tombstoned_items() {
    let (scratch, made) = filled(4);
    let edges = [(0, 1, 1.0), (1, 3, 1.0), (0, 2, 0.5), (2, 3, 0.5)];
    join(&scratch, edges.map(|(from, to, weight)| link(made[from], made[to], weight)));
    let snapshot = scratch.snapshot();
    assert_eq!(path_ids(&snapshot, made[0], made[3], 6), Some(vec![made[0], made[1], made[3]]));
    scratch.write(tombstones([hide(made[1])]));
    let snapshot = scratch.snapshot();
    assert_eq!(path_ids(&snapshot, made[0], made[3], 6), Some(vec![made[0], made[2], made[3]]));
    assert_eq!(path_ids(&snapshot, made[0], made[1], 6), None);
    assert_eq!(path_ids(&snapshot, made[1], made[3], 6), None);
    assert_eq!(around(&snapshot, made[1], 6, WalkLimits::default()), (vec![], false));
}

/// A path may begin and end at superseded items even if traversal excludes them.
#[test]
fn path_endpoints_are_always_visible() {
    let (scratch, made) = filled(2);
    join(&scratch, [link(made[0], made[1], 0.5)]);
    let newer = [0, 1].map(|n| ItemDraft { supersedes: vec![made[n]], ..note("newer") });
    scratch.write(items(newer));
    let which = EdgeFilter { current_only: true, ..EdgeFilter::default() };
    let path = scratch.snapshot().path(made[0], made[1], 6, &which, WalkLimits::default()).unwrap();
    assert_eq!(path.steps.map(|steps| steps.len()), Some(1));
}

#[test]
fn limited_traversal_keeps_nearest_and_strongest_items() {
    let (scratch, made) = filled(7);
    // 1 is reached by the stronger of two edges; 4 is two hops away by way of 2.
    let edges = [
        (0, 1, 0.25),
        (1, 0, 0.75),
        (0, 2, 0.5),
        (3, 0, 0.5),
        (2, 4, 1.0),
        (4, 5, 1.0),
        (5, 6, 1.0),
    ];
    join(&scratch, edges.map(|(from, to, weight)| link(made[from], made[to], weight)));
    let walk = |scratch: &ScratchStore, nodes, edges| {
        let limits = WalkLimits { nodes, edges };
        around(&scratch.snapshot(), made[0], 2, limits)
    };
    let check = |scratch: &ScratchStore| {
        let (nodes, truncated) = walk(scratch, 99, 99);
        assert_eq!((ids(&nodes), truncated), (made[..5].to_vec(), false));
        assert_eq!(nodes.iter().map(|node| node.distance).collect::<Vec<_>>(), [0, 1, 1, 1, 2]);
        let by = nodes[1].via.unwrap();
        assert_eq!((by.weight, by.direction, by.from), (0.75, Direction::In, made[0]));
        let (nodes, truncated) = walk(scratch, 3, 99);
        assert_eq!((ids(&nodes), truncated), (made[..3].to_vec(), true));
        // Outgoing edges are followed first, oldest first.
        let (nodes, truncated) = walk(scratch, 99, 2);
        assert_eq!((ids(&nodes), truncated), (vec![made[0], made[2], made[1]], true));
        assert_eq!(walk(scratch, 0, 99), (vec![], true));
        // All nodes, with exactly as many edges as the limit.
        assert!(!walk(scratch, 5, 9).1);
        assert!(walk(scratch, 5, 8).1);
    };
    check(&scratch);
    scratch.seal();
    check(&scratch);
}

#[test]
fn seeds_are_returned_once_in_given_order() {
    let (scratch, made) = filled(3);
    let seeds = [made[2], made[0], made[2], ItemId(3)];
    let which = EdgeFilter::default();
    let limits = WalkLimits::default();
    let found = scratch.snapshot().neighbourhood(&seeds, 6, &which, limits).unwrap();
    assert_eq!(ids(&found.nodes), [made[2], made[0]]);
}
