//! Supersession chains through erased items: the current successors and the whole chain of any item, in every order of
//! writing, sealing, compacting, opening and copying.

use std::sync::Arc;

use engine::{
    Batch, ItemDraft, ItemId, NoThrottle, Snapshot, Status, Store, StoreReader, Throttle,
    TombstoneDraft,
};
use support_engine::memory_disk::MemoryDisk;
use support_engine::sample::{hide, items, note, tombstones};
use support_engine::{ground, random_store};

use super::scratch_store::{ScratchStore, address_of, ids};

fn replacing(text: &str, old: &[ItemId]) -> ItemDraft {
    ItemDraft { supersedes: old.to_vec(), ..note(text) }
}

fn successors(snapshot: &Snapshot, id: ItemId) -> Vec<ItemId> {
    ids(snapshot, snapshot.current_successors(id).map(|found| found.addresses))
}

/// Returns the ids of a chain, and the erased ones among them.
fn chain(snapshot: &Snapshot, id: ItemId) -> (Vec<ItemId>, Vec<ItemId>) {
    let members = snapshot.chain(id).expect("no damage").members;
    let erased = members.iter().filter(|member| member.address.is_none());
    (members.iter().map(|member| member.id).collect(), erased.map(|member| member.id).collect())
}

fn erase(store: &Store, id: ItemId) {
    store.erase(&[id.0], "officer", "asked for", &NoThrottle).expect("the disk works");
}

/// Makes a tombstone of an item that was erased in another store.
fn erased_tombstone(target: ItemId, replaced: &[ItemId]) -> TombstoneDraft {
    TombstoneDraft {
        erase: true,
        target_erased: true,
        supersedes: replaced.to_vec(),
        ..hide(target)
    }
}

/// Checks a chain in which A was replaced by B, B by C, and B is erased.
fn check(snapshot: &Snapshot, [a, b, c]: [ItemId; 3], when: &str) {
    assert_eq!(snapshot.find(b), Ok(None), "{when}");
    assert_eq!(snapshot.status(address_of(snapshot, a)), Ok(Status::Superseded), "{when}");
    assert_eq!(snapshot.status(address_of(snapshot, c)), Ok(Status::Current), "{when}");
    for old in [a, b] {
        assert_eq!(successors(snapshot, old), [c], "{when}");
    }
    assert_eq!(successors(snapshot, c), [], "{when}");
    for any in [a, b, c] {
        assert_eq!(chain(snapshot, any), (vec![a, b, c], vec![b]), "{when}");
    }
    assert_eq!(ids(snapshot, snapshot.direct_predecessors(b)), [a], "{when}");
    let counts = snapshot.row_counts().expect("no damage");
    assert_eq!((counts.items, counts.superseded, counts.tombstoned), (2, 1, 0), "{when}");
}

/// Operation between the steps of a test.
#[derive(Debug, Clone, Copy)]
enum BetweenSteps {
    Nothing,
    Seal,
    Compact,
    Reopen,
}

const BETWEEN_STEPS: [BetweenSteps; 4] =
    [BetweenSteps::Nothing, BetweenSteps::Seal, BetweenSteps::Compact, BetweenSteps::Reopen];

fn between(what: BetweenSteps, scratch: &mut ScratchStore) {
    match what {
        BetweenSteps::Nothing => {}
        BetweenSteps::Seal => scratch.seal(),
        BetweenSteps::Compact => {
            scratch.seal();
            scratch.store().compact(&NoThrottle).expect("the disk works");
        }
        BetweenSteps::Reopen => scratch.reopen(),
    }
}

#[test]
fn chain_is_intact_in_every_order_of_operations() {
    let each = || BETWEEN_STEPS.into_iter();
    let orders = each().flat_map(|x| each().flat_map(move |y| each().map(move |z| [x, y, z])));
    for (n, order) in orders.enumerate() {
        let when = format!("{order:?}");
        let mut scratch = if n % 2 == 0 { ScratchStore::new() } else { ScratchStore::unmerged() };
        let reader = StoreReader::open(scratch.env().disk).expect("it opens");
        let a = scratch.write(items([note("a")])).items[0];
        between(order[0], &mut scratch);
        let b = scratch.write(items([replacing("b", &[a])])).items[0];
        between(order[1], &mut scratch);
        let c = scratch.write(items([replacing("c", &[b])])).items[0];
        erase(scratch.store(), b);
        check(&scratch.snapshot(), [a, b, c], &when);
        reader.refresh().expect("it can be read");
        check(&reader.snapshot(), [a, b, c], &when);
        between(order[2], &mut scratch);
        scratch.write(tombstones([hide(c)]));
        assert_eq!(successors(&scratch.snapshot(), a), [], "{when}");
        scratch.reopen();
        assert_eq!(chain(&scratch.snapshot(), a), (vec![a, b, c], vec![b]), "{when}");
        reader.refresh().expect("it can be read");
        assert_eq!(chain(&reader.snapshot(), c), (vec![a, b, c], vec![b]), "{when}");
    }
}

/// As with a tombstoned newest item: its predecessors stay superseded without a successor.
#[test]
fn items_replaced_by_an_erased_item_stay_superseded() {
    let mut scratch = ScratchStore::unmerged();
    let a = scratch.write(items([note("a")])).items[0];
    let b = scratch.write(items([replacing("b", &[a])])).items[0];
    scratch.write(tombstones([hide(b)]));
    let as_hidden = |snapshot: &Snapshot| {
        let status = snapshot.status(address_of(snapshot, a)).expect("no damage");
        (status, successors(snapshot, a), chain(snapshot, a).0)
    };
    let hidden = as_hidden(&scratch.snapshot());
    assert_eq!(hidden, (Status::Superseded, vec![], vec![a, b]));
    erase(scratch.store(), b);
    for _ in 0..3 {
        assert_eq!(as_hidden(&scratch.snapshot()), hidden);
        scratch.seal();
        scratch.reopen();
    }
}

/// The process may end before the bytes are erased: the chain is the same at every moment.
#[test]
fn chain_is_unchanged_during_the_erasure_of_a_member() {
    struct CheckDuringRewrite<'a>(&'a ScratchStore, [ItemId; 4]);
    impl Throttle for CheckDuringRewrite<'_> {
        fn after_write(&self, _bytes: usize) -> bool {
            let Self(scratch, [a, b, c, d]) = self;
            for any in [*a, *b, *c, *d] {
                assert_eq!(chain(&scratch.snapshot(), any).0, [*a, *b, *c, *d]);
            }
            assert_eq!(successors(&scratch.snapshot(), *a), [*d]);
            true
        }
    }
    let scratch = ScratchStore::unmerged();
    let a = scratch.write(items([note("a")])).items[0];
    scratch.seal();
    let b = scratch.write(items([replacing("b", &[a])])).items[0];
    scratch.seal();
    let c = scratch.write(items([replacing("c", &[b])])).items[0];
    scratch.seal();
    let d = scratch.write(items([replacing("d", &[c])])).items[0];
    let pace = CheckDuringRewrite(&scratch, [a, b, c, d]);
    scratch.store().erase(&[b.0, c.0], "officer", "asked for", &pace).expect("the disk works");
    assert_eq!(chain(&scratch.snapshot(), d), (vec![a, b, c, d], vec![b, c]));
}

#[test]
fn erasure_in_a_backup_keeps_the_chain() {
    let scratch = ScratchStore::new();
    let a = scratch.write(items([note("a")])).items[0];
    let b = scratch.write(items([replacing("b", &[a])])).items[0];
    let c = scratch.write(items([replacing("c", &[b])])).items[0];
    erase(scratch.store(), b);
    let (backup, place) = (MemoryDisk::default(), MemoryDisk::default());
    scratch.store().backup(&backup).expect("the disk works");
    engine::restore(&backup, &place).expect("the disk works");
    let reader = StoreReader::open(Arc::new(place)).expect("it opens");
    check(&reader.snapshot(), [a, b, c], "restored");
}

/// The erased items of another store, as an import of its rows writes them.
#[test]
fn imported_erasures_reserve_ids_and_keep_chains() {
    let mut scratch = ScratchStore::new();
    let reference = Some("the ref".to_owned());
    let first = ItemDraft { reference: reference.clone(), ..note("a") };
    let a = scratch.write(items([first])).items[0];
    let (b, c) = (scratch.store().new_item_id(), scratch.store().new_item_id());
    let newer = ItemDraft { id: Some(c), reference, ..replacing("c", &[b]) };
    let newer = |may_replace_erased| Batch { may_replace_erased, ..items([newer.clone()]) };
    assert_eq!(scratch.write_error(newer(true)).0, "supersedes", "nobody knows it");
    scratch.write(tombstones([erased_tombstone(b, &[a])]));
    assert_eq!(scratch.store().erasures_pending().unwrap(), 0, "it has no bytes");
    assert_eq!(scratch.snapshot().find_ref("the ref"), Ok(None), "what it replaced gave way");
    assert_eq!(scratch.write_error(newer(false)).0, "supersedes");
    scratch.write(newer(true));
    for _ in 0..3 {
        check(&scratch.snapshot(), [a, b, c], "taken");
        let again = ItemDraft { id: Some(b), ..note("it comes back") };
        let again = Batch { may_replace_erased: true, ..items([again]) };
        let (field, why) = scratch.write_error(again);
        assert_eq!(field, "id");
        assert!(why.contains("is taken"), "{why}");
        scratch.seal();
        scratch.reopen();
    }
    let stones = scratch.snapshot();
    let stones = stones.tombstones(b.0).expect("no damage");
    assert!(stones.iter().all(|stone| stone.target_erased && stone.erase), "{stones:?}");
    let disk = scratch.env().disk;
    let found = engine::verify(&*disk, &mut |_| {}).expect("it can be read");
    assert!(found.is_clean(), "{found:#?}");
}

/// Stores with many erasures obey every rule, and all chains survive.
#[test]
fn random_stores_keep_their_chains_after_erasures() {
    for seed in 0..8 {
        let disk = Arc::new(MemoryDisk::default());
        let open = || {
            let ground = ground::still(disk.clone(), seed);
            Store::open(ground, ground::unmerged()).expect("it opens")
        };
        let store = open();
        random_store::fill(&store, seed, 40, true);
        let before = store.snapshot();
        let places = before.item_addresses().expect("no damage").collect();
        let all = ids(&before, Ok(places));
        let shown = |snapshot: &Snapshot| {
            let chains = all.iter().map(|&id| {
                let mut members = chain(snapshot, id).0;
                members.sort_unstable();
                (members, successors(snapshot, id))
            });
            chains.collect::<Vec<_>>()
        };
        let wanted = shown(&before);
        assert!(store.erase_pending(&NoThrottle).expect("the disk works") > 0, "seed {seed}");
        assert_eq!(shown(&store.snapshot()), wanted, "seed {seed}");
        drop(store);
        let found = engine::verify(&*disk, &mut |_| {}).expect("it can be read");
        assert!(found.is_clean(), "seed {seed}: {found:#?}");
        assert_eq!(shown(&open().snapshot()), wanted, "seed {seed}, opened again");
    }
}
