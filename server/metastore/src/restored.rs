//! What becomes of sign-ins when the control store of a backup takes the place of a lost one (BAK-11).

use super::credentials::{Kind, end_credentials};
use super::error::ControlError;
use super::grants::end_grants;
use super::store::Control;
use super::table::LISTED_MAX;
use super::tenants::TenantState;

impl Control {
    /// Ends what was had by signing in, in every workspace: grants with their refresh tokens, access tokens, and
    /// one-time keys that are not spent. As of an earlier moment, some that were revoked since would be good again, and
    /// refresh tokens that were used since would look stolen. Gives in how many workspaces.
    ///
    /// # Errors
    /// A fault of the store.
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
