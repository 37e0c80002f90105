//! A damaged state file whose checksums are right: an error or an answer, never a panic.
#![no_main]

use std::sync::OnceLock;

use fuzz::memory::Files;
use libfuzzer_sys::fuzz_target;

fn good() -> &'static (Files, String) {
    static GOOD: OnceLock<(Files, String)> = OnceLock::new();
    GOOD.get_or_init(|| {
        let files = fuzz::store::golden("v2-small");
        let name = files.keys().find(|name| name.starts_with("state-")).expect("one state").clone();
        (files, name)
    })
}

fuzz_target!(|data: &[u8]| {
    let (files, name) = good();
    let mut files = files.clone();
    let file = files.get_mut(name).expect("it was listed");
    *file = fuzz::patched(file, data);
    let _unreadable = fuzz::reseal::state(file);
    if let Ok(store) = fuzz::store::open(files) {
        fuzz::store::read_all(&store);
        fuzz::store::rewrite_all(&store);
        fuzz::store::read_all(&store);
    }
});
