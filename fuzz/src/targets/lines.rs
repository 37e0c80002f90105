//! Import of JSON Lines: any input gives a report; a second import of the same input finds everything stored.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, OnceLock};

use recalld_common::cancel::CallScope;
use recalld_embedding::embed::Embedder;
use recalld_embedding::encoders::Encoders;
use recalld_interchange::lines::ImportError;
use recalld_interchange::lines::import::Import;
use rustix::fs::{MemfdFlags, memfd_create};

fn embedder() -> Arc<Embedder> {
    static EMBEDDER: OnceLock<Arc<Embedder>> = OnceLock::new();
    let made = EMBEDDER.get_or_init(|| {
        let encoder = crate::model::good().open().expect("a good model");
        Arc::new(Embedder::new(encoder, "tiny".to_owned(), 1))
    });
    Arc::clone(made)
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&how, lines)) = data.split_first() else { return };
    let file = memfd_create("lines", MemfdFlags::CLOEXEC).expect("the system has memory files");
    let mut file = File::from(file);
    file.write_all(lines).expect("memory does not fail");
    let store = crate::store::open(Default::default()).expect("an empty store");
    let encoders = Encoders::bind(Arc::new(store), embedder()).expect("the first model");
    let (strict, dry_run) = (how & 1 == 1, how & 2 == 2);
    for _ in 0..2 {
        let progress = |done: u64, of: u64| assert!(done <= of, "{done} of {of}");
        let import = Import {
            encoders: &encoders,
            by: "ada",
            strict,
            dry_run,
            call: CallScope::endless(),
            progress: &progress,
        };
        match import.run(&file) {
            Ok(_) => {}
            // Lines are validated one by one, so no batch of valid lines may be rejected.
            Err(ImportError::Writing(error)) => panic!("{error}"),
            Err(ImportError::Damaged(damage)) => panic!("{damage}"),
            Err(ImportError::Reading(error)) => panic!("{error}"),
            Err(ImportError::Cancelled) => unreachable!("nobody cancels"),
        }
        crate::store::read_all(encoders.store());
    }
    if dry_run {
        assert_eq!(encoders.store().snapshot().seq(), 0, "a dry run writes nothing");
    }
}
