//! Deleted workspaces, until the object store is purged of them (CTL-11).

use super::credentials::end_credentials;
use super::error::ControlError;
use super::grants::end_grants;
use super::mails::drop_mail;
use super::store::Control;
use super::table::{Change, LISTED_MAX};
use super::tenants::{Tenant, TenantState, find_tenant, living};

/// The record of a deleted workspace.
fn deleted(change: &Change<'_>, slug: &str) -> Result<Tenant, ControlError> {
    let found = find_tenant(change, slug)?;
    found
        .filter(|tenant| tenant.state == TenantState::Deleted)
        .ok_or_else(|| ControlError::refused("slug", "there is no such workspace that was deleted"))
}

impl Control {
    /// Deletes a workspace with its credentials and grants. The slug stays reserved.
    ///
    /// # Errors
    /// As [`Control::suspend_tenant`].
    pub fn delete_tenant(&self, slug: &str) -> Result<Tenant, ControlError> {
        let now = self.now();
        self.write(|change| {
            let mut tenant = living(change, slug)?;
            tenant.state = TenantState::Deleted;
            tenant.deleted_at = Some(now);
            tenant.tokens_not_before = now.saturating_add(1);
            tenant.email = None;
            tenant.email_verified_at = None;
            drop_mail(change, &mut tenant)?;
            end_credentials(change, slug, now, |_| true)?;
            end_grants(change, slug, now, |_| true)?;
            change.put(slug.as_bytes(), &tenant)?;
            Ok(tenant)
        })
    }

    /// Extends the deletion of a workspace to everything written until now, and restarts the purge.
    ///
    /// # Errors
    /// `Refused` if there is no such deleted workspace; otherwise a store error.
    pub fn delete_again(&self, slug: &str) -> Result<Tenant, ControlError> {
        let now = self.now();
        self.write(|change| {
            let mut tenant = deleted(change, slug)?;
            tenant.deleted_at = Some(now);
            (tenant.emptied_at, tenant.looked_again_at) = (None, None);
            change.put(slug.as_bytes(), &tenant)?;
            Ok(tenant)
        })
    }

    /// Deleted workspaces that are not purged, or whose purge was not verified yet.
    ///
    /// # Errors
    /// A store error.
    pub fn to_empty(&self) -> Result<Vec<Tenant>, ControlError> {
        let may_be_there = |tenant: &Tenant| {
            tenant.state == TenantState::Deleted
                && (tenant.emptied_at.is_none() || tenant.looked_again_at.is_none())
        };
        let (mut due, mut after) = (Vec::new(), None);
        loop {
            // In pages, so that no transaction is long.
            let found = self.tenants(after.as_deref(), LISTED_MAX)?;
            after = found.last().map(|last| last.slug.clone());
            let is_last = found.len() < LISTED_MAX;
            due.extend(found.into_iter().filter(may_be_there));
            if is_last {
                return Ok(due);
            }
        }
    }

    /// Records that the object store has no data of a deleted workspace. `once_more` is true for the second, later
    /// check.
    ///
    /// # Errors
    /// `Refused` if there is no such deleted workspace; otherwise a store error.
    pub fn note_emptied(&self, slug: &str, once_more: bool) -> Result<(), ControlError> {
        let now = self.now();
        self.write(|change| {
            let mut tenant = deleted(change, slug)?;
            if once_more && tenant.emptied_at.is_some() {
                tenant.looked_again_at.get_or_insert(now);
            }
            tenant.emptied_at.get_or_insert(now);
            change.put(slug.as_bytes(), &tenant)
        })
    }
}
