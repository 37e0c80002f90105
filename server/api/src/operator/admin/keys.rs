//! Credentials of workspaces, clients, and the signing keys of access tokens.

use serde_json::{Value, json};

use super::act::{NewKey, NextKey};
use super::office::{AdminError, Office, page, time};
use recalld_common::keys::one_of;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_metastore::{
    Client, ControlError, Credential, Issued, Kind, LISTED_MAX, NewCredential, Tenant,
};
use recalld_oauth::Scopes;

impl Office<'_> {
    pub(super) fn issue_key(&self, new: &NewKey) -> Result<Value, AdminError> {
        let tenant = self.living(&new.slug)?;
        let scopes = match &new.scopes {
            Some(asked) => self.scopes(&tenant, Some(asked))?,
            None => self.everyday(&tenant)?,
        };
        let expires_at = new.expires.as_deref().map(seconds_of).transpose()?;
        let (kind, name) = (new.kind, new.name.as_deref());
        let wanted = NewCredential { kind, name, scopes: &scopes, expires_at };
        let prefix = &self.config.oauth.key_prefix;
        Ok(issued(&self.control.issue_credential(&new.slug, &wanted, prefix)?))
    }

    pub(super) fn rotate_key(&self, next: &NextKey) -> Result<Value, AdminError> {
        let (tenant, slug) = (self.living(&next.slug)?, &next.slug);
        // The requested scopes, or those of the previous key. If there was no key, the plan's scopes.
        let scopes = match next.scopes.as_deref() {
            Some(scopes) => Some(self.scopes(&tenant, Some(scopes))?),
            None if self.has_workspace_key(slug)? => None,
            None => Some(self.scopes(&tenant, None)?),
        };
        let prefix = &self.config.oauth.key_prefix;
        Ok(issued(&self.control.rotate_workspace_key(slug, scopes.as_deref(), prefix)?))
    }

    /// Revokes a key. If the key is already deleted, ends the grants that may still depend on the key.
    pub(super) fn revoke_key(&self, slug: &str, id: &str) -> Result<Value, AdminError> {
        self.living(slug)?;
        match self.control.revoke_credential(slug, id).map_err(|error| none_of("id", error)) {
            Ok(revoked) => Ok(shown(&revoked)),
            Err(AdminError::No(why)) => match self.control.end_grants_of(slug, id)? {
                0 => Err(AdminError::No(why)),
                ended => {
                    Ok(json!({"slug": slug, "id": id, "state": "gone", "grants_ended": ended}))
                }
            },
            Err(other) => Err(other),
        }
    }

    pub(super) fn list_keys(&self, slug: &str, after: Option<&str>) -> Result<Value, AdminError> {
        self.living(slug)?;
        let found = self.control.credentials(slug, after, LISTED_MAX)?;
        let last = found.last().map(|credential| credential.id.clone());
        Ok(page("keys", found.iter().map(shown).collect(), last))
    }

    /// Rotates the signing keys. A running server reads the new set at once.
    pub(super) fn rotate_signing(&self) -> Result<Value, AdminError> {
        let keys = self.control.rotate_token_key(self.config.oauth.access_token_seconds)?;
        if let Some(live) = self.live
            && let Some(authority) = &live.authority
        {
            authority.read_keys(self.control)?;
        }
        let last = keys.iter().map(|key| key.signs_from).max().unwrap_or_default();
        Ok(json!({"published": keys.len(), "signs_from": time(last)}))
    }

    pub(super) fn list_clients(&self, after: Option<&str>) -> Result<Value, AdminError> {
        let found = self.control.clients(after, LISTED_MAX)?;
        let last = found.last().map(|client| client.id.clone());
        Ok(page("clients", found.iter().map(shown_client).collect(), last))
    }

    pub(super) fn revoke_client(&self, id: &str) -> Result<Value, AdminError> {
        let revoked = self.control.revoke_client(id);
        Ok(shown_client(&revoked.map_err(|error| none_of("client_id", error))?))
    }

    /// Returns the plan's scopes for everyday work. Asserting identities, reading the ledger and running benchmarks
    /// must be requested explicitly for a key.
    fn everyday(&self, tenant: &Tenant) -> Result<Vec<String>, AdminError> {
        let everyday = Scopes::everyday();
        let is_everyday = |name: &String| everyday.iter().any(|scope| scope.name() == name);
        let granted = self.scopes(tenant, None)?;
        let found: Vec<String> = granted.iter().filter(|name| is_everyday(name)).cloned().collect();
        if found.is_empty() && !granted.is_empty() {
            let plan = &tenant.plan;
            let why =
                format!("the plan {plan:?} grants nothing everyday; give {}", granted.join(", "));
            return Err(AdminError::wrong("scopes", why));
        }
        Ok(found)
    }

    /// Returns the requested scopes, or all scopes of the plan.
    fn scopes(&self, tenant: &Tenant, asked: Option<&[String]>) -> Result<Vec<String>, AdminError> {
        let plan = self.config.plans.find(&tenant.plan).ok_or_else(|| {
            let plan = &tenant.plan;
            AdminError::wrong("plan", format!("the settings have no plan {plan:?}; set another"))
        })?;
        let granted: Vec<&str> = plan.scopes.iter().map(|scope| scope.name()).collect();
        let Some(asked) = asked else {
            return Ok(granted.into_iter().map(str::to_owned).collect());
        };
        for name in asked {
            if !Scope::of(name).is_some_and(|scope| plan.may_grant(scope)) {
                let (of, allowed) = (&tenant.plan, one_of(name, &granted));
                let why = format!("the plan {of:?} does not grant {name:?}; give {allowed}");
                return Err(AdminError::wrong("scopes", why));
            }
        }
        Ok(asked.to_vec())
    }

    fn has_workspace_key(&self, slug: &str) -> Result<bool, AdminError> {
        let mut after: Option<String> = None;
        // The number of pages is bounded by the maximum number of credentials of a workspace.
        loop {
            let found = self.control.credentials(slug, after.as_deref(), LISTED_MAX)?;
            if found.iter().any(|credential| credential.kind == Kind::Workspace) {
                return Ok(true);
            }
            match found.last() {
                Some(last) if found.len() >= LISTED_MAX => after = Some(last.id.clone()),
                _ => return Ok(false),
            }
        }
    }
}

/// Reports an unknown name as "not found" and not as an invalid argument.
pub(super) fn none_of(name: &str, error: ControlError) -> AdminError {
    match error {
        ControlError::Refused { field, why } if field == name => AdminError::No(why),
        other => other.into(),
    }
}

fn seconds_of(text: &str) -> Result<u64, AdminError> {
    let at = names::parse_time(text).map_err(|why| AdminError::wrong("expires", why))?;
    Ok(recalld_oauth::authority::seconds(at))
}

/// The only response that contains a secret.
fn issued(issued: &Issued) -> Value {
    let mut answer = shown(&issued.credential);
    answer["secret"] = issued.secret.expose().into();
    answer
}

fn shown(credential: &Credential) -> Value {
    json!({
        "slug": credential.tenant, "id": credential.id, "kind": credential.kind,
        "name": credential.name, "scopes": credential.scopes,
        "made_at": time(credential.made_at), "expires_at": credential.expires_at.map(time),
        "state": credential.state, "ended_at": credential.ended_at.map(time),
    })
}

fn shown_client(client: &Client) -> Value {
    json!({
        "id": client.id, "name": client.name, "redirect_uris": client.redirect_uris,
        "auth_method": client.auth_method, "made_at": time(client.made_at),
        "used_at": client.used_at.map(time), "revoked_at": client.revoked_at.map(time),
    })
}
