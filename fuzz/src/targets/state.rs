//! A damaged state file with correct checksums: an error or an answer, never a panic.

use std::sync::OnceLock;

use crate::memory::Files;

fn good() -> &'static (Files, String) {
    static GOOD: OnceLock<(Files, String)> = OnceLock::new();
    GOOD.get_or_init(|| {
        let files = crate::store::golden("v2-small");
        let name = files.keys().find(|name| name.starts_with("state-")).expect("one state").clone();
        (files, name)
    })
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let (files, name) = good();
    let mut files = files.clone();
    let file = files.get_mut(name).expect("it was listed");
    *file = crate::patched(file, data);
    let _unreadable = crate::reseal::state(file);
    if let Ok(store) = crate::store::open(files) {
        crate::store::read_all(&store);
        crate::store::rewrite_all(&store);
        crate::store::read_all(&store);
    }
}
