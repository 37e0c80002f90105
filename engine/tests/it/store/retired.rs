//! Supersession and tombstones: which items are superseded, which are hidden, and in which reads.

use engine::{Batch, EdgeDraft, EdgeId, Filter, ItemDraft, ItemId, Status};
use support_engine::sample::{MODEL, halves, hide, hide_edge, items, link, note, tombstones};

use super::scratch::{Scratch, by_word, ids, near, neighbours, place};

fn replacing(text: &str, old: &[ItemId]) -> ItemDraft {
    ItemDraft { supersedes: old.to_vec(), ..note(text) }
}

fn status(scratch: &Scratch, id: ItemId) -> Status {
    let snapshot = scratch.snapshot();
    snapshot.status(place(&snapshot, id)).expect("no damage")
}

fn successors(scratch: &Scratch, id: ItemId) -> Vec<ItemId> {
    let snapshot = scratch.snapshot();
    ids(&snapshot, snapshot.current_successors(id).map(|found| found.places))
}

fn chain(scratch: &Scratch, id: ItemId) -> Vec<ItemId> {
    let snapshot = scratch.snapshot();
    snapshot.chain(id).expect("no damage").members.iter().map(|member| member.id).collect()
}

/// a -> b -> {c, d} -> e, with seals between: a chain, a split and a merge.
#[test]
fn chains_split_and_merge_across_segments() {
    let mut scratch = Scratch::new();
    let a = scratch.write(items([note("a")])).items[0];
    let b = scratch.write(items([replacing("b", &[a])])).items[0];
    assert_eq!(successors(&scratch, a), [b]);
    scratch.seal();
    let split = scratch.write(items([replacing("c", &[b]), replacing("d", &[b])])).items;
    let (c, d) = (split[0], split[1]);
    assert_eq!(successors(&scratch, a), [c, d]);
    scratch.seal();
    let e = scratch.write(items([replacing("e", &[c, d])])).items[0];
    for _ in 0..2 {
        for old in [a, b, c, d] {
            assert_eq!(status(&scratch, old), Status::Superseded);
            assert_eq!(successors(&scratch, old), [e]);
        }
        assert_eq!(status(&scratch, e), Status::Current);
        assert_eq!(successors(&scratch, e), []);
        for any in [a, b, e] {
            assert_eq!(chain(&scratch, any), [a, b, c, d, e]);
        }
        // The chain of c excludes its twin d: neither replaced the other.
        assert_eq!(chain(&scratch, c), [a, b, c, e]);
        let snapshot = scratch.snapshot();
        assert_eq!(ids(&snapshot, snapshot.direct_successors(b)), [c, d]);
        assert_eq!(ids(&snapshot, snapshot.direct_predecessors(e)), [c, d]);
        let counts = snapshot.counts().unwrap();
        assert_eq!((counts.items, counts.superseded, counts.tombstoned), (5, 4, 0));
        scratch.reopen();
    }
}

#[test]
fn items_of_one_batch_can_replace_earlier_ones_of_it() {
    let scratch = Scratch::new();
    let (a, b) = (scratch.store().new_item_id(), scratch.store().new_item_id());
    let first = ItemDraft { id: Some(a), ..note("a") };
    let second = ItemDraft { id: Some(b), ..replacing("b", &[a]) };
    let (field, why) = scratch.refused(items([second.clone(), first.clone()]));
    assert_eq!(field, "supersedes");
    assert!(why.contains("later in the batch") && why.contains("goes first"), "{why}");
    scratch.write(items([first, second]));
    assert_eq!(successors(&scratch, a), [b]);
}

/// Cycles of one, two and three items, each with its own error message.
#[test]
fn circles_are_refused_and_named() {
    let scratch = Scratch::new();
    let made: Vec<ItemId> = (0..3).map(|_| scratch.store().new_item_id()).collect();
    let circle = |length: usize| {
        let next = |n: usize| made[(n + 1) % length];
        let drafts =
            (0..length).map(|n| ItemDraft { id: Some(made[n]), ..replacing("", &[next(n)]) });
        scratch.refused(items(drafts.collect::<Vec<_>>()))
    };
    for (length, wanted) in [(1, "replaces itself"), (2, "replace each other"), (3, "each other")] {
        let (field, why) = circle(length);
        assert_eq!(field, "supersedes");
        assert!(why.contains(wanted) && why.contains("circle"), "{why}");
    }
    assert_eq!(scratch.snapshot().counts().unwrap().items, 0);
}

/// Only `supersedes` retires items: an edge with the relation `updates` does not.
#[test]
fn an_edge_of_updates_retires_nothing() {
    let mut scratch = Scratch::new();
    let made = scratch.write(items([note("old"), note("new")])).items;
    let edge = EdgeDraft { relation: "updates".to_owned(), ..link(made[1], made[0], 1.0) };
    scratch.write(Batch { edges: vec![edge], ..Batch::default() });
    for _ in 0..2 {
        assert_eq!(status(&scratch, made[0]), Status::Current);
        assert_eq!(successors(&scratch, made[0]), []);
        assert_eq!(chain(&scratch, made[0]), [made[0]]);
        assert_eq!(scratch.snapshot().counts().unwrap().superseded, 0);
        scratch.reopen();
    }
}

#[test]
fn a_batch_does_not_hide_what_it_adds() {
    let scratch = Scratch::new();
    let old = scratch.write(items([note("old")])).items[0];
    let new = scratch.store().new_item_id();
    let draft = ItemDraft { id: Some(new), ..note("new") };
    let edge = EdgeDraft { id: Some(EdgeId(9)), ..link(old, old, 0.5) };
    for target in [new, ItemId(9)] {
        let (field, why) = scratch.refused(Batch {
            edges: vec![edge.clone()],
            tombstones: vec![hide(target)],
            ..items([draft.clone()])
        });
        assert_eq!(field, "target");
        assert!(why.contains("later batch"), "{why}");
    }
    // A single batch may replace an item and hide it.
    scratch.write(Batch { tombstones: vec![hide(old)], ..items([replacing("new", &[old])]) });
    assert_eq!(status(&scratch, old), Status::Tombstoned);
}

#[test]
fn what_cannot_be_replaced_is_refused() {
    let scratch = Scratch::new();
    let gone = scratch.write(items([note("gone")])).items[0];
    scratch.write(tombstones([hide(gone)]));
    let (field, why) = scratch.refused(items([replacing("new", &[gone])]));
    assert_eq!(field, "supersedes");
    assert!(why.contains("tombstoned"), "{why}");
    let (field, why) = scratch.refused(items([replacing("new", &[ItemId(12)])]));
    assert_eq!(field, "supersedes");
    assert!(why.contains(&ItemId(12).to_string()), "{why}");
    let own = scratch.store().new_item_id();
    let circle = ItemDraft { id: Some(own), ..replacing("own tail", &[own]) };
    assert_eq!(scratch.refused(items([circle])).0, "supersedes");
    let old = scratch.write(items([note("old")])).items[0];
    assert_eq!(scratch.refused(items([replacing("twice", &[old, old])])).0, "supersedes");
    assert_eq!(status(&scratch, old), Status::Current);
}

/// A history of many versions is valid, not damage.
#[test]
fn a_long_chain_is_walked_to_its_end() {
    const VERSIONS: usize = 100_000;
    const BATCH: usize = 50_000;
    let scratch = Scratch::new();
    let made: Vec<ItemId> = (0..VERSIONS).map(|_| scratch.store().new_item_id()).collect();
    let draft = |n: usize| {
        let supersedes = n.checked_sub(1).map(|before| made[before]).into_iter().collect();
        ItemDraft { id: Some(made[n]), supersedes, searchable: false, ..note("") }
    };
    for first in (0..VERSIONS).step_by(BATCH) {
        scratch.write(items((first..first + BATCH).map(draft)));
    }
    assert_eq!(successors(&scratch, made[0]), [made[VERSIONS - 1]]);
    assert_eq!(chain(&scratch, made[VERSIONS / 2]), made);
}

#[test]
fn a_tombstone_hides_an_item_everywhere() {
    let mut scratch = Scratch::new();
    scratch.store().bind_model(MODEL).unwrap();
    let vector = halves([1.0, 0.0, 0.0, 0.0]);
    let draft = |reference: &str| ItemDraft {
        reference: Some(reference.to_owned()),
        embedding: vector.clone(),
        ..note("heron")
    };
    let written = scratch.write(items([draft("kept"), draft("gone")]));
    let (kept, gone) = (written.items[0], written.items[1]);
    scratch.write(Batch { edges: vec![link(kept, gone, 0.5)], ..Batch::default() });
    scratch.seal();
    let before = scratch.snapshot();
    scratch.write(tombstones([hide(gone)]));
    for round in 0..4 {
        let now = scratch.snapshot();
        assert_eq!(status(&scratch, gone), Status::Tombstoned);
        assert_eq!(by_word(&now, "heron", &Filter::default()), [kept]);
        assert_eq!(near(&now, &[1.0, 0.0, 0.0, 0.0], &Filter::default()), [kept]);
        assert!(neighbours(&now, kept).is_empty());
        assert_eq!(now.find_ref("gone").unwrap(), None);
        let counts = now.counts().unwrap();
        assert_eq!((counts.items, counts.tombstoned, counts.superseded), (1, 1, 0));
        assert_eq!(now.census().unwrap().kinds["note"], 1);
        let stones = now.tombstones(gone.0).unwrap();
        assert_eq!((stones.len(), stones[0].by), (1, "tester"));
        assert_eq!(stones[0].reason, "no longer wanted");
        if round == 1 {
            scratch.seal();
        }
        scratch.reopen();
    }
    assert_eq!(by_word(&before, "heron", &Filter::default()), [kept, gone]);
}

#[test]
fn a_hidden_item_that_was_replaced_counts_as_hidden_only() {
    let scratch = Scratch::new();
    let old = scratch.write(items([note("old")])).items[0];
    let new = scratch.write(items([replacing("new", &[old])])).items[0];
    scratch.write(tombstones([hide(old)]));
    let counts = scratch.snapshot().counts().unwrap();
    assert_eq!((counts.items, counts.superseded, counts.tombstoned), (1, 0, 1));
    // The chain includes hidden members; the current successors do not.
    assert_eq!(chain(&scratch, new), [old, new]);
    scratch.write(tombstones([hide(new)]));
    assert_eq!(successors(&scratch, old), []);
    assert_eq!(status(&scratch, old), Status::Tombstoned);
}

#[test]
fn a_tombstone_hides_an_edge() {
    let mut scratch = Scratch::new();
    let written = scratch.write(items([note("a"), note("b")])).items;
    let edges = vec![link(written[0], written[1], 0.5), link(written[1], written[0], 0.75)];
    let edges = scratch.write(Batch { edges, ..Batch::default() }).edges;
    scratch.seal();
    scratch.write(tombstones([hide_edge(edges[1])]));
    for _ in 0..2 {
        let snapshot = scratch.snapshot();
        assert_eq!(snapshot.counts().unwrap().edges, 1);
        assert!(snapshot.edge(edges[1]).unwrap().is_none());
        for id in &written {
            let near = neighbours(&snapshot, *id);
            assert_eq!(near.iter().map(|one| one.edge.id).collect::<Vec<_>>(), [edges[0]]);
        }
        scratch.reopen();
    }
}

#[test]
fn hiding_twice_keeps_both_tombstones_and_counts_once() {
    let scratch = Scratch::new();
    let written = scratch.write(items([note("a"), note("b")])).items;
    let edge = Batch { edges: vec![link(written[0], written[1], 0.5)], ..Batch::default() };
    let edge = scratch.write(edge).edges[0];
    for n in 1..=2 {
        scratch.write(tombstones([hide(written[0]), hide_edge(edge)]));
        let snapshot = scratch.snapshot();
        let counts = snapshot.counts().unwrap();
        assert_eq!((counts.items, counts.tombstoned, counts.edges), (1, 1, 0));
        assert_eq!(snapshot.tombstones(written[0].0).unwrap().len(), n);
        assert_eq!(snapshot.tombstones(edge.0).unwrap().len(), n);
    }
}
