//! The pinned model, found or downloaded as the server does.

use std::sync::OnceLock;

use encoder::ModelFiles as Borrowed;
use recalld_embedding::encoding::model_request;
use recalld_embedding::model::{self, ModelFiles, Silent};

/// Returns the model's files, read once per process.
pub(crate) fn borrowed() -> Borrowed<'static> {
    static FILES: OnceLock<ModelFiles> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        model::ensure(&model_request(None), &mut Silent)
            .unwrap_or_else(|error| panic!("{error}\n{}", error.remedy()))
    });
    files.borrowed()
}
