//! A damaged index whose checksums are right: it is not used, or it answers; never a panic.

use std::sync::{Arc, OnceLock};

use engine::{FullSpeed, Options, SearchMode, Searching, Store};

use crate::ground;
use crate::memory::{Files, MemoryDisk};

fn options() -> Options {
    let mode = SearchMode::Approximate;
    let searching = Searching { mode, approximate_rows_min: 0, index_rows_min: 1 };
    Options { searching, ..Options::default() }
}

fn opened(files: Files) -> (MemoryDisk, Store) {
    let memory = MemoryDisk::holding(files);
    let ground = ground::still(Arc::new(memory.clone()), 2);
    // No manifest names an index, so nothing of one keeps a store from opening.
    (memory, Store::open(ground, options()).expect("all but the index is sound"))
}

fn good() -> &'static (Files, String) {
    static GOOD: OnceLock<(Files, String)> = OnceLock::new();
    GOOD.get_or_init(|| {
        let (memory, store) = opened(crate::store::good(false));
        store.index(&FullSpeed).expect("memory does not fail");
        drop(store);
        let files = memory.files();
        let name = files.keys().find(|name| name.starts_with("index-")).expect("one index").clone();
        (files, name)
    })
}

/// One input.
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
