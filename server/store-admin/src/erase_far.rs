//! Erasure in what is carried to a remote, and in the nodes that follow it: what is to go is noted beside the store
//! before it is hidden, and waits there until it is nowhere any more.

use std::path::Path;

use engine::Store;
use recalld_replication::Erasing;
use serde_json::Value;

use crate::admin_state::StoreAdmin;
use crate::keep_error::KeepError;
use crate::keeping::Keeper;
use recalld_cluster::seats::FarErasure;
use recalld_fs_util::data_dir::tenant_dir;

/// Notes what a workspace is about to hide, where it is carried.
///
/// # Errors
/// It cannot be noted; nothing may be hidden then.
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

/// Goes on with the erasures of the keeper's workspace; `None` where it is not carried, or none waits.
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

/// What a server does by itself: goes on in all workspaces that it has open. Gives what waits.
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

/// Whether an item was erased and is out of the store's files, as of now.
fn out_of(store: &Store) -> Box<dyn Fn(u128) -> bool> {
    // In this order: what is hidden in between is not in the snapshot's list of what was erased.
    let snapshot = store.snapshot();
    let is_all_out = store.erasures_pending().is_ok_and(|pending| pending == 0);
    Box::new(move |id| is_all_out && snapshot.is_erased(id).unwrap_or(false))
}

/// For a report.
pub(super) fn told(far: Option<&FarErasure>) -> Value {
    far.map_or(Value::Null, FarErasure::to_json)
}
