//! Tiny models as the server opens them.

use std::path::Path;
use std::sync::Arc;

use encoder::Encoder;
use engine::{Env, Options, Store};
use recalld_embedding::embed::Embedder;
use recalld_embedding::encoders::Encoders;

/// Opens the model in a folder as the server does.
///
/// # Panics
/// The model does not open.
pub fn embedder(folder: &Path) -> Embedder {
    let encoder = Encoder::open_dir(folder).expect("a model that we wrote opens");
    Embedder::new(encoder, "tiny".to_owned(), 1)
}

/// Makes a new store on disk, bound to that model.
///
/// # Panics
/// The folder has a store already.
pub fn encoders(folder: &Path, embedder: Arc<Embedder>) -> Encoders {
    let folder = folder.join("store");
    std::fs::create_dir(&folder).expect("a folder of its own");
    let ground = Env::on_disk(&folder).expect("the folder is there");
    let store = Store::open(ground, Options::default()).expect("a store is made");
    Encoders::bind(Arc::new(store), embedder).expect("it has no model yet")
}
