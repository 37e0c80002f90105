//! Full-text, vector and graph search: results, their order, and filters.

use engine::{Batch, Direction, Filter, ItemDraft, ItemId, Options, Sensitivity, Snapshot, Store};
use half::f16;
use kernels::Kernels;
use proptest::prelude::*;
use support_engine::ground;
use support_engine::listing::ALL;
use support_engine::memory_disk::MemoryDisk;
use support_engine::sample::{
    self, DIMENSIONS, MODEL, halves, hide, items, link, note, tombstones,
};

use super::scratch_store::{ScratchStore, nearest_ids, neighbours, search_word};

const EAST: [f32; DIMENSIONS] = [1.0, 0.0, 0.0, 0.0];

#[test]
fn neighbours_in_both_directions_come_strongest_first() {
    let mut scratch = ScratchStore::new();
    let made = scratch.write(items(["hub", "a", "b", "c"].map(note))).items;
    let (hub, a, b, c) = (made[0], made[1], made[2], made[3]);
    let first = vec![link(hub, a, 0.25), link(b, hub, 1.0), link(a, b, 0.75)];
    scratch.write(Batch { edges: first, ..Batch::default() });
    scratch.seal();
    let second = vec![link(hub, c, 0.25), link(c, hub, 0.5), link(hub, hub, 0.125)];
    scratch.write(Batch { edges: second, ..Batch::default() });
    for _ in 0..2 {
        let snapshot = scratch.snapshot();
        let near = neighbours(&snapshot, hub);
        let seen = near
            .iter()
            .map(|one| (snapshot.id(one.address).unwrap(), one.direction, one.edge.weight));
        let wanted = [
            (b, Direction::In, 1.0),
            (c, Direction::In, 0.5),
            (a, Direction::Out, 0.25),
            (c, Direction::Out, 0.25),
            (hub, Direction::Out, 0.125),
            (hub, Direction::In, 0.125),
        ];
        assert_eq!(seen.collect::<Vec<_>>(), wanted);
        scratch.reopen();
    }
    let snapshot = scratch.snapshot();
    assert!(neighbours(&snapshot, ItemId(5)).is_empty());
}

#[test]
fn superseded_item_stays_a_neighbour() {
    let scratch = ScratchStore::new();
    let made = scratch.write(items([note("a"), note("b")])).items;
    scratch.write(Batch { edges: vec![link(made[0], made[1], 0.5)], ..Batch::default() });
    scratch.write(items([ItemDraft { supersedes: vec![made[1]], ..note("c") }]));
    assert_eq!(neighbours(&scratch.snapshot(), made[0]).len(), 1);
}

/// Each filter admits the same items in both searches, with rows in two segments and the tail.
#[test]
fn filters_apply_in_lexical_and_vector_search() {
    let scratch = ScratchStore::new();
    scratch.store().bind_model(MODEL).unwrap();
    let item = |kind: &str, modality: &str, sensitivity| ItemDraft {
        kind: kind.to_owned(),
        modality: modality.to_owned(),
        sensitivity,
        embedding: halves(EAST),
        ..note("otter")
    };
    let add = |draft: ItemDraft| scratch.write(items([draft])).items[0];
    let public = add(item("note", "text", Sensitivity::Public));
    let internal = add(item("decision", "text", Sensitivity::Internal));
    scratch.seal();
    let confidential = add(item("note", "code", Sensitivity::Confidential));
    let old = add(item("chunk", "text", Sensitivity::Public));
    scratch.seal();
    let restricted =
        add(ItemDraft { supersedes: vec![old], ..item("chunk", "code", Sensitivity::Restricted) });
    // Excluded from the full-text columns, and so from every search.
    add(ItemDraft { searchable: false, ..item("note", "text", Sensitivity::Public) });

    let all = Filter::default;
    let kinds = |kinds: &[&str]| Filter {
        kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(),
        ..all()
    };
    let modality = |name: &str| Filter { modality: Some(name.to_owned()), ..all() };
    let at_most = |most| Filter { sensitivity_max: Some(most), ..all() };
    let cases = [
        (all(), vec![public, internal, confidential, old, restricted]),
        (Filter { current_only: true, ..all() }, vec![public, internal, confidential, restricted]),
        (kinds(&["note"]), vec![public, confidential]),
        (kinds(&["note", "decision"]), vec![public, internal, confidential]),
        (kinds(&["unheard of"]), vec![]),
        (modality("code"), vec![confidential, restricted]),
        (modality("unheard of"), vec![]),
        (at_most(Sensitivity::Public), vec![public, old]),
        (at_most(Sensitivity::Internal), vec![public, internal, old]),
        (at_most(Sensitivity::Restricted), vec![public, internal, confidential, old, restricted]),
        (Filter { current_only: true, ..modality("text") }, vec![public, internal]),
    ];
    let snapshot = scratch.snapshot();
    for (filter, wanted) in cases {
        // All scores are equal, so the results are in order of id.
        assert_eq!(search_word(&snapshot, "otter", &filter), wanted, "words, {filter:?}");
        assert_eq!(nearest_ids(&snapshot, &EAST, &filter), wanted, "nearest, {filter:?}");
    }
}

#[test]
fn limit_applies_after_the_filter() {
    let scratch = ScratchStore::new();
    scratch.store().bind_model(MODEL).unwrap();
    let item =
        |kind: &str| ItemDraft { kind: kind.to_owned(), embedding: halves(EAST), ..note("otter") };
    let made = scratch.write(items(["x", "x", "x", "y", "y"].map(item))).items;
    let snapshot = scratch.snapshot();
    let filter = Filter { kinds: vec!["y".to_owned()], ..Filter::default() };
    let kernels = Kernels::detect();
    for limit in 0..4 {
        let wanted = &made[3..][..limit.min(2)];
        let of = |hits: Vec<engine::Hit>| {
            hits.iter().map(|hit| snapshot.id(hit.address).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(of(snapshot.search_words("otter", limit, &filter).unwrap()), wanted);
        assert_eq!(of(snapshot.nearest(&kernels, &EAST, limit, &filter).unwrap()), wanted);
    }
}

/// Scores as well as order are equal: sealing and reopening move rows without changing them.
#[test]
fn search_results_survive_sealing_and_reopening() {
    let mut scratch = ScratchStore::new();
    scratch.store().bind_model(MODEL).unwrap();
    let texts = ["the owl", "an owl and an owl at night", "night of the heron", "owl", "heron bay"];
    let mut made = Vec::new();
    for (n, text) in (0u8..).zip(texts.iter().cycle().take(20)) {
        let embedding = halves([f32::from(n % 3), 1.0, -f32::from(n % 5), 0.5]);
        made.extend(scratch.write(items([ItemDraft { embedding, ..note(text) }])).items);
    }
    scratch.write(tombstones([hide(made[6])]));
    let searched = |scratch: &ScratchStore| {
        let snapshot = scratch.snapshot();
        let everything = Filter::default();
        let of = |hits: Vec<engine::Hit>| {
            hits.iter()
                .map(|hit| (snapshot.id(hit.address).unwrap(), hit.score.to_bits()))
                .collect::<Vec<_>>()
        };
        let questions = ["owl", "heron night", "the owl bay", "nothing of it"];
        let words = questions
            .map(|question| of(snapshot.search_words(question, ALL, &everything).unwrap()));
        let kernels = Kernels::detect();
        (words, of(snapshot.nearest(&kernels, &[1.0, 2.0, 3.0, 4.0], ALL, &everything).unwrap()))
    };
    let tail = searched(&scratch);
    assert_eq!((tail.0[0].len(), tail.1.len()), (11, 19));
    scratch.reopen();
    assert_eq!(searched(&scratch), tail, "replayed");
    scratch.seal();
    assert_eq!(searched(&scratch), tail, "sealed");
    scratch.reopen();
    assert_eq!(searched(&scratch), tail, "reopened");
}

#[test]
fn embeddings_of_another_model_are_rejected() {
    let mut scratch = ScratchStore::new();
    let embedded =
        |width: usize| items([ItemDraft { embedding: vec![f16::ONE; width], ..note("x") }]);
    assert_eq!(scratch.write_error(embedded(DIMENSIONS)).0, "embedding");
    scratch.store().bind_model(MODEL).unwrap();
    scratch.write(embedded(DIMENSIONS));
    for _ in 0..2 {
        assert_eq!(scratch.snapshot().model(), Some(MODEL));
        scratch.store().bind_model(MODEL).unwrap();
        let other = engine::Model { fingerprint: [8; 32], ..MODEL };
        let wider = engine::Model { dimensions: 8, ..MODEL };
        for model in [other, wider] {
            let error = scratch.store().bind_model(model).unwrap_err();
            assert_eq!(error.remedy(), engine::Remedy::FixRequest);
            assert!(error.to_string().contains("070707070707"), "{error}");
        }
        assert_eq!(scratch.write_error(embedded(8)).0, "embedding");
        // A query of another width finds nothing.
        assert!(nearest_ids(&scratch.snapshot(), &[1.0; 8], &Filter::default()).is_empty());
        scratch.reopen();
    }
    let not_finite = ItemDraft { embedding: halves([f32::NAN, 0.0, 0.0, 0.0]), ..note("x") };
    assert_eq!(scratch.write_error(items([not_finite])).0, "embedding");
}

#[test]
fn model_with_invalid_dimensions_is_rejected() {
    let scratch = ScratchStore::new();
    for dimensions in [0, engine::limits::DIMENSIONS_MAX + 1] {
        let error = scratch.store().bind_model(engine::Model { dimensions, ..MODEL }).unwrap_err();
        assert!(error.to_string().contains("4096"), "{error}");
    }
    assert_eq!(scratch.snapshot().model(), None);
}

/// An item with an embedding: its id and its vector.
type Row = (ItemId, [f32; DIMENSIONS]);

/// The definition: the cosine of every row, best first, ties in order of id. With small integers every dot product is
/// exact in any order of addition, so ties here are ties in the store.
fn brute_force(rows: &[Row], query: [f32; DIMENSIONS], limit: usize) -> Vec<(ItemId, f32)> {
    #[expect(clippy::cast_possible_truncation, reason = "the nearest f32 is what is compared")]
    let length = |v: [f32; DIMENSIONS]| {
        v.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt() as f32
    };
    let mut scored: Vec<(ItemId, f32)> = rows
        .iter()
        .map(|&(id, row)| {
            let dot: f32 = row.iter().zip(query).map(|(a, b)| a * b).sum();
            let norm = length(row) * length(query);
            (id, if norm > 0.0 { dot / norm + 0.0 } else { 0.0 })
        })
        .collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scored.truncate(limit);
    scored
}

fn nearest(snapshot: &Snapshot, query: [f32; DIMENSIONS], limit: usize) -> Vec<(ItemId, f32)> {
    let everything = Filter::default();
    let hits = snapshot.nearest(&Kernels::detect(), &query, limit, &everything);
    let hits = hits.expect("no damage").into_iter();
    hits.map(|hit| (snapshot.id(hit.address).expect("no damage"), hit.score)).collect()
}

fn small() -> impl Strategy<Value = [f32; DIMENSIONS]> {
    prop::array::uniform4((-2i8..=2).prop_map(f32::from))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Several segments and a tail; some items hidden; many equal scores.
    #[test]
    fn nearest_equals_brute_force(
        batches in prop::collection::vec(
            (prop::collection::vec((small(), any::<bool>()), 1..30), any::<bool>()), 1..8),
        query in small().prop_filter("a direction", |query| query.iter().any(|&x| x != 0.0)),
        limit in 0usize..60,
    ) {
        let ground = ground::still(std::sync::Arc::new(MemoryDisk::default()), 5);
        let store = Store::open(ground, Options::default()).unwrap();
        store.bind_model(MODEL).unwrap();
        let mut rows: Vec<Row> = Vec::new();
        for (batch, seals) in &batches {
            let drafts = batch.iter().map(|&(v, _)| ItemDraft { embedding: halves(v), ..note("") });
            let made = store.write(items(drafts)).unwrap().items;
            let gone = made.iter().zip(batch).filter(|(_, (_, gone))| *gone);
            let stones = sample::tombstones(gone.map(|(&id, _)| hide(id)));
            if !stones.tombstones.is_empty() {
                store.write(stones).unwrap();
            }
            let kept = made.into_iter().zip(batch).filter(|(_, (_, gone))| !gone);
            rows.extend(kept.map(|(id, &(v, _))| (id, v)));
            if *seals {
                store.seal().unwrap();
            }
        }
        let wanted = brute_force(&rows, query, limit);
        prop_assert_eq!(nearest(&store.snapshot(), query, limit), wanted);
    }
}
