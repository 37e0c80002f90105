//! The encoder's weights: sources, checks and cache.
//!
//! Owns the order of the sources: a requested directory, the cache, the model hub, the Python package. Ensures that no
//! file is returned before its hash was compared. Also owns the packed weights, which later starts map in place of the
//! published weights. Knows files and bytes; must not know their use in the encoder, nor read the environment or the
//! command line: all input is in a [`ModelRequest`].

mod bar;
mod cache;
mod error;
mod fetch;
mod files;
mod hub;
pub mod kept;
pub mod open;
mod package;
mod progress;
mod request;
mod shelf;

pub use bar::{Bar, Unit};
pub use error::{Attempt, FileFault, ModelError};
pub use files::{ModelFiles, Origin};
pub use kept::{Kept, KeptKind, kept};
pub use open::{OpenFault, OpenedFiles, check_packed, open};
pub use progress::{Progress, Silent};
pub use request::hex_digest;
pub use request::{DEFAULT_NAME, Expected, Hub, ModelRequest, Package, Sha256};

use std::path::Path;

use cache::Cache;

limit_table::limits! {
    pub(crate) const LIMITS = [shelf];
}

/// Finds the model of `request`. If no local source has the model, fetches it into the cache.
///
/// The sources are tried in this order: the directory of the request (and then no other source, as an explicit
/// directory is binding), the cache, the hub, the package. Safe with several processes at once: one process fetches,
/// the others wait and then read the installed model. A second call reads the cache without network access.
///
/// # Errors
/// [`ModelError`], which lists every source that was tried, the reason of each failure, and a remedy.
pub fn ensure(
    request: &ModelRequest,
    progress: &mut dyn Progress,
) -> Result<ModelFiles, ModelError> {
    if let Some(dir) = &request.directory {
        return given(request, dir);
    }
    let root = request.cache.as_deref().ok_or(ModelError::NoCache)?;
    let cache = Cache::new(root, request);
    match files::load_installed(cache.home(), &request.expected) {
        Ok(found) => Ok(found),
        Err(fault) => fetch::fill(request, &cache, fault, progress),
    }
}

/// Returns true if the cache has the model of `request`; writes nothing.
pub fn is_kept(request: &ModelRequest) -> bool {
    request.cache.as_deref().is_some_and(|root| Cache::new(root, request).home().is_dir())
}

/// Reads the directory requested by the operator. The directory may have another encoder, whose hashes are unknown. A
/// directory with the pinned weights or the pinned model's name must equal the pinned model in every byte.
fn given(request: &ModelRequest, dir: &Path) -> Result<ModelFiles, ModelError> {
    let refuse = |fault| ModelError::Directory { dir: dir.to_path_buf(), fault };
    let found = files::load(dir, None, Origin::Directory).map_err(refuse)?;
    if request.is_pinned(dir, &found.weights_sha256) {
        found.check(&request.expected).map_err(refuse)?;
    }
    Ok(found)
}
