//! Drafts of small example records, and a small store with every kind of row.

use engine::{
    Batch, CommitInfo, EdgeDraft, EdgeId, ItemDraft, ItemId, Micros, Model, Sensitivity,
    SourceDraft, Span, Store, TombstoneDraft, WriteError,
};
use half::f16;

/// Width of the embeddings of [`MODEL`].
pub const DIMENSIONS: usize = 4;
/// The encoder that sample stores are bound to.
pub const MODEL: Model = Model { fingerprint: [7; 32], dimensions: 4 };

/// Makes an embedding.
pub fn halves(values: [f32; DIMENSIONS]) -> Vec<f16> {
    values.into_iter().map(f16::from_f32).collect()
}

/// Makes a searchable note.
pub fn note(text: &str) -> ItemDraft {
    ItemDraft {
        kind: "note".to_owned(),
        modality: "text".to_owned(),
        text: text.to_owned(),
        recorded_by: "tester".to_owned(),
        via: "test".to_owned(),
        searchable: true,
        ..ItemDraft::default()
    }
}

/// Makes an item with every field except links.
pub fn full_item() -> ItemDraft {
    ItemDraft {
        reference: Some("adr/7".to_owned()),
        kind: "decision".to_owned(),
        modality: "code".to_owned(),
        title: "Segments never change".to_owned(),
        text: "A sealed file is read where it lies. \u{dc}bergr\u{f6}\u{df}e \u{1f9ed}".to_owned(),
        attributes: r#"{"status":"accepted","votes":[1,2]}"#.to_owned(),
        tags: vec!["storage".to_owned(), "format".to_owned()],
        gates: vec!["legal_hold".to_owned()],
        span: Some(Span { byte_start: 10, byte_end: 95, line_start: 2, line_end: 4 }),
        recorded_at: Some(Micros(1_700_000_000_000_001)),
        recorded_by: "ada".to_owned(),
        via: "ingest".to_owned(),
        valid_from: Some(Micros(-5)),
        valid_to: Some(Micros(1_900_000_000_000_000)),
        sensitivity: Sensitivity::Confidential,
        searchable: true,
        embedding: halves([0.5, -1.0, 0.25, 3.0]),
        ..ItemDraft::default()
    }
}

/// Makes a file source.
pub fn file(uri: &str) -> SourceDraft {
    SourceDraft {
        kind: "file".to_owned(),
        uri: uri.to_owned(),
        title: "A file".to_owned(),
        content_sha256: [3; 32],
        bytes: 4711,
        recorded_by: "ada".to_owned(),
        via: "ingest".to_owned(),
        ..SourceDraft::default()
    }
}

/// Makes an edge.
pub fn link(from: ItemId, to: ItemId, weight: f32) -> EdgeDraft {
    EdgeDraft {
        id: None,
        from,
        to,
        relation: "links_to".to_owned(),
        weight,
        source: None,
        recorded_at: None,
        recorded_by: "tester".to_owned(),
        valid_from: None,
        valid_to: None,
        note: String::new(),
    }
}

/// Makes a tombstone of an item.
pub fn hide(item: ItemId) -> TombstoneDraft {
    TombstoneDraft {
        target: item.0,
        by: "tester".to_owned(),
        reason: "no longer wanted".to_owned(),
        ..TombstoneDraft::default()
    }
}

/// Makes a tombstone of an edge.
pub fn hide_edge(edge: EdgeId) -> TombstoneDraft {
    hide(ItemId(edge.0))
}

/// Makes a batch of items only.
pub fn items(items: impl IntoIterator<Item = ItemDraft>) -> Batch {
    Batch { items: items.into_iter().collect(), ..Batch::default() }
}

/// Makes a batch of tombstones only.
pub fn tombstones(tombstones: impl IntoIterator<Item = TombstoneDraft>) -> Batch {
    Batch { tombstones: tombstones.into_iter().collect(), ..Batch::default() }
}

/// Steps of [`furnish`] that a seal follows.
#[derive(Debug, Clone, Copy)]
pub struct Seals(pub &'static [usize]);

/// Number of steps of [`furnish`]; each is one commit.
pub const STEPS: usize = 6;

/// Fills an empty store with two sources, items with all their fields, a superseded, a split and a tombstoned item,
/// edges, a tombstoned edge and embeddings. `after` is called after every acknowledged commit.
pub fn furnish(
    store: &Store,
    seals: Seals,
    mut after: impl FnMut(&Store, &CommitInfo),
) -> Result<Vec<CommitInfo>, WriteError> {
    store.bind_model(MODEL)?;
    let mut done: Vec<CommitInfo> = Vec::new();
    for step in 0..STEPS {
        let written = store.write(batch(step, &done))?;
        after(store, &written);
        done.push(written);
        if seals.0.contains(&step) {
            store.seal()?;
        }
    }
    Ok(done)
}

/// Makes the batch of step `step` of [`furnish`], from the results of the earlier steps.
fn batch(step: usize, done: &[CommitInfo]) -> Batch {
    let item = |step: usize, at: usize| done[step].items[at];
    let with = |text: &str, embedding| ItemDraft { embedding: halves(embedding), ..note(text) };
    match step {
        0 => Batch {
            sources: vec![file("file:///notes/a.md")],
            ..items([with("amber first", [1.0, 0.0, 0.0, 0.0])])
        },
        1 => {
            let source = Some(done[0].sources[0]);
            let span = Some(Span { byte_start: 0, byte_end: 9, line_start: 1, line_end: 1 });
            Batch {
                edges: vec![link(item(0, 0), item(0, 0), 0.25)],
                ..items([
                    ItemDraft { source, ..full_item() },
                    ItemDraft { source, span, ..with("birch second", [0.0, 1.0, 0.0, 0.0]) },
                    ItemDraft { searchable: false, ..note("cedar unsearchable") },
                ])
            }
        }
        2 => Batch {
            sources: vec![SourceDraft { title: String::new(), ..file("file:///notes/b.md") }],
            edges: vec![
                EdgeDraft {
                    note: "why".to_owned(),
                    source: Some(done[0].sources[0]),
                    valid_from: Some(Micros(1)),
                    valid_to: Some(Micros(2)),
                    ..link(item(0, 0), item(1, 1), 0.75)
                },
                link(item(1, 1), item(1, 0), 0.5),
            ],
            ..items([ItemDraft { supersedes: vec![item(1, 0)], ..full_item() }])
        },
        3 => Batch {
            tombstones: vec![hide(item(1, 2))],
            ..items([
                ItemDraft { supersedes: vec![item(0, 0)], ..note("amber split left") },
                ItemDraft { supersedes: vec![item(0, 0)], ..note("amber split right") },
            ])
        },
        4 => Batch {
            tombstones: vec![hide_edge(done[2].edges[1])],
            ..items([with("dogwood", [0.0, 0.0, -1.0, 1.0])])
        },
        _ => items([note("elder last")]),
    }
}
