//! A damaged segment with correct checksums, of this version or of an older one that is converted: an error or an
//! answer, never a panic.

use std::sync::OnceLock;

use crate::memory::Files;

/// Segments, each with its store.
fn good() -> &'static Vec<(Files, String)> {
    static GOOD: OnceLock<Vec<(Files, String)>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let stores = [crate::store::good(false), crate::store::golden("v1-small")];
        let segments = stores.into_iter().flat_map(|files| {
            let names: Vec<String> = files.keys().cloned().collect();
            let names = names.into_iter().filter(|name| name.starts_with("segment-"));
            names.map(move |name| (files.clone(), name))
        });
        segments.collect()
    })
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&which, patches)) = data.split_first() else { return };
    let segments = good();
    let (files, name) = &segments[usize::from(which & 0x3f) % segments.len()];
    let mut files = files.clone();
    let file = files.get_mut(name).expect("it was listed");
    *file = crate::patched(file, patches);
    if which & 0x80 == 0 {
        let _unreadable = crate::reseal::segment(file);
    }
    if let Ok(store) = crate::store::open(files) {
        crate::store::read_all(&store);
        // Merging reads bytes that a read skips, and writes them.
        if which & 0x40 == 0 {
            crate::store::rewrite_all(&store);
            crate::store::read_all(&store);
        }
    }
}
