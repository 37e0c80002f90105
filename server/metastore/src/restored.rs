//! Invalidation of sign-ins after the metastore of a backup replaced a lost one (BAK-11).

use super::credentials::{Kind, end_credentials};
use super::error::ControlError;
use super::grants::end_grants;
use super::store::Control;
use super::table::LISTED_MAX;
use super::tenants::TenantState;

impl Control {
    /// Ends all results of sign-ins in every workspace that is not deleted: grants with their refresh tokens, access
    /// tokens, and unspent one-time keys. The backup is older than the lost store, so revoked grants would be valid
    /// again, and refresh tokens used since would look stolen. Returns the number of workspaces.
    ///
    /// # Errors
    /// A store error.
    pub fn end_sign_ins(&self) -> Result<usize, ControlError> {
        let (now, mut after, mut count) = (self.now(), None::<String>, 0);
        loop {
            let tenants = self.tenants(after.as_deref(), LISTED_MAX)?;
            let Some(last) = tenants.last() else { return Ok(count) };
            after = Some(last.slug.clone());
            for tenant in tenants.iter().filter(|one| one.state != TenantState::Deleted) {
                self.write(|change| {
                    end_credentials(change, &tenant.slug, now, |key| key.kind == Kind::Once)?;
                    end_grants(change, &tenant.slug, now, |_| true)
                })?;
                self.end_tokens(&tenant.slug)?;
                count += 1;
            }
        }
    }
}
