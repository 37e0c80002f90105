//! The encoder's weights: where they are looked for, how they are checked, where they are kept.
//!
//! Owns the order of the places (a given directory, the cache, the model hub, the Python package), the
//! rule that nothing is handed out before its hash was compared, and the packed weights that later starts
//! map in place of the published ones. Knows files and bytes; must not know what the encoder does with
//! them, nor read the environment or the command line: a [`ModelRequest`] says it all.

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

/// Finds the model of `request`, fetching it into the cache when it is nowhere yet.
///
/// The places are tried in this order: the directory of the request (and then nothing else: who names a
/// directory means it), the cache, the hub, the package. Safe with several processes at once: one fetches,
/// the others wait for it and then read what it installed. A second call reads the cache and no network.
///
/// # Errors
/// [`ModelError`], which lists every place that was tried, why it did not do, and what to do next.
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

/// Whether the cache has the model of `request`; touches nothing.
pub fn is_kept(request: &ModelRequest) -> bool {
    request.cache.as_deref().is_some_and(|root| Cache::new(root, request).home().is_dir())
}

/// Reads the directory that the operator named. It may hold another encoder, whose hashes nobody knows; one
/// that carries the pinned weights, or the pinned model's name, must be the pinned model in every byte.
fn given(request: &ModelRequest, dir: &Path) -> Result<ModelFiles, ModelError> {
    let refuse = |fault| ModelError::Directory { dir: dir.to_path_buf(), fault };
    let found = files::load(dir, None, Origin::Directory).map_err(refuse)?;
    if request.is_pinned(dir, &found.weights_sha256) {
        found.check(&request.expected).map_err(refuse)?;
    }
    Ok(found)
}
