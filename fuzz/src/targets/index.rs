//! A damaged vector index with correct checksums: it is ignored, or it answers, and never panics.

use std::sync::{Arc, OnceLock};

use engine::{
    AnnPolicy, Batch, IndexOutcome, ItemDraft, Model, NoThrottle, Options, SearchMode, Store,
};
use half::f16;

use crate::ground;
use crate::memory::{Files, MemoryDisk};

/// Width of the embeddings: below it, codes are no faster to scan than f16 values.
const WIDTH: u32 = 48;
/// Rows around `CENTRES` centres, so that the neighbours of each row are few: the index is then worth its use.
const ROWS: usize = 200;
const CENTRES: usize = 8;

fn options() -> Options {
    let mode = SearchMode::Approximate;
    let searching = AnnPolicy { mode, approximate_rows_min: 0, index_rows_min: 1 };
    Options { ann_policy: searching, ..Options::default() }
}

fn opened(files: Files) -> (MemoryDisk, Store) {
    let memory = MemoryDisk::holding(files);
    let ground = ground::still(Arc::new(memory.clone()), 2);
    // No manifest lists an index, so a damaged index does not keep a store from opening.
    (memory, Store::open(ground, options()).expect("all but the index is sound"))
}

fn row(at: usize) -> ItemDraft {
    let number = |place: usize| {
        let near = if place % CENTRES == at % CENTRES { 1.0 } else { 0.0 };
        f16::from_f32(near + ((at * 31 + place * 17) % 13) as f32 / 64.0)
    };
    ItemDraft {
        kind: "note".to_owned(),
        modality: "text".to_owned(),
        text: format!("the storm by harbour {at}"),
        searchable: true,
        embedding: (0..WIDTH as usize).map(number).collect(),
        ..ItemDraft::default()
    }
}

/// Returns a store that is searched through an index, and the name of the index file.
fn good() -> &'static (Files, String) {
    static GOOD: OnceLock<(Files, String)> = OnceLock::new();
    GOOD.get_or_init(|| {
        let (memory, store) = opened(Files::new());
        let model = Model { fingerprint: [7; 32], dimensions: WIDTH };
        store.bind_model(model).expect("the first model");
        let items = (0..ROWS).map(row).collect();
        store.write(Batch { items, ..Batch::default() }).expect("a good batch");
        store.seal().expect("memory does not fail");
        let made = store.build_next_index(&NoThrottle).expect("memory does not fail");
        assert!(matches!(made, IndexOutcome::Built { .. }), "{made:?}");
        let state = store.snapshot().ann_status();
        assert!(state.is_approximate, "an input reaches no search through it: {state:?}");
        drop(store);
        let files = memory.files();
        let name = files.keys().find(|name| name.starts_with("index-")).expect("one index").clone();
        (files, name)
    })
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let (files, name) = good();
    let mut files = files.clone();
    let file = files.get_mut(name).expect("it was listed");
    *file = crate::patched(file, data);
    let _unreadable = crate::reseal::index(file);
    let (memory, store) = opened(files);
    crate::store::read_all(&store);
    let _damage = engine::verify(&memory, &mut |_| ()).expect("there is a store");
    crate::store::rewrite_all(&store);
    crate::store::read_all(&store);
}
