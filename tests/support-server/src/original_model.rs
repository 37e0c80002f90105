//! The pinned model, found or downloaded as the server does.

use std::sync::OnceLock;

use encoder::{Encoder, ModelFiles as Borrowed};
use recalld_embedding::embed::Embedder;
use recalld_embedding::encoding::model_request;
use recalld_embedding::model;
use recalld_embedding::model::{ModelFiles, Silent};

/// The model's files; without them a test fails with instructions.
///
/// # Panics
/// The files are not found.
pub fn files() -> &'static ModelFiles {
    static FILES: OnceLock<ModelFiles> = OnceLock::new();
    FILES.get_or_init(|| {
        model::ensure(&model_request(None), &mut Silent)
            .unwrap_or_else(|error| panic!("{error}\n{}", error.remedy()))
    })
}

/// Borrows the files for the encoder.
pub fn borrowed() -> Borrowed<'static> {
    files().borrowed()
}

/// The encoder as the server opens it.
///
/// # Panics
/// The model does not open.
pub fn embedder() -> &'static Embedder {
    static EMBEDDER: OnceLock<Embedder> = OnceLock::new();
    EMBEDDER.get_or_init(|| {
        let encoder = Encoder::open(&borrowed()).expect("the pinned model opens");
        Embedder::new(encoder, "pinned".to_owned(), 1)
    })
}
