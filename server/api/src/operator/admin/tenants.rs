//! Workspaces: created, suspended, resumed, deleted.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use serde_json::Value;

use super::act::{NewTenant, Removal};
use super::mails;
use super::office::{AdminError, Office, page, shown, time};
use crate::app_state::AppState;
use recalld_fs_util::data_dir::tenant_dir;
use recalld_metastore::{LISTED_MAX, Tenant, TenantState};
use recalld_workspace::tenants::make_folders;

const PLAN: &str = "free";
/// Message for a workspace that could not be closed.
const IN_USE: &str =
    "a call still works with its store, or too many others are being opened or closed: try again";
/// Name of a deleted workspace's store directory until its removal.
const REMOVED: &str = "store.removed";
/// Hint for an operator who deletes an already deleted workspace.
const AGAIN: &str = "; with --again, what was written of it elsewhere since goes from the remote as well, once its \
                     time is over, which begins anew";

impl Office<'_> {
    pub(super) fn create_tenant(&self, new: &NewTenant) -> Result<Value, AdminError> {
        let slug = &*new.slug;
        recalld_metastore::check_slug(slug)?;
        let plan = new.plan.as_deref().unwrap_or(PLAN);
        self.check_plan(plan)?;
        let address = new.email.as_deref().map(mails::checked).transpose()?;
        let folder = tenant_dir(self.data, slug);
        let tenant = match self.control.find_tenant(slug)? {
            // The creation was interrupted; only the folders are missing.
            Some(found) if is_cut_short(&found, &folder) => {
                check_same("plan", new.plan.as_deref(), &found.plan)?;
                check_same("title", new.title.as_deref(), &found.title)?;
                found
            }
            None if folder.symlink_metadata().is_ok() => {
                let why =
                    "there is a folder of that name, and no workspace on record; move it away";
                return Err(AdminError::wrong("slug", why));
            }
            _ => {
                let title = new.title.as_deref().unwrap_or(slug);
                self.control.create_tenant(&recalld_metastore::NewTenant { slug, title, plan })?
            }
        };
        make_folders(&folder).map_err(|error| {
            let folder = folder.display();
            AdminError::Failed(format!("{folder}: {error}; mend that and create it again"))
        })?;
        match address {
            Some(address) => self.write_to(slug, address),
            None => Ok(shown(&self.living(&tenant.slug)?)),
        }
    }

    pub(super) fn list_tenants(&self, after: Option<&str>) -> Result<Value, AdminError> {
        let found = self.control.tenants(after, LISTED_MAX)?;
        let last = found.last().map(|tenant| tenant.slug.clone());
        Ok(page("tenants", found.iter().map(shown).collect(), last))
    }

    pub(super) fn suspend_tenant(&self, slug: &str) -> Result<Value, AdminError> {
        self.living(slug)?;
        let tenant = self.control.suspend_tenant(slug)?;
        if let Some(live) = self.live {
            // A workspace in use is closed later by the idle timeout.
            let _in_use = live.tenants.close(slug);
        }
        Ok(shown(&tenant))
    }

    pub(super) fn resume_tenant(&self, slug: &str) -> Result<Value, AdminError> {
        self.living(slug)?;
        Ok(shown(&self.control.resume_tenant(slug)?))
    }

    /// Revokes all credentials, then removes the store. A repeated deletion removes remains of the store. With `again`,
    /// later writes are purged from the remote as well, and the retention period starts again.
    pub(super) fn delete_tenant(&self, of: &Removal) -> Result<Value, AdminError> {
        let slug = &*of.slug;
        if of.confirm != slug {
            let why = format!("say the name again, {slug}; what is deleted cannot be brought back");
            return Err(AdminError::wrong("confirm", why));
        }
        let found = self.control.find_tenant(slug)?;
        let found =
            found.ok_or_else(|| AdminError::No(format!("there is no workspace {slug:?}")))?;
        let folder = tenant_dir(self.data, slug);
        let remote = self.live.and_then(|live| live.seats.as_ref());
        let keep = remote.filter(|_| of.again).map(|seats| seats.settings().keep.0);
        let tenant = match (found.state, keep) {
            // Later writes of other nodes are purged as well.
            (TenantState::Deleted, Some(_)) => self.control.delete_again(slug)?,
            (TenantState::Deleted, None) if !may_have_store(&folder) => {
                let rest = if remote.is_some() { AGAIN } else { "" };
                let why = format!("the workspace {slug:?} is deleted already{rest}");
                return Err(AdminError::No(why));
            }
            (TenantState::Deleted, None) => found,
            _ if of.again => {
                let why = format!("the workspace {slug:?} was not deleted before; leave this out");
                return Err(AdminError::wrong("again", why));
            }
            _ => self.control.delete_tenant(slug)?,
        };
        let rest = "it opens for nobody any more; delete it again to remove its store";
        let failed = |why: &dyn std::fmt::Display| AdminError::Failed(format!("{why}; {rest}"));
        self.close(slug).map_err(|why| failed(&why))?;
        remove_store(&folder, || self.close(slug)).map_err(|why| failed(&why))?;
        let mut row = shown(&tenant);
        if let (Some(keep), Some(at)) = (keep, tenant.deleted_at) {
            let until = time(at.saturating_add(keep.as_secs()));
            row["deleted_about"] = format!(
                "its time begins anew: what is on the remote of it can be restored until {until}, and goes then"
            )
            .into();
        }
        Ok(row)
    }

    fn close(&self, slug: &str) -> Result<(), String> {
        let closed = self.live.map_or(Ok(()), |live| live.tenants.close_deleted(slug));
        closed.map_err(|_| IN_USE.to_owned())
    }
}

/// Removes the stores of workspaces that were deleted on another node.
///
/// # Errors
/// The error of the first store that cannot be removed; the other stores are removed.
pub fn remove_deleted(parts: &AppState) -> Result<(), String> {
    let folders = tenant_dir(&parts.data, "");
    let listed = match fs::read_dir(&folders) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        listed => listed.map_err(|error| format!("{}: {error}", folders.display()))?,
    };
    let removed = listed.flatten().map(|entry| {
        let (folder, name) = (entry.path(), entry.file_name());
        let slug = name.to_str().filter(|slug| recalld_metastore::check_slug(slug).is_ok());
        slug.map_or(Ok(()), |slug| remove_if_deleted(parts, slug, &folder))
    });
    // A store in use does not prevent the removal of the others.
    removed.fold(Ok(()), Result::and)
}

fn remove_if_deleted(parts: &AppState, slug: &str, folder: &Path) -> Result<(), String> {
    if !may_have_store(folder) {
        return Ok(());
    }
    let tenant = parts.control.find_tenant(slug).map_err(|error| error.to_string())?;
    if tenant.is_none_or(|tenant| tenant.state != TenantState::Deleted) {
        return Ok(());
    }
    let close = || {
        let closed = parts.tenants.close_deleted(slug);
        closed.map_err(|_| format!("{slug}: {IN_USE}"))
    };
    close()?;
    remove_store(folder, close)
}

/// Returns true if the creation of a workspace was interrupted before its folders existed. A workspace that was ever
/// open has a ledger and a key. If these exist without the store, the store was lost and must not be created anew.
fn is_cut_short(tenant: &Tenant, folder: &Path) -> bool {
    let is_there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    tenant.state == TenantState::Active && !["store", "ledger", "keys"].into_iter().any(is_there)
}

/// Checks that a resumed creation requests the same values as the interrupted one.
fn check_same(field: &'static str, asked: Option<&str>, begun: &str) -> Result<(), AdminError> {
    if asked.is_none_or(|asked| asked == begun) {
        return Ok(());
    }
    let why = format!("the workspace was begun with {begun:?}; give that, or leave it out");
    Err(AdminError::wrong(field, why))
}

/// Returns true if a workspace's folder contains parts of a store or declares that it may.
fn may_have_store(folder: &Path) -> bool {
    let is_there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    is_there("store")
        || is_there(REMOVED)
        || !matches!(recalld_replication::held_in(folder), Ok(None))
}

/// Renames the store directory away, so that nobody can open it. Then closes open handles, and deletes the directory
/// with its replication state. The ledger and the key that verifies the ledger stay.
fn remove_store(folder: &Path, close: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let (store, removed) = (folder.join("store"), folder.join(REMOVED));
    let said = |error: io::Error| format!("{}: {error}", store.display());
    let gone = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    let remove = || match fs::remove_dir_all(&removed) {
        Err(error) if !gone(&error) => Err(said(error)),
        _ => Ok(()),
    };
    remove()?;
    match fs::rename(&store, &removed) {
        Err(error) if !gone(&error) => return Err(said(error)),
        _ => {}
    }
    close()?;
    remove()?;
    match recalld_replication::forget(folder) {
        Err(error) if !gone(&error) => Err(said(error)),
        _ => Ok(()),
    }
}
