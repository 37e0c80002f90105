//! Rows read back equal the rows written; ids; batches.

use engine::{Batch, EdgeDraft, ItemDraft, Micros, SourceDraft, SourceId, Status};
use support_engine::ground::{SeededRandom, SteppingClock};
use support_engine::sample::{self, MODEL, file, full_item, items, link, note};

use super::scratch_store::{ScratchStore, address_of};

/// Reads back every field of [`sample::full_item`] and its source.
fn assert_full(scratch: &ScratchStore, written: &engine::CommitInfo) {
    let snapshot = scratch.snapshot();
    let draft = full_item();
    let at = address_of(&snapshot, written.items[1]);
    let item = snapshot.item(at).expect("no damage");
    assert_eq!(item.id, written.items[1]);
    assert_eq!(item.seq, written.seq);
    assert_eq!(item.reference, draft.reference.as_deref());
    assert_eq!((item.kind, item.modality), ("decision", "code"));
    assert_eq!((item.title, item.text), (&*draft.title, &*draft.text));
    assert_eq!(item.attributes, draft.attributes);
    assert_eq!(item.tags, draft.tags);
    assert_eq!(item.gates, draft.gates);
    assert_eq!(item.supersedes, [written.items[0]]);
    assert_eq!(item.source, Some(written.sources[0]));
    assert_eq!(item.span, draft.span);
    assert_eq!(Some(item.recorded_at), draft.recorded_at);
    assert_eq!((item.recorded_by, item.via), ("ada", "ingest"));
    assert_eq!((item.valid_from, item.valid_to), (draft.valid_from, draft.valid_to));
    assert_eq!((item.sensitivity, item.searchable), (draft.sensitivity, true));
    assert_eq!(item.content_sha256, draft.content_sha256());
    assert_eq!(snapshot.embedding(at).expect("no damage"), Some(&*draft.embedding));

    let source = snapshot.source(written.sources[0]).expect("no damage").expect("written");
    let wanted = file("file:///a");
    assert_eq!((source.kind, source.uri, source.title), ("file", "file:///a", "A file"));
    assert_eq!((source.content_sha256, source.bytes), (wanted.content_sha256, wanted.bytes));
    assert_eq!((source.recorded_at, source.seq), (written.at, written.seq));
    assert_eq!((source.recorded_by, source.via), ("ada", "ingest"));
}

fn assert_bare(scratch: &ScratchStore, written: &engine::CommitInfo) {
    let snapshot = scratch.snapshot();
    let at = address_of(&snapshot, written.items[0]);
    let item = snapshot.item(at).expect("no damage");
    assert_eq!((item.reference, item.source, item.span), (None, None, None));
    assert_eq!((item.title, item.text, item.attributes), ("", "bare", ""));
    assert_eq!((item.valid_from, item.valid_to), (None, None));
    assert_eq!(item.recorded_at, written.at);
    assert!(item.tags.is_empty() && item.gates.is_empty() && item.supersedes.is_empty());
    assert_eq!(snapshot.embedding(at).expect("no damage"), None);

    let edge = snapshot.edge(written.edges[0]).expect("no damage").expect("written");
    assert_eq!((edge.from, edge.to), (written.items[0], written.items[1]));
    assert_eq!((edge.relation, edge.weight, edge.note), ("links_to", 0.5, "because"));
    assert_eq!((edge.valid_from, edge.valid_to), (Some(Micros(3)), None));
    assert_eq!((edge.source, edge.seq), (Some(written.sources[0]), written.seq));
    assert_eq!((edge.recorded_at, edge.recorded_by), (written.at, "tester"));
}

#[test]
fn fields_roundtrip_in_tail_segment_and_replayed_wal() {
    let mut scratch = ScratchStore::new();
    scratch.store().bind_model(MODEL).unwrap();
    let source = scratch.store().new_source_id();
    let (bare, full) = (scratch.store().new_item_id(), scratch.store().new_item_id());
    let written = scratch.write(Batch {
        sources: vec![SourceDraft { id: Some(source), ..file("file:///a") }],
        edges: vec![EdgeDraft {
            note: "because".to_owned(),
            source: Some(source),
            valid_from: Some(Micros(3)),
            ..link(bare, full, 0.5)
        }],
        ..items([
            ItemDraft { id: Some(bare), ..note("bare") },
            ItemDraft {
                id: Some(full),
                source: Some(source),
                supersedes: vec![bare],
                ..full_item()
            },
        ])
    });
    assert_eq!((written.sources[0], &written.items[..]), (source, &[bare, full][..]));
    let check = |scratch: &ScratchStore| {
        assert_full(scratch, &written);
        assert_bare(scratch, &written);
    };
    check(&scratch);
    scratch.reopen(); // from the log
    check(&scratch);
    scratch.seal();
    check(&scratch);
    scratch.reopen(); // from the segment
    check(&scratch);
}

#[test]
fn ids_and_commit_numbers_increase() {
    let scratch = ScratchStore::new();
    let mut last = None;
    for n in 1..=20 {
        let written = scratch.write(items([note("one"), note("two")]));
        assert_eq!(written.seq, n);
        for id in written.items {
            assert!(Some(id) > last, "{id} follows {last:?}");
            last = Some(id);
        }
    }
}

#[test]
fn batch_with_one_invalid_record_writes_nothing() {
    let mut scratch = ScratchStore::new();
    let first = scratch.write(items([note("first")]));
    let batch = Batch {
        sources: vec![file("file:///lost")],
        edges: vec![link(first.items[0], engine::ItemId(99), 0.5)],
        ..items([note("lost")])
    };
    assert_eq!(scratch.write_error(batch).0, "to");
    for _ in 0..2 {
        let snapshot = scratch.snapshot();
        assert_eq!(
            (snapshot.row_counts().unwrap().items, snapshot.row_counts().unwrap().sources),
            (1, 0)
        );
        assert!(snapshot.sources_by_uri("file:///lost").unwrap().is_empty());
        scratch.reopen();
    }
    assert_eq!(scratch.write(items([note("next")])).seq, 2);
}

#[test]
fn duplicate_ids_are_rejected() {
    let scratch = ScratchStore::new();
    let (one, two) = (note("one"), note("two"));
    let written = scratch.write(Batch { sources: vec![file("file:///a")], ..items([one, two]) });
    let [one, two] = written.items[..] else { panic!("two items were written") };
    let edge = scratch.write(Batch { edges: vec![link(one, two, 0.5)], ..Batch::default() });
    let edge = edge.edges[0];
    let again = |edge: EdgeDraft| Batch { edges: vec![edge], ..Batch::default() };
    let twice = |draft: EdgeDraft| Batch { edges: vec![draft.clone(), draft], ..Batch::default() };
    let with_id = |id| EdgeDraft { id: Some(id), ..link(one, two, 0.9) };
    let item = ItemDraft { id: Some(one), ..note("again") };
    let source = SourceDraft { id: Some(written.sources[0]), ..file("file:///b") };
    assert_eq!(scratch.write_error(items([item])).0, "id");
    let sources = Batch { sources: vec![source], ..Batch::default() };
    assert_eq!(scratch.write_error(sources).0, "source.id");
    assert_eq!(scratch.write_error(again(with_id(edge))).0, "edge.id");
    assert_eq!(scratch.write_error(twice(with_id(engine::EdgeId(77)))).0, "edge.id");
    // A hidden edge keeps its id, which the tombstone names.
    scratch.write(sample::tombstones([sample::hide_edge(edge)]));
    assert_eq!(scratch.write_error(again(with_id(edge))).0, "edge.id");
    // A tombstone names an item or an edge by the number alone, so both share one id space.
    assert_eq!(scratch.write_error(again(with_id(engine::EdgeId(one.0)))).0, "edge.id");
    let item = ItemDraft { id: Some(engine::ItemId(edge.0)), ..note("an edge's") };
    assert_eq!(scratch.write_error(items([item])).0, "id");
    let id = scratch.store().new_item_id();
    let both = Batch {
        edges: vec![with_id(engine::EdgeId(id.0))],
        ..items([ItemDraft { id: Some(id), ..note("both") }])
    };
    assert_eq!(scratch.write_error(both).0, "edge.id");
}

/// Zero means "none" in the columns, and so does the earliest time: stored as values, they would be read as absent.
#[test]
fn sentinel_values_are_rejected() {
    let scratch = ScratchStore::new();
    let source = SourceDraft { id: Some(SourceId(0)), ..file("file:///a") };
    let batch = Batch { sources: vec![source], ..Batch::default() };
    assert_eq!(scratch.write_error(batch).0, "source.id");
    let item = ItemDraft { id: Some(engine::ItemId(0)), ..note("zero") };
    assert_eq!(scratch.write_error(items([item])).0, "id");
    let never = Some(Micros(i64::MIN));
    let from = ItemDraft { valid_from: never, ..note("never") };
    let to = ItemDraft { valid_to: never, ..note("never") };
    let at = ItemDraft { recorded_at: never, ..note("never") };
    assert_eq!(scratch.write_error(items([from])).0, "valid_from");
    assert_eq!(scratch.write_error(items([to])).0, "valid_to");
    assert_eq!(scratch.write_error(items([at])).0, "recorded_at");
    let one = scratch.write(items([note("one")])).items[0];
    let edge = EdgeDraft { valid_to: never, ..link(one, one, 0.5) };
    let batch = Batch { edges: vec![edge], ..Batch::default() };
    assert_eq!(scratch.write_error(batch).0, "valid_to");
    let edge = EdgeDraft { id: Some(engine::EdgeId(0)), ..link(one, one, 0.5) };
    let batch = Batch { edges: vec![edge], ..Batch::default() };
    assert_eq!(scratch.write_error(batch).0, "edge.id");
    let edge =
        EdgeDraft { valid_from: Some(Micros(2)), valid_to: Some(Micros(1)), ..link(one, one, 0.5) };
    let batch = Batch { edges: vec![edge], ..Batch::default() };
    assert_eq!(scratch.write_error(batch).0, "valid_to");
}

#[test]
fn ref_is_unique_among_current_items() {
    let scratch = ScratchStore::new();
    let named = |text| ItemDraft { reference: Some("adr/1".to_owned()), ..note(text) };
    let first = scratch.write(items([named("first")])).items[0];
    assert_eq!(scratch.write_error(items([named("second")])).0, "ref");
    assert_eq!(scratch.write_error(items([note("x"), named("y"), named("z")])).0, "ref");
    let replacing = ItemDraft { supersedes: vec![first], ..named("second") };
    let second = scratch.write(items([replacing])).items[0];
    let snapshot = scratch.snapshot();
    let found = snapshot.find_ref("adr/1").unwrap().map(|at| snapshot.id(at).unwrap());
    assert_eq!(found, Some(second));
    assert_eq!(snapshot.find_ref("adr/2").unwrap(), None);
    // If its holder is hidden, the ref is free.
    scratch.write(sample::tombstones([sample::hide(second)]));
    assert_eq!(scratch.snapshot().find_ref("adr/1").unwrap(), None);
    let third = scratch.write(items([named("third")])).items[0];
    let snapshot = scratch.snapshot();
    assert_eq!(snapshot.find_ref("adr/1").unwrap(), Some(address_of(&snapshot, third)));
    assert_eq!(snapshot.status(address_of(&snapshot, third)), Ok(Status::Current));
}

#[test]
fn source_versions_and_items_are_returned_in_order() {
    let mut scratch = ScratchStore::new();
    let mut sources = Vec::new();
    let mut written = Vec::new();
    for text in ["one", "two", "three"] {
        let id = scratch.store().new_source_id();
        let draft = SourceDraft { id: Some(id), ..file("file:///a") };
        let item = |text: &str| ItemDraft { source: Some(id), ..note(text) };
        let batch = Batch { sources: vec![draft], ..items([item(text), item("same")]) };
        written.push(scratch.write(batch).items);
        sources.push(id);
        if text == "two" {
            scratch.seal();
        }
    }
    for _ in 0..2 {
        let snapshot = scratch.snapshot();
        let versions = snapshot.sources_by_uri("file:///a").unwrap();
        assert_eq!(versions.iter().map(|source| source.id).collect::<Vec<_>>(), sources);
        for (&id, items) in sources.iter().zip(&written) {
            assert_eq!(super::scratch_store::ids(&snapshot, snapshot.items_by_source(id)), *items);
        }
        scratch.reopen();
    }
}

#[test]
fn references_to_missing_rows_are_rejected() {
    let scratch = ScratchStore::new();
    let one = scratch.write(items([note("one")])).items[0];
    let missing = Some(SourceId(5));
    let item = ItemDraft { source: missing, ..note("sourceless") };
    assert_eq!(scratch.write_error(items([item])).0, "source");
    let edge = EdgeDraft { source: missing, ..link(one, one, 0.5) };
    let batch = Batch { edges: vec![edge], ..Batch::default() };
    assert_eq!(scratch.write_error(batch).0, "source");
    let batch = Batch { edges: vec![link(engine::ItemId(9), one, 0.5)], ..Batch::default() };
    assert_eq!(scratch.write_error(batch).0, "from");
    let batch = sample::tombstones([sample::hide(engine::ItemId(9))]);
    assert_eq!(scratch.write_error(batch).0, "target");
}

#[test]
fn deterministic_env_writes_identical_bytes() {
    let bytes = || {
        let disk = support_engine::memory_disk::MemoryDisk::default();
        let ground = engine::Env {
            disk: std::sync::Arc::new(disk.clone()),
            clock: std::sync::Arc::new(SteppingClock::default()),
            random: std::sync::Arc::new(SeededRandom::new(1)),
            replication_sink: None,
        };
        let store = engine::Store::open(ground, engine::Options::default()).unwrap();
        sample::furnish(&store, sample::Seals(&[2]), |_, _| {}).unwrap();
        disk.files()
    };
    assert_eq!(bytes(), bytes());
}
