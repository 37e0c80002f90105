//! Two time axes: transaction time and validity.

use engine::{
    AsOf, Batch, EdgeDraft, EdgeFilter, Filter, ItemDraft, ItemId, Micros, Snapshot, Status,
};
use support_engine::sample::{self, hide, items, link, note, tombstones};

use super::scratch_store::{ScratchStore, address_of, neighbours, search_word};

fn as_of(at: i64) -> AsOf {
    AsOf { known_at: Some(Micros(at)), ..AsOf::default() }
}

fn valid_at(at: i64) -> AsOf {
    AsOf { valid_at: Some(Micros(at)), ..AsOf::default() }
}

fn recorded(text: &str, at: i64, supersedes: &[ItemId]) -> ItemDraft {
    let (recorded_at, supersedes) = (Some(Micros(at)), supersedes.to_vec());
    ItemDraft { recorded_at, supersedes, ..note(text) }
}

fn status(snapshot: &Snapshot, id: ItemId) -> Option<Status> {
    let place = snapshot.find(id).expect("no damage")?;
    Some(snapshot.status(place).expect("no damage"))
}

/// An imported item counts from its recorded time, not from its import: 30 is written first.
#[test]
fn as_of_uses_recorded_times_not_import_times() {
    let mut scratch = ScratchStore::new();
    let first = scratch.write(items([recorded("plan", 10, &[])])).items[0];
    let third = scratch.write(items([recorded("plan", 30, &[first])])).items[0];
    scratch.seal();
    let second = scratch.write(items([recorded("plan", 20, &[first])])).items[0];
    let (current, replaced) = (Some(Status::Current), Some(Status::Superseded));
    for _ in 0..2 {
        for (at, wanted) in [
            (9, [None, None, None]),
            (10, [current, None, None]),
            (19, [current, None, None]),
            (20, [replaced, current, None]),
            (29, [replaced, current, None]),
            (30, [replaced, current, current]),
        ] {
            let then = scratch.snapshot().with_as_of(as_of(at));
            let found = [first, second, third].map(|id| status(&then, id));
            assert_eq!(found, wanted, "as of {at}");
            let known = wanted.iter().flatten().count() as u64;
            assert_eq!(then.row_counts().unwrap().items, known, "as of {at}");
            assert_eq!(search_word(&then, "plan", &Filter::default()).len() as u64, known);
        }
        scratch.reopen();
    }
}

#[test]
fn validity_period_is_half_open() {
    let scratch = ScratchStore::new();
    let holding = |from: Option<i64>, to: Option<i64>| ItemDraft {
        valid_from: from.map(Micros),
        valid_to: to.map(Micros),
        ..note("rule")
    };
    let drafts = [
        holding(None, None),
        holding(Some(10), None),
        holding(None, Some(10)),
        holding(Some(10), Some(20)),
        holding(Some(10), Some(10)),
    ];
    let made = scratch.write(items(drafts)).items;
    let cases: [(i64, &[usize]); 4] =
        [(9, &[0, 2]), (10, &[0, 1, 3]), (19, &[0, 1, 3]), (20, &[0, 1])];
    for (at, wanted) in cases {
        let then = scratch.snapshot().with_as_of(valid_at(at));
        let wanted: Vec<ItemId> = wanted.iter().map(|&n| made[n]).collect();
        assert_eq!(search_word(&then, "rule", &Filter::default()), wanted, "at {at}");
        // Lookups by id, and counts, are unaffected.
        assert!(made.iter().all(|&id| status(&then, id) == Some(Status::Current)));
        assert_eq!(then.row_counts().unwrap().items, 5);
    }
}

/// The axes are independent: an item supersedes from its recorded time, valid yet or not.
#[test]
fn not_yet_valid_successor_supersedes() {
    let scratch = ScratchStore::new();
    let old = scratch.write(items([note("price")])).items[0];
    let valid_from = Some(Micros(100));
    let new = ItemDraft { valid_from, supersedes: vec![old], ..note("price") };
    let new = scratch.write(items([new])).items[0];
    let snapshot = scratch.snapshot();
    let current = Filter { current_only: true, ..Filter::default() };
    let (before, after) = (snapshot.with_as_of(valid_at(99)), snapshot.with_as_of(valid_at(100)));
    assert_eq!(search_word(&before, "price", &current), []);
    assert_eq!(search_word(&before, "price", &Filter::default()), [old]);
    assert_eq!(search_word(&after, "price", &current), [new]);
    assert_eq!(before.current_successors(old).unwrap().addresses, []);
    assert_eq!(after.current_successors(old).unwrap().addresses, [address_of(&after, new)]);
    assert_eq!(before.chain(old).unwrap().members.len(), 2);
}

/// A tombstone applies to every moment: a read as of an earlier moment does not bypass it.
#[test]
fn tombstone_hides_its_target_at_every_time() {
    let scratch = ScratchStore::new();
    let secret = scratch.write(items([recorded("secret", 10, &[])])).items[0];
    scratch.write(tombstones([hide(secret)]));
    let then = scratch.snapshot().with_as_of(as_of(11));
    assert_eq!(status(&then, secret), Some(Status::Tombstoned));
    assert_eq!(search_word(&then, "secret", &Filter::default()), []);
    assert_eq!((then.row_counts().unwrap().items, then.row_counts().unwrap().tombstoned), (0, 1));
    assert_eq!(then.tombstones(secret.0).unwrap().len(), 1);
}

#[test]
fn edges_are_bitemporal() {
    let scratch = ScratchStore::new();
    let two = [recorded("a", 1, &[]), recorded("b", 5, &[])];
    let made = scratch.write(items(two)).items;
    let edge = EdgeDraft {
        recorded_at: Some(Micros(3)),
        valid_from: Some(Micros(100)),
        ..link(made[0], made[1], 0.5)
    };
    let edge = scratch.write(Batch { edges: vec![edge], ..Batch::default() }).edges[0];
    let snapshot = scratch.snapshot();
    for (moment, known, near) in [
        (as_of(2), false, 0),
        (as_of(4), true, 0), // the edge is known, its end is not
        (as_of(5), true, 1),
        (valid_at(99), true, 0),
        (valid_at(100), true, 1),
    ] {
        let then = snapshot.with_as_of(moment);
        assert_eq!(then.edge(edge).unwrap().is_some(), known, "{moment:?}");
        assert_eq!(neighbours(&then, made[0]).len(), near, "{moment:?}");
        let limits = engine::WalkLimits::default();
        let path = then.path(made[0], made[1], 2, &EdgeFilter::default(), limits);
        assert_eq!(path.unwrap().steps.is_some(), near == 1, "{moment:?}");
    }
}

#[test]
fn ref_resolves_to_its_holder_as_of_that_time() {
    let scratch = ScratchStore::new();
    let named = |text, at, old: &[ItemId]| ItemDraft {
        reference: Some("adr/1".to_owned()),
        ..recorded(text, at, old)
    };
    let first = scratch.write(items([named("first", 10, &[])])).items[0];
    let second = scratch.write(items([named("second", 20, &[first])])).items[0];
    let snapshot = scratch.snapshot();
    for (at, wanted) in [(9, None), (10, Some(first)), (19, Some(first)), (20, Some(second))] {
        let then = snapshot.with_as_of(as_of(at));
        let found = then.find_ref("adr/1").unwrap().map(|place| then.id(place).unwrap());
        assert_eq!(found, wanted, "as of {at}");
    }
}

/// A snapshot without a moment answers as before, and a snapshot as of a moment can return to now.
#[test]
fn with_as_of_does_not_change_the_snapshot() {
    let scratch = ScratchStore::new();
    sample::furnish(scratch.store(), sample::Seals(&[1, 3]), |_, _| {}).unwrap();
    let now = scratch.snapshot();
    let before = now.with_as_of(as_of(0));
    assert_eq!((before.row_counts().unwrap().items, before.row_counts().unwrap().sources), (0, 0));
    assert_eq!(before.seq(), now.seq());
    assert_eq!(before.with_as_of(AsOf::default()).row_counts(), now.row_counts());
    let later = now.with_as_of(as_of(i64::MAX));
    let parts = now.row_counts().unwrap();
    assert_eq!(later.row_counts().unwrap(), parts);
}
