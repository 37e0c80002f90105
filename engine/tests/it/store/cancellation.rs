//! Cancellation of reads whose work grows with the store: each read checks its token more than once, and ends when
//! cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{
    AccessClass, AsOf, Batch, CancelToken, EdgeFilter, Filter, ItemId, Micros, NEIGHBOURS_MAX,
    SearchError, Snapshot, Visibility, VisibilityMask, WalkLimits,
};
use kernels::Kernels;
use support_engine::sample::{DIMENSIONS, MODEL, halves, items, link, note, tombstones};

use super::scratch_store::ScratchStore;

/// More rows, of every kind that a read scans, than lie between two checks.
const ITEMS: usize = 20_000;
const EDGES: usize = 3_000;
const EAST: [f32; DIMENSIONS] = [1.0, 0.0, 0.0, 0.0];

type Read = fn(&Snapshot, ItemId, ItemId) -> Result<(), SearchError>;

const READS: [(&str, Read); 12] = [
    ("meaning", |snapshot, _, _| {
        snapshot.nearest(&Kernels::detect(), &EAST, 5, &Filter::default()).map(drop)
    }),
    ("meaning, of some", |snapshot, _, _| {
        let filter = Filter { kinds: vec!["note".to_owned()], ..Filter::default() };
        snapshot.nearest(&Kernels::detect(), &EAST, 5, &filter).map(drop)
    }),
    ("one word", |snapshot, _, _| {
        snapshot.search_words("otter", ITEMS, &Filter::default()).map(drop)
    }),
    ("two words", |snapshot, _, _| {
        snapshot.search_words("otter heron", ITEMS, &Filter::default()).map(drop)
    }),
    ("finding what is hidden", |snapshot, _, _| {
        snapshot.mask(&VisibilityMask::default(), mask_odd_items()).map(drop)
    }),
    ("words, with rows that do not count", |snapshot, _, _| {
        // The mask is computed before the cancellation.
        let unhurried = snapshot.clone().with_cancel(CancelToken::default());
        let hidden = unhurried.mask(&VisibilityMask::default(), mask_odd_items())?;
        let filter = Filter { mask: Some(Arc::new(hidden)), ..Filter::default() };
        snapshot.lexical_search("otter heron", &filter).score_items(&[], &filter).map(drop)
    }),
    ("neighbours", |snapshot, hub, _| {
        snapshot.neighbours(hub, NEIGHBOURS_MAX, &EdgeFilter::default()).map(drop)
    }),
    ("neighbourhood", |snapshot, hub, _| {
        let limits = WalkLimits::default();
        snapshot.neighbourhood(&[hub], 2, &EdgeFilter::default(), limits).map(drop)
    }),
    ("path", |snapshot, hub, far| {
        let limits = WalkLimits::default();
        snapshot.path(hub, far, 6, &EdgeFilter::default(), limits).map(drop)
    }),
    ("counts of an earlier time", |snapshot, _, _| {
        let moment = AsOf { known_at: Some(Micros(i64::MAX)), ..AsOf::default() };
        snapshot.with_as_of(moment).row_counts().map(drop)
    }),
    ("census", |snapshot, _, _| snapshot.item_counts().map(drop)),
    ("all records", |snapshot, _, _| snapshot.records().try_for_each(|record| record.map(drop))),
];

#[test]
fn long_reads_end_on_cancel() {
    let (scratch, hub, far) = filled_store();
    for (name, read) in READS {
        let (whole, asked) = stopped_at(u64::MAX, &scratch, |snapshot| read(snapshot, hub, far));
        assert_eq!(whole, Ok(()), "{name}");
        assert!(asked > 1, "{name}: asked {asked} times, so some of its work asks nobody");
        for at in [1, 2, asked] {
            let (ended, asked) = stopped_at(at, &scratch, |snapshot| read(snapshot, hub, far));
            assert_eq!(ended, Err(SearchError::Interrupted), "{name}, at question {at}");
            assert_eq!(asked, at, "{name} went on after question {at}");
        }
    }
}

/// A cancelled search leaves no state behind: the next search on its thread is complete.
#[test]
fn search_after_a_cancelled_search_is_complete() {
    let (scratch, ..) = filled_store();
    let search = |snapshot: &Snapshot| {
        let hits = snapshot.search_words("otter heron", 10, &Filter::default())?;
        Ok::<_, SearchError>(hits.iter().map(|hit| (hit.address, hit.score)).collect::<Vec<_>>())
    };
    let before = search(&scratch.snapshot()).unwrap();
    assert_eq!(before.len(), 10);
    let (_, asked) = stopped_at(u64::MAX, &scratch, search);
    for at in 1..=asked {
        let (ended, _) = stopped_at(at, &scratch, search);
        assert_eq!(ended, Err(SearchError::Interrupted));
        assert_eq!(search(&scratch.snapshot()).unwrap(), before);
    }
}

/// Runs a read that is cancelled at the check of the given number; returns the number of checks.
fn stopped_at<T>(
    number: u64,
    scratch: &ScratchStore,
    read: impl FnOnce(&Snapshot) -> Result<T, SearchError>,
) -> (Result<T, SearchError>, u64) {
    let asked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&asked);
    let stop = CancelToken::from_fn(move || counted.fetch_add(1, Ordering::Relaxed) + 1 >= number);
    let ended = read(&scratch.snapshot().with_cancel(stop));
    (ended, asked.load(Ordering::Relaxed))
}

/// Hides the items of kind `secret`: every other item.
fn mask_odd_items() -> impl FnMut(&AccessClass<'_>) -> Visibility {
    |class| if class.kind == "secret" { Visibility::Denied } else { Visibility::Full }
}

/// Returns a store, an item with many edges, and an item three hops away from it.
fn filled_store() -> (ScratchStore, ItemId, ItemId) {
    let scratch = ScratchStore::unmerged();
    scratch.store().bind_model(MODEL).expect("a new store takes a model");
    let mut made = Vec::with_capacity(ITEMS);
    while made.len() < ITEMS {
        let drafts = (0..1_000).map(|at| engine::ItemDraft {
            embedding: halves(EAST),
            kind: if at % 2 == 0 { "note" } else { "secret" }.to_owned(),
            ..note(if at % 2 == 0 { "otter heron" } else { "heron otter otter" })
        });
        made.extend(scratch.write(items(drafts)).items);
    }
    let hub = made[0];
    let mut edges: Vec<_> = made[1..=EDGES].iter().map(|&id| link(hub, id, 0.5)).collect();
    // The other end has as many edges, so that the traversal is long from either end.
    let far = made[ITEMS - 1];
    edges.extend(made[EDGES + 1..=2 * EDGES].iter().map(|&id| link(far, id, 0.5)));
    edges.push(link(made[1], made[2 * EDGES], 0.5));
    scratch.write(Batch { edges, ..Batch::default() });
    scratch.write(tombstones([support_engine::sample::hide(made[ITEMS - 2])]));
    scratch.seal();
    (scratch, hub, far)
}
