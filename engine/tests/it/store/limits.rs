//! At every limit of the format: the largest allowed value is stored, the next one is rejected with an error that names
//! the field and the limit.

use engine::limits::*;
use engine::{Batch, EdgeDraft, ItemDraft, SourceDraft, TombstoneDraft};
use support_engine::sample::{file, hide, items, link, note, tombstones};

use super::scratch_store::ScratchStore;

fn long(bytes: usize) -> String {
    "x".repeat(bytes)
}

/// Makes an item from a number: its size, or its number of members.
type WithLength = fn(usize) -> ItemDraft;

#[test]
fn item_fields_are_accepted_up_to_their_limits() {
    let scratch = ScratchStore::new();
    let cases: [(&str, usize, WithLength); 12] = [
        ("text", TEXT_BYTES_MAX, |n| ItemDraft { text: long(n), searchable: false, ..note("") }),
        ("title", TITLE_BYTES_MAX, |n| ItemDraft { title: long(n), ..note("") }),
        ("attributes", ATTRIBUTE_BYTES_MAX, |n| ItemDraft {
            attributes: format!(r#"{{"a":"{}"}}"#, long(n - 8)),
            ..note("")
        }),
        ("kind", NAME_BYTES_MAX, |n| ItemDraft { kind: long(n), ..note("") }),
        ("modality", NAME_BYTES_MAX, |n| ItemDraft { modality: long(n), ..note("") }),
        ("recorded_by", NAME_BYTES_MAX, |n| ItemDraft { recorded_by: long(n), ..note("") }),
        ("via", NAME_BYTES_MAX, |n| ItemDraft { via: long(n), ..note("") }),
        ("tags", NAME_BYTES_MAX, |n| ItemDraft { tags: vec![long(n)], ..note("") }),
        ("gates", NAME_BYTES_MAX, |n| ItemDraft { gates: vec![long(n)], ..note("") }),
        ("ref", REF_BYTES_MAX, |n| ItemDraft { reference: Some(long(n)), ..note("") }),
        ("tags", LIST_MAX, |n| ItemDraft { tags: vec!["t".to_owned(); n], ..note("") }),
        ("gates", LIST_MAX, |n| ItemDraft { gates: vec!["g".to_owned(); n], ..note("") }),
    ];
    for (field, most, draft) in cases {
        scratch.write(items([draft(most)]));
        let (named, why) = scratch.write_error(items([draft(most + 1)]));
        assert_eq!(named, field);
        assert!(why.contains(&most.to_string()) && why.contains(&(most + 1).to_string()), "{why}");
    }
}

#[test]
fn supersedes_is_accepted_up_to_its_limit() {
    let scratch = ScratchStore::new();
    let old = scratch.write(items((0..=SUPERSEDES_MAX).map(|_| note("old")))).items;
    let draft = |n: usize| ItemDraft { supersedes: old[..n].to_vec(), ..note("new") };
    assert_eq!(scratch.write_error(items([draft(SUPERSEDES_MAX + 1)])).0, "supersedes");
    scratch.write(items([draft(SUPERSEDES_MAX)]));
}

#[test]
fn source_edge_and_tombstone_fields_are_accepted_up_to_limits() {
    let scratch = ScratchStore::new();
    let one = scratch.write(items([note("one")])).items[0];
    let source = |draft: SourceDraft| Batch { sources: vec![draft], ..Batch::default() };
    let edge = |draft: EdgeDraft| Batch { edges: vec![draft], ..Batch::default() };
    let stone = |draft: TombstoneDraft| tombstones([draft]);
    type BuildBatch<'a> = Box<dyn Fn(usize) -> Batch + 'a>;
    let cases: [(&str, usize, BuildBatch<'_>); 8] = [
        (
            "source.kind",
            NAME_BYTES_MAX,
            Box::new(|n| source(SourceDraft { kind: long(n), ..file("u") })),
        ),
        ("source.uri", URI_BYTES_MAX, Box::new(|n| source(file(&long(n))))),
        (
            "source.title",
            TITLE_BYTES_MAX,
            Box::new(|n| source(SourceDraft { title: long(n), ..file("u") })),
        ),
        ("via", NAME_BYTES_MAX, Box::new(|n| source(SourceDraft { via: long(n), ..file("u") }))),
        (
            "relation",
            NAME_BYTES_MAX,
            Box::new(|n| edge(EdgeDraft { relation: long(n), ..link(one, one, 0.5) })),
        ),
        (
            "note",
            TITLE_BYTES_MAX,
            Box::new(|n| edge(EdgeDraft { note: long(n), ..link(one, one, 0.5) })),
        ),
        ("by", NAME_BYTES_MAX, Box::new(|n| stone(TombstoneDraft { by: long(n), ..hide(one) }))),
        (
            "reason",
            TITLE_BYTES_MAX,
            Box::new(|n| stone(TombstoneDraft { reason: long(n), ..hide(one) })),
        ),
    ];
    for (field, most, batch) in cases {
        assert_eq!(scratch.write_error(batch(most + 1)).0, field);
    }
    scratch.write(source(file(&long(URI_BYTES_MAX))));
    scratch.write(edge(EdgeDraft { note: long(TITLE_BYTES_MAX), ..link(one, one, 0.0) }));
    scratch.write(edge(EdgeDraft { relation: long(NAME_BYTES_MAX), ..link(one, one, 1.0) }));
    scratch.write(stone(TombstoneDraft { reason: long(TITLE_BYTES_MAX), ..hide(one) }));
}

#[test]
fn out_of_range_values_are_rejected() {
    let scratch = ScratchStore::new();
    let one = scratch.write(items([note("one")])).items[0];
    let edge = |draft: EdgeDraft| Batch { edges: vec![draft], ..Batch::default() };
    for weight in [-0.5, 1.5, f32::NAN, f32::INFINITY] {
        assert_eq!(scratch.write_error(edge(link(one, one, weight))).0, "weight");
    }
    let relation = "supersedes".to_owned();
    assert_eq!(
        scratch.write_error(edge(EdgeDraft { relation, ..link(one, one, 0.5) })).0,
        "relation"
    );
    let nameless = ItemDraft { kind: String::new(), ..note("x") };
    assert_eq!(scratch.write_error(items([nameless])).0, "kind");
    let refless = ItemDraft { reference: Some(String::new()), ..note("x") };
    assert_eq!(scratch.write_error(items([refless])).0, "ref");
    for attributes in ["[]", "{", "nonsense", "{\"a\":1} x"] {
        let item = ItemDraft { attributes: attributes.to_owned(), ..note("x") };
        assert_eq!(scratch.write_error(items([item])).0, "attributes", "{attributes}");
    }
    let backwards = ItemDraft {
        valid_from: Some(engine::Micros(2)),
        valid_to: Some(engine::Micros(1)),
        ..note("x")
    };
    assert_eq!(scratch.write_error(items([backwards])).0, "valid_to");
    assert_eq!(scratch.write_error(Batch::default()).0, "batch");
}

#[test]
fn batches_are_accepted_up_to_their_limits() {
    let scratch = ScratchStore::new();
    let (field, why) = scratch.write_error(items((0..=BATCH_RECORDS_MAX).map(|_| note(""))));
    assert_eq!(field, "batch");
    assert!(why.contains("65537") && why.contains("65536"), "{why}");
    let text = long(TEXT_BYTES_MAX);
    let heavy = |n: usize| items((0..n).map(|_| ItemDraft { searchable: false, ..note(&text) }));
    let (field, why) = scratch.write_error(heavy(FRAME_BYTES_MAX / TEXT_BYTES_MAX));
    assert_eq!(field, "batch");
    assert!(why.contains(&FRAME_BYTES_MAX.to_string()), "{why}");
}
