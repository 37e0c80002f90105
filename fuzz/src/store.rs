//! A small valid store, and a function that reads everything in a store.

use std::sync::Arc;

use encoder::Kernels;
use engine::{
    Batch, EdgeDraft, EdgeFilter, Filter, ItemDraft, ItemId, Model, NEIGHBOURS_MAX, NoThrottle,
    OpenError, Options, SearchError, SourceDraft, SourceId, Span, Store, TombstoneDraft,
    WalkLimits,
};
use half::f16;

use crate::ground;
use crate::memory::{Files, MemoryDisk};

/// Width of the embeddings.
const WIDTH: usize = 8;

/// Opens a store of these files. Time and randomness are the same each time, so that an input that
/// once crashed does so again.
pub fn open(files: Files) -> Result<Store, OpenError> {
    Store::open(ground::still(Arc::new(MemoryDisk::holding(files)), 2), Options::default())
}

/// The files of a golden store of `format-spec/vectors/`.
pub fn golden(name: &str) -> Files {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../format-spec/vectors");
    let entries = std::fs::read_dir(folder.join(name)).expect("the golden stores are kept");
    entries
        .map(|entry| {
            let entry = entry.expect("it is listed");
            let name = entry.file_name().into_string().expect("an ASCII name");
            (name, std::fs::read(entry.path()).expect("it is there"))
        })
        .collect()
}

/// The files of a store: a sealed segment with its state, or everything in a write-ahead log if `logged`.
pub fn good(logged: bool) -> Files {
    let memory = MemoryDisk::default();
    let store = Store::open(ground::still(Arc::new(memory.clone()), 1), Options::default())
        .expect("an empty store");
    let dimensions = u32::try_from(WIDTH).expect("eight");
    store.bind_model(Model { fingerprint: [7; 32], dimensions }).expect("the first model");
    let source = SourceId(u128::MAX / 3);
    let ids: Vec<ItemId> = (0..6).map(|_| store.new_item_id()).collect();
    let items = ids.iter().enumerate().map(|(at, id)| item(at, *id, source, &ids)).collect();
    let edge = EdgeDraft {
        id: None,
        from: ids[0],
        to: ids[1],
        relation: "links_to".to_owned(),
        weight: 0.5,
        source: None,
        recorded_at: None,
        recorded_by: "ada".to_owned(),
        valid_from: None,
        valid_to: None,
        note: "see also".to_owned(),
    };
    let read_from = SourceDraft {
        id: Some(source),
        kind: "file".to_owned(),
        uri: "file:///notes/a.md".to_owned(),
        ..SourceDraft::default()
    };
    let batch = Batch { sources: vec![read_from], items, edges: vec![edge], ..Batch::default() };
    store.write(batch).expect("a good batch");
    if !logged {
        store.seal().expect("memory does not fail");
    }
    let stone = TombstoneDraft {
        target: ids[5].0,
        by: "ada".to_owned(),
        reason: "wrong".to_owned(),
        ..TombstoneDraft::default()
    };
    store.write(Batch { tombstones: vec![stone], ..Batch::default() }).expect("it stands");
    if !logged {
        store.seal().expect("memory does not fail");
    }
    drop(store);
    memory.files()
}

/// Rewrites everything: by a seal that merges, a compaction, an erasure, a backup. Damage may stop a rewrite, but
/// neither damaged bytes nor files made from them may panic.
pub fn rewrite_all(store: &Store) {
    let draft = ItemDraft { embedding: Vec::new(), ..ItemDraft::default() };
    let draft = ItemDraft { kind: "note".to_owned(), text: "one more storm".to_owned(), ..draft };
    let _refused = store.write(Batch { items: vec![draft], ..Batch::default() });
    let _stopped = store.seal();
    let _stopped = store.compact(&NoThrottle);
    let snapshot = store.snapshot();
    let first = snapshot.item_addresses().ok().and_then(|mut places| places.next());
    if let Some(id) = first.and_then(|place| snapshot.id(place).ok()) {
        let _stopped = store.erase(&[id.0], "ada", "wrong", &NoThrottle);
    }
    let _stopped = store.backup(&MemoryDisk::default());
}

fn item(at: usize, id: ItemId, source: SourceId, ids: &[ItemId]) -> ItemDraft {
    let words = ["storm", "harbour", "lamp", "letter", "river", "stone"];
    let line = u32::try_from(at).expect("a few") + 1;
    ItemDraft {
        id: Some(id),
        reference: Some(format!("ref-{at}")),
        kind: if at == 0 { "document" } else { "chunk" }.to_owned(),
        modality: "text".to_owned(),
        title: format!("{} {at}", words[at % words.len()]),
        text: format!("The {} by the {}.", words[at % words.len()], words[(at + 1) % words.len()]),
        attributes: r#"{"version":1}"#.to_owned(),
        tags: vec!["one".to_owned()],
        gates: if at == 2 { vec!["pii".to_owned()] } else { Vec::new() },
        supersedes: if at == 4 { vec![ids[3]] } else { Vec::new() },
        source: Some(source),
        span: Some(Span { byte_start: 0, byte_end: 9, line_start: line, line_end: line }),
        searchable: true,
        embedding: (0..WIDTH).map(|i| f16::from_f32(if i == at { 1.0 } else { 0.0 })).collect(),
        ..ItemDraft::default()
    }
}

/// Reads everything through the public API. Damage is a valid result; a panic is not.
pub fn read_all(store: &Store) {
    let snapshot = store.snapshot();
    let _ = snapshot.item_counts();
    let _ = snapshot.row_counts();
    let Ok(places) = snapshot.item_addresses() else { return };
    // The iterator ends after damage.
    for record in snapshot.records().take(1024) {
        if record.is_err() {
            break;
        }
    }
    for place in places.take(64) {
        let _: Result<(), SearchError> = (|| {
            let item = snapshot.item(place)?;
            snapshot.status(place)?;
            snapshot.embedding(place)?;
            snapshot.find(item.id)?;
            snapshot.neighbours(item.id, NEIGHBOURS_MAX, &EdgeFilter::default())?;
            let seeds = [item.id];
            snapshot.neighbourhood(&seeds, 2, &EdgeFilter::default(), WalkLimits::default())?;
            snapshot.chain(item.id)?;
            snapshot.current_successors(item.id)?;
            snapshot.direct_predecessors(item.id)?;
            snapshot.tombstones(item.id.0)?;
            if let Some(reference) = item.reference {
                snapshot.find_ref(reference)?;
            }
            if let Some(id) = item.source {
                snapshot.items_by_source(id)?;
                if let Some(source) = snapshot.source(id)? {
                    snapshot.sources_by_uri(source.uri)?;
                }
            }
            Ok(())
        })();
    }
    let filter = Filter { current_only: true, ..Filter::default() };
    let _ = snapshot.search_words("the storm by the harbour", 5, &filter);
    if let Some(model) = snapshot.model() {
        let query = vec![0.5; model.dimensions as usize];
        let _ = snapshot.nearest(&Kernels::detect(), &query, 5, &filter);
    }
}
