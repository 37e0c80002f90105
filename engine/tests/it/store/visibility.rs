//! Masked items change no result, compared with stores that never had them.

use std::sync::Arc;

use engine::{
    AccessClass, Batch, EdgeDraft, EdgeFilter, EdgeId, Filter, ItemDraft, ItemId, NEIGHBOURS_MAX,
    Options, RowAddress, Sensitivity, Snapshot, Store, Visibility, VisibilityMask,
};
use kernels::Kernels;
use proptest::prelude::*;
use support_engine::ground;
use support_engine::listing::ALL;
use support_engine::memory_disk::MemoryDisk;
use support_engine::sample::{DIMENSIONS, MODEL, halves, items, link, note};

use super::scratch_store::{ScratchStore, search_word};

fn visibility_of(class: &AccessClass<'_>) -> Visibility {
    if class.kind == "secret" || class.sensitivity == Sensitivity::Restricted {
        Visibility::Denied
    } else if class.gates.contains(&"veil") {
        Visibility::MetadataOnly
    } else {
        Visibility::Full
    }
}

fn mask_of(snapshot: &Snapshot) -> Arc<VisibilityMask> {
    Arc::new(snapshot.mask(&VisibilityMask::default(), visibility_of).expect("no damage"))
}

fn filter_with_mask(hidden: &Arc<VisibilityMask>) -> Filter {
    Filter { mask: Some(Arc::clone(hidden)), ..Filter::default() }
}

#[test]
fn masked_items_are_found_only_with_the_only_masked_filter() {
    let scratch = ScratchStore::new();
    let draft = |kind: &str, gates: &[&str], sensitivity| ItemDraft {
        kind: kind.to_owned(),
        gates: gates.iter().map(|&gate| gate.to_owned()).collect(),
        sensitivity,
        ..note("the great lamp")
    };
    use Sensitivity::{Internal, Restricted};
    let seen = scratch.write(items([draft("note", &[], Internal)])).items[0];
    let secret = scratch.write(items([draft("secret", &[], Internal)])).items[0];
    scratch.seal();
    let veiled = scratch.write(items([draft("note", &["pii", "veil"], Internal)])).items[0];
    let restricted = scratch.write(items([draft("note", &["pii"], Restricted)])).items[0];
    let snapshot = scratch.snapshot();
    let hidden = mask_of(&snapshot);
    assert!(!hidden.is_empty() && hidden.covers(&snapshot));
    let only = Filter { only_masked: true, ..filter_with_mask(&hidden) };
    for question in ["lamp", "the great lamp"] {
        assert_eq!(search_word(&snapshot, question, &filter_with_mask(&hidden)), [seen]);
        assert_eq!(search_word(&snapshot, question, &only), [secret, veiled, restricted]);
    }
    // Scored one by one, the items get the scores of a search.
    let places = snapshot.masked_items(&only, 3).unwrap().expect("they are three");
    let scored = snapshot.lexical_search("lamp", &only).score_items(&places, &only).unwrap().items;
    let mut scored: Vec<_> = places.iter().zip(scored).map(|it| (*it.0, it.1.score)).collect();
    let hits = snapshot.search_words("lamp", 9, &only).unwrap();
    let mut hits: Vec<_> = hits.iter().map(|hit| (hit.address, hit.score)).collect();
    hits.sort_by_key(|hit| hit.0);
    scored.sort_by_key(|item| item.0);
    assert_eq!(scored, hits);
    assert_eq!(snapshot.masked_items(&only, 2).unwrap(), None);
    let of_notes = Filter { kinds: vec!["note".to_owned()], ..only.clone() };
    assert_eq!(snapshot.masked_items(&of_notes, 3).unwrap(), Some(places[1..].to_vec()));
    let quoted =
        |filter: &Filter| snapshot.phrase_matches("\"great lamp\"", filter).unwrap().unwrap();
    assert_eq!(quoted(&filter_with_mask(&hidden)).items.len(), 1);
    assert_eq!(quoted(&only).items.len(), 3);
    // A search of the visible items returns the masked candidates, and which of them match, one by one.
    let seen_quoted = quoted(&filter_with_mask(&hidden));
    assert_eq!((&seen_quoted.masked, quoted(&only).masked.len()), (&places, 0));
    assert!(places.iter().all(|&place| snapshot.matches_phrases(&seen_quoted, place).unwrap()));
    let apart =
        snapshot.phrase_matches("\"lamp great\"", &filter_with_mask(&hidden)).unwrap().unwrap();
    assert_eq!((apart.items.len(), &apart.masked), (0, &places));
    assert!(!places.iter().any(|&place| snapshot.matches_phrases(&apart, place).unwrap()));
    // A veiled item may still be reached by its edges.
    let admitted = |id| {
        let place = snapshot.find(id).unwrap().unwrap();
        snapshot.admits(&filter_with_mask(&hidden), place).unwrap()
    };
    assert_eq!([seen, secret, veiled, restricted].map(admitted), [true, false, true, false]);
    assert!(snapshot.mask(&VisibilityMask::default(), |_| Visibility::Full).unwrap().is_empty());
}

#[test]
fn visibility_mask_is_reused_across_snapshots() {
    let scratch = ScratchStore::unmerged();
    let secret = || ItemDraft { kind: "secret".to_owned(), ..note("lamp") };
    let first = scratch.write(items([note("lamp"), secret()])).items[0];
    scratch.seal();
    let earlier = scratch.snapshot();
    let before = mask_of(&earlier);
    let later = scratch.write(items([note("lamp"), secret(), secret()])).items[0];
    let snapshot = scratch.snapshot();
    assert!(!before.covers(&snapshot));
    // Rows that the mask does not know are not shown.
    assert_eq!(search_word(&snapshot, "lamp", &filter_with_mask(&before)), [first]);
    // Such rows do not count either: scores are those of the earlier snapshot.
    let scored = |snapshot: &Snapshot| {
        let hits = snapshot.search_words("lamp", ALL, &filter_with_mask(&before)).unwrap();
        hits.iter().map(|hit| hit.score.to_bits()).collect::<Vec<u32>>()
    };
    assert_eq!(scored(&snapshot), scored(&earlier));
    let mut asked = 0;
    let hidden = snapshot.mask(&before, |class| {
        asked += 1;
        visibility_of(class)
    });
    assert_eq!(
        search_word(&snapshot, "lamp", &filter_with_mask(&Arc::new(hidden.unwrap()))),
        [first, later]
    );
    assert_eq!(asked, 2, "only the new rows are looked at, once for each of their classes");
}

/// An item of the stores: access class, words, embedding.
type RandomItem = (u8, Vec<&'static str>, [f32; DIMENSIONS]);

const WORDS: [&str; 5] = ["ash", "bay", "cod", "dee", "elm"];

fn random_item() -> impl Strategy<Value = RandomItem> {
    let words = prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..9);
    let embedding = prop::array::uniform4((-2i8..=2).prop_map(f32::from));
    (0u8..6, words, embedding)
}

fn draft(id: ItemId, (class, words, embedding): &RandomItem) -> ItemDraft {
    ItemDraft {
        id: Some(id),
        kind: if *class == 0 { "secret" } else { "note" }.to_owned(),
        gates: if *class == 1 { vec!["veil".to_owned()] } else { Vec::new() },
        sensitivity: if *class == 2 { Sensitivity::Restricted } else { Sensitivity::Public },
        title: words.first().copied().unwrap_or_default().to_owned(),
        embedding: halves(*embedding),
        ..note(&words.join(" "))
    }
}

fn is_seen(drawn: &RandomItem) -> bool {
    drawn.0 > 2
}

fn is_denied(drawn: &RandomItem) -> bool {
    matches!(drawn.0, 0 | 2)
}

fn store() -> Store {
    let ground = ground::still(Arc::new(MemoryDisk::default()), 5);
    let store = Store::open(ground, Options::default()).expect("it is new");
    store.bind_model(MODEL).expect("it has none yet");
    store
}

type RankedIds = Vec<(ItemId, u32)>;

fn ranked_ids(
    snapshot: &Snapshot,
    hits: Result<Vec<engine::Hit>, engine::SearchError>,
) -> RankedIds {
    let id = |place| snapshot.id(place).expect("no damage");
    hits.expect("no damage").iter().map(|hit| (id(hit.address), hit.score.to_bits())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Equal to the last bit of every score, for any limit: no masked row uses up a result.
    #[test]
    fn masked_answers_equal_a_store_without_masked_items(
        batches in prop::collection::vec((prop::collection::vec(random_item(), 1..40), any::<bool>()), 1..6),
        edges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0u8..4), 0..60),
        question in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 1..4),
        query in prop::array::uniform4((-2i8..=2).prop_map(f32::from)),
        limit in 1usize..12,
    ) {
        let [whole, seen, told] = [store(), store(), store()];
        let mut all: Vec<(ItemId, RandomItem)> = Vec::new();
        for (batch, seals) in &batches {
            let first = all.len() as u128 + 1;
            let batch = (first..).map(ItemId).zip(batch.iter().cloned());
            let batch: Vec<(ItemId, RandomItem)> = batch.collect();
            for (store, takes) in [
                (&whole, (|_| true) as fn(&RandomItem) -> bool),
                (&seen, is_seen),
                (&told, |drawn| !is_denied(drawn)),
            ] {
                let drafts = batch.iter().filter(|(_, drawn)| takes(drawn));
                let drafts = items(drafts.map(|(id, drawn)| draft(*id, drawn)));
                if !drafts.items.is_empty() {
                    store.write(drafts).unwrap();
                }
                if *seals {
                    store.seal().unwrap();
                }
            }
            all.extend(batch);
        }
        for (number, (from, to, weight)) in (1u128..).zip(&edges) {
            let (from, to) = (from.get(&all), to.get(&all));
            let id = Some(EdgeId(number << 64));
            let edge = EdgeDraft { id, ..link(from.0, to.0, f32::from(*weight) / 4.0) };
            let batch = || Batch { edges: vec![edge.clone()], ..Batch::default() };
            whole.write(batch()).unwrap();
            if !is_denied(&from.1) && !is_denied(&to.1) {
                told.write(batch()).unwrap();
            }
        }
        let (whole, seen, told) = (whole.snapshot(), seen.snapshot(), told.snapshot());
        let hidden = mask_of(&whole);
        let (filter, plain) = (filter_with_mask(&hidden), Filter::default());

        let words = question.join(" ");
        let search = |snapshot: &Snapshot, filter: &Filter, limit| {
            ranked_ids(snapshot, snapshot.search_words(&words, limit, filter))
        };
        for limit in [limit, ALL] {
            prop_assert_eq!(search(&whole, &filter, limit), search(&seen, &plain, limit));
        }
        // Scores of single items and term statistics are equal, too, whatever was counted before.
        let known: Vec<ItemId> = all.iter().filter(|it| is_seen(&it.1)).map(|it| it.0).collect();
        let told_of = |snapshot: &Snapshot, filter: &Filter| {
            let places = known.iter().rev().map(|&id| snapshot.find(id).unwrap().unwrap());
            let places: Vec<RowAddress> = places.collect();
            let asked = snapshot.lexical_search(&words, filter);
            let hits = ranked_ids(snapshot, asked.search(limit, filter));
            (hits, asked.score_items(&places, filter).unwrap())
        };
        prop_assert_eq!(told_of(&whole, &filter), told_of(&seen, &plain));

        let kernels = Kernels::detect();
        let near = |snapshot: &Snapshot, filter: &Filter| {
            ranked_ids(snapshot, snapshot.nearest(&kernels, &query, limit, filter))
        };
        prop_assert_eq!(near(&whole, &filter), near(&seen, &plain));

        // A search with a threshold returns the results of a full search at or above the threshold.
        let least = search(&whole, &filter, limit).last().map_or(0.0, |hit| f32::from_bits(hit.1));
        let above = |hits: RankedIds| -> RankedIds {
            hits.into_iter().filter(|hit| f32::from_bits(hit.1) >= least).collect()
        };
        let asked = whole.lexical_search(&words, &filter);
        let from = ranked_ids(&whole, asked.search_at_least(ALL, least, &filter));
        prop_assert_eq!(from, above(search(&whole, &filter, ALL)));
        let least = near(&whole, &filter).last().map_or(0.0, |hit| f32::from_bits(hit.1));
        let above = |hits: RankedIds| -> RankedIds {
            hits.into_iter().filter(|hit| f32::from_bits(hit.1) >= least).collect()
        };
        let from = whole.nearest_at_least(&kernels, &query, ALL, least, &filter);
        let nearest = ranked_ids(&whole, whole.nearest(&kernels, &query, ALL, &filter));
        prop_assert_eq!(ranked_ids(&whole, from), above(nearest));

        let phrase = format!("\"{words}\"");
        let quoted = |snapshot: &Snapshot, filter: &Filter| {
            let quoted = snapshot.phrase_matches(&phrase, filter).unwrap().unwrap();
            let among = Filter { allowlist: Some(quoted.items), ..filter.clone() };
            ranked_ids(snapshot, snapshot.search_words(&words, ALL, &among))
        };
        prop_assert_eq!(quoted(&whole, &filter), quoted(&seen, &plain));

        let out = EdgeFilter { mask: Some(hidden), ..EdgeFilter::default() };
        for (id, _) in all.iter().filter(|(_, drawn)| !is_denied(drawn)) {
            let met = |snapshot: &Snapshot, which: &EdgeFilter, limit| {
                let met = snapshot.neighbours(*id, limit, which).unwrap();
                met.iter().map(|one| (one.edge.id, snapshot.id(one.address).unwrap())).collect::<Vec<_>>()
            };
            for limit in [limit, NEIGHBOURS_MAX] {
                prop_assert_eq!(met(&whole, &out, limit), met(&told, &EdgeFilter::default(), limit));
            }
        }
    }
}
