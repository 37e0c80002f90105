//! Erasure on the remote and on the nodes that replicate it.
//!
//! Pending ids are recorded beside the store before the items are hidden, and remain there until no copy has the items.

use std::path::Path;

use engine::Store;
use recalld_replication::Erasing;

use crate::admin_state::StoreAdmin;
use crate::keep_error::KeepError;
use crate::keeping::Keeper;
use recalld_cluster::seats::FarErasure;
use recalld_fs_util::data_dir::tenant_dir;

/// Records the ids that a replicated workspace is about to hide.
///
/// # Errors
/// The ids cannot be recorded; nothing may be hidden then.
pub fn note(
    data: &Path,
    workspace: &str,
    ids: impl IntoIterator<Item = u128>,
) -> Result<(), String> {
    match Erasing::of(&tenant_dir(data, workspace))? {
        Some(mut list) => list.note(ids),
        None => Ok(()),
    }
}

/// Resumes the remote erasures of the job's workspace; `None` if the workspace is not replicated or nothing is pending.
pub(super) fn erase(keeper: &Keeper<'_>) -> Result<Option<FarErasure>, KeepError> {
    let failed = |why| KeepError::failed(why, "run `recalld erase --pending` when that is mended");
    let name = &keeper.caller.workspace;
    let Some(seats) = keeper.seats else {
        let list = Erasing::of(&tenant_dir(keeper.data, name)).map_err(failed)?;
        let waiting = list.map_or(0, |list| list.waiting());
        return Ok((waiting > 0).then(|| FarErasure::unserved(waiting)));
    };
    let look = || out_of(keeper.store);
    seats.go_on_erasing(keeper.data, name, &look, keeper.noting).map_err(failed)
}

/// Resumes the remote erasures of all open workspaces, for the server's own thread.
pub(super) fn go_on(admin: &StoreAdmin) -> Result<(), String> {
    let Some(seats) = &admin.seats else { return Ok(()) };
    let local = admin.local.get();
    for name in seats.open_names() {
        let list = Erasing::of(&tenant_dir(&admin.data, &name))?;
        if list.is_none_or(|list| list.waiting() == 0) {
            continue;
        }
        let held;
        let store = if name == admin.local.name() {
            &local.store
        } else {
            held = admin.tenants.visit(&name).map_err(|closed| closed.to_string())?;
            &held.store
        };
        seats.go_on_erasing(&admin.data, &name, &|| out_of(store), &local.noting)?;
    }
    Ok(())
}

/// Returns a predicate that is true for items that were erased and are no longer in the store's files.
fn out_of(store: &Store) -> Box<dyn Fn(u128) -> bool> {
    // The snapshot comes first: an item hidden after it is not among the snapshot's erased items.
    let snapshot = store.snapshot();
    let is_all_out = store.erasures_pending().is_ok_and(|pending| pending == 0);
    Box::new(move |id| is_all_out && snapshot.is_erased(id).unwrap_or(false))
}
