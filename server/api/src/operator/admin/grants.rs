//! Grants of clients and their access tokens.

use serde_json::{Value, json};

use super::keys::none_of;
use super::office::{AdminError, Office, page, shown, time};
use recalld_metastore::{Grant, LISTED_MAX};

impl Office<'_> {
    pub(super) fn list_grants(&self, slug: &str, after: Option<&str>) -> Result<Value, AdminError> {
        self.living(slug)?;
        let found = self.control.grants(slug, after, LISTED_MAX)?;
        let last = found.last().map(|grant| grant.id.clone());
        Ok(page("grants", found.iter().map(shown_grant).collect(), last))
    }

    /// Revokes a grant with its refresh token and all its access tokens.
    pub(super) fn revoke_grant(&self, slug: &str, id: &str) -> Result<Value, AdminError> {
        self.living(slug)?;
        let revoked = self.control.revoke_grant(slug, id);
        Ok(shown_grant(&revoked.map_err(|error| none_of("id", error))?))
    }

    /// Revokes all access tokens of a workspace. Refresh tokens stay valid.
    pub(super) fn end_tokens(&self, slug: &str) -> Result<Value, AdminError> {
        self.living(slug)?;
        Ok(shown(&self.control.end_tokens(slug)?))
    }
}

/// Describes a grant without secrets or their hashes.
fn shown_grant(grant: &Grant) -> Value {
    json!({
        "slug": grant.tenant, "id": grant.id, "principal": grant.principal,
        "client": grant.client, "credential": grant.credential, "scopes": grant.scopes,
        "made_at": time(grant.made_at), "expires_at": time(grant.expires_at),
        "revoked_at": grant.revoked_at.map(time), "refreshed": grant.number,
    })
}
