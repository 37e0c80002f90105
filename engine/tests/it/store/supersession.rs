//! Supersession and tombstones: which items are superseded, which are hidden, and in which reads.

use engine::{Batch, EdgeDraft, EdgeId, Filter, ItemDraft, ItemId, Status};
use support_engine::sample::{MODEL, halves, hide, hide_edge, items, link, note, tombstones};

use super::scratch_store::{ScratchStore, address_of, ids, nearest_ids, neighbours, search_word};

fn replacing(text: &str, old: &[ItemId]) -> ItemDraft {
    ItemDraft { supersedes: old.to_vec(), ..note(text) }
}

fn status(scratch: &ScratchStore, id: ItemId) -> Status {
    let snapshot = scratch.snapshot();
    snapshot.status(address_of(&snapshot, id)).expect("no damage")
}

fn successors(scratch: &ScratchStore, id: ItemId) -> Vec<ItemId> {
    let snapshot = scratch.snapshot();
    ids(&snapshot, snapshot.current_successors(id).map(|found| found.addresses))
}

fn chain(scratch: &ScratchStore, id: ItemId) -> Vec<ItemId> {
    let snapshot = scratch.snapshot();
    snapshot.chain(id).expect("no damage").members.iter().map(|member| member.id).collect()
}

/// a -> b -> {c, d} -> e, with seals between: a chain, a split and a merge.
#[test]
fn chains_split_and_merge_across_segments() {
    let mut scratch = ScratchStore::new();
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
        let counts = snapshot.row_counts().unwrap();
        assert_eq!((counts.items, counts.superseded, counts.tombstoned), (5, 4, 0));
        scratch.reopen();
    }
}

#[test]
fn batch_items_can_replace_earlier_items_of_the_batch() {
    let scratch = ScratchStore::new();
    let (a, b) = (scratch.store().new_item_id(), scratch.store().new_item_id());
    let first = ItemDraft { id: Some(a), ..note("a") };
    let second = ItemDraft { id: Some(b), ..replacing("b", &[a]) };
    let (field, why) = scratch.write_error(items([second.clone(), first.clone()]));
    assert_eq!(field, "supersedes");
    assert!(why.contains("later in the batch") && why.contains("goes first"), "{why}");
    scratch.write(items([first, second]));
    assert_eq!(successors(&scratch, a), [b]);
}

/// Cycles of one, two and three items, each with its own error message.
#[test]
fn supersession_cycles_are_rejected_and_named() {
    let scratch = ScratchStore::new();
    let made: Vec<ItemId> = (0..3).map(|_| scratch.store().new_item_id()).collect();
    let circle = |length: usize| {
        let next = |n: usize| made[(n + 1) % length];
        let drafts =
            (0..length).map(|n| ItemDraft { id: Some(made[n]), ..replacing("", &[next(n)]) });
        scratch.write_error(items(drafts.collect::<Vec<_>>()))
    };
    for (length, wanted) in [(1, "replaces itself"), (2, "replace each other"), (3, "each other")] {
        let (field, why) = circle(length);
        assert_eq!(field, "supersedes");
        assert!(why.contains(wanted) && why.contains("circle"), "{why}");
    }
    assert_eq!(scratch.snapshot().row_counts().unwrap().items, 0);
}

/// Only `supersedes` retires items: an edge with the relation `updates` does not.
#[test]
fn updates_edge_does_not_supersede() {
    let mut scratch = ScratchStore::new();
    let made = scratch.write(items([note("old"), note("new")])).items;
    let edge = EdgeDraft { relation: "updates".to_owned(), ..link(made[1], made[0], 1.0) };
    scratch.write(Batch { edges: vec![edge], ..Batch::default() });
    for _ in 0..2 {
        assert_eq!(status(&scratch, made[0]), Status::Current);
        assert_eq!(successors(&scratch, made[0]), []);
        assert_eq!(chain(&scratch, made[0]), [made[0]]);
        assert_eq!(scratch.snapshot().row_counts().unwrap().superseded, 0);
        scratch.reopen();
    }
}

#[test]
fn batch_cannot_tombstone_its_own_items() {
    let scratch = ScratchStore::new();
    let old = scratch.write(items([note("old")])).items[0];
    let new = scratch.store().new_item_id();
    let draft = ItemDraft { id: Some(new), ..note("new") };
    let edge = EdgeDraft { id: Some(EdgeId(9)), ..link(old, old, 0.5) };
    for target in [new, ItemId(9)] {
        let (field, why) = scratch.write_error(Batch {
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
fn superseding_missing_or_tombstoned_items_is_rejected() {
    let scratch = ScratchStore::new();
    let gone = scratch.write(items([note("gone")])).items[0];
    scratch.write(tombstones([hide(gone)]));
    let (field, why) = scratch.write_error(items([replacing("new", &[gone])]));
    assert_eq!(field, "supersedes");
    assert!(why.contains("tombstoned"), "{why}");
    let (field, why) = scratch.write_error(items([replacing("new", &[ItemId(12)])]));
    assert_eq!(field, "supersedes");
    assert!(why.contains(&ItemId(12).to_string()), "{why}");
    let own = scratch.store().new_item_id();
    let circle = ItemDraft { id: Some(own), ..replacing("own tail", &[own]) };
    assert_eq!(scratch.write_error(items([circle])).0, "supersedes");
    let old = scratch.write(items([note("old")])).items[0];
    assert_eq!(scratch.write_error(items([replacing("twice", &[old, old])])).0, "supersedes");
    assert_eq!(status(&scratch, old), Status::Current);
}

/// A history of many versions is valid, not damage.
#[test]
fn long_chain_is_walked_to_its_end() {
    const VERSIONS: usize = 100_000;
    const BATCH: usize = 50_000;
    let scratch = ScratchStore::new();
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
fn tombstoned_item_is_hidden_from_every_read() {
    let mut scratch = ScratchStore::new();
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
        assert_eq!(search_word(&now, "heron", &Filter::default()), [kept]);
        assert_eq!(nearest_ids(&now, &[1.0, 0.0, 0.0, 0.0], &Filter::default()), [kept]);
        assert!(neighbours(&now, kept).is_empty());
        assert_eq!(now.find_ref("gone").unwrap(), None);
        let counts = now.row_counts().unwrap();
        assert_eq!((counts.items, counts.tombstoned, counts.superseded), (1, 1, 0));
        assert_eq!(now.item_counts().unwrap().kinds["note"], 1);
        let stones = now.tombstones(gone.0).unwrap();
        assert_eq!((stones.len(), stones[0].by), (1, "tester"));
        assert_eq!(stones[0].reason, "no longer wanted");
        if round == 1 {
            scratch.seal();
        }
        scratch.reopen();
    }
    assert_eq!(search_word(&before, "heron", &Filter::default()), [kept, gone]);
}

#[test]
fn tombstoned_superseded_item_counts_as_tombstoned_only() {
    let scratch = ScratchStore::new();
    let old = scratch.write(items([note("old")])).items[0];
    let new = scratch.write(items([replacing("new", &[old])])).items[0];
    scratch.write(tombstones([hide(old)]));
    let counts = scratch.snapshot().row_counts().unwrap();
    assert_eq!((counts.items, counts.superseded, counts.tombstoned), (1, 0, 1));
    // The chain includes hidden members; the current successors do not.
    assert_eq!(chain(&scratch, new), [old, new]);
    scratch.write(tombstones([hide(new)]));
    assert_eq!(successors(&scratch, old), []);
    assert_eq!(status(&scratch, old), Status::Tombstoned);
}

#[test]
fn tombstoned_edge_is_hidden() {
    let mut scratch = ScratchStore::new();
    let written = scratch.write(items([note("a"), note("b")])).items;
    let edges = vec![link(written[0], written[1], 0.5), link(written[1], written[0], 0.75)];
    let edges = scratch.write(Batch { edges, ..Batch::default() }).edges;
    scratch.seal();
    scratch.write(tombstones([hide_edge(edges[1])]));
    for _ in 0..2 {
        let snapshot = scratch.snapshot();
        assert_eq!(snapshot.row_counts().unwrap().edges, 1);
        assert!(snapshot.edge(edges[1]).unwrap().is_none());
        for id in &written {
            let near = neighbours(&snapshot, *id);
            assert_eq!(near.iter().map(|one| one.edge.id).collect::<Vec<_>>(), [edges[0]]);
        }
        scratch.reopen();
    }
}

#[test]
fn repeated_tombstones_are_both_stored_and_count_once() {
    let scratch = ScratchStore::new();
    let written = scratch.write(items([note("a"), note("b")])).items;
    let edge = Batch { edges: vec![link(written[0], written[1], 0.5)], ..Batch::default() };
    let edge = scratch.write(edge).edges[0];
    for n in 1..=2 {
        scratch.write(tombstones([hide(written[0]), hide_edge(edge)]));
        let snapshot = scratch.snapshot();
        let counts = snapshot.row_counts().unwrap();
        assert_eq!((counts.items, counts.tombstoned, counts.edges), (1, 1, 0));
        assert_eq!(snapshot.tombstones(written[0].0).unwrap().len(), n);
        assert_eq!(snapshot.tombstones(edge.0).unwrap().len(), n);
    }
}
