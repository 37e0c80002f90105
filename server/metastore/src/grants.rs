//! Grants: results of sign-ins, issued to a client (CTL-22).

use serde::{Deserialize, Serialize};

use super::error::ControlError;
use super::hash::Hash;
use super::record::Record;
use super::schema::{self, TableEntry};
use super::store::Control;
use super::table::{Change, LISTED_MAX, Look};
use super::text::under;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of grants of one workspace: many for each person and machine.
    pub const GRANTS_EACH_MAX: usize = 10_000;
}

/// Lifetime of a refresh token in seconds (30 days), restarted at each use.
pub(crate) const REFRESH_SECONDS: u64 = 30 * 24 * 3_600;
/// First character of grant ids; credential ids have another one.
pub(super) const ID_START: char = 'g';

/// A grant. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The workspace.
    pub tenant: String,
    /// Id: `sid` of tokens.
    pub id: String,
    /// Signed-in principal: `sub` of tokens.
    pub principal: String,
    /// Id of the client.
    pub client: String,
    /// Id of the credential that was presented at the sign-in.
    pub credential: String,
    /// Granted scopes.
    pub scopes: Vec<String>,
    /// The resource (`aud` of tokens).
    pub resource: String,
    /// Time of the sign-in.
    pub made_at: u64,
    /// Expiry of the current refresh token.
    pub expires_at: u64,
    /// Time of the revocation.
    #[serde(default)]
    pub revoked_at: Option<u64>,
    /// Number of refreshes.
    pub number: u64,
    /// Hash of the first half of the grant's refresh tokens: the refresh token family.
    pub(super) family: Hash,
    /// Hash of the current refresh token.
    pub(super) refresh: Hash,
}

impl Record for Grant {
    const ENTRY: TableEntry = schema::GRANTS;

    fn removed_at(&self) -> Option<u64> {
        Some(self.expires_at)
    }
}

impl Grant {
    /// The key of the record.
    pub(super) fn key(&self) -> Vec<u8> {
        under(&self.tenant, &self.id)
    }

    pub(super) fn is_good(&self, now: u64) -> bool {
        self.revoked_at.is_none() && now < self.expires_at
    }

    pub(super) fn holder(self) -> Holder {
        let Self { tenant, principal, scopes, credential, .. } = self;
        Holder { tenant, principal, scopes, credential }
    }
}

/// Index from the refresh token family to the grant.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Family {
    pub(super) tenant: String,
    pub(super) grant: String,
}

impl Record for Family {
    const ENTRY: TableEntry = schema::REFRESH;
}

/// Looks up a grant by id.
pub(super) fn find_grant(
    look: &impl Look,
    slug: &str,
    id: &str,
) -> Result<Option<Grant>, ControlError> {
    let found: Option<Grant> = look.find(&under(slug, id))?;
    if found.as_ref().is_some_and(|grant| grant.tenant != slug || grant.id != id) {
        return Err(ControlError::damaged(Grant::TABLE, "a record lies at another's key"));
    }
    Ok(found)
}

/// Revokes the grants of a workspace that `which` selects. Returns the number of grants that were valid.
pub(super) fn end_grants(
    change: &Change<'_>,
    slug: &str,
    now: u64,
    which: impl Fn(&Grant) -> bool,
) -> Result<usize, ControlError> {
    let mut ended = 0;
    for (key, mut grant) in change.list::<Grant>(&under(slug, ""), None, GRANTS_EACH_MAX)? {
        if grant.revoked_at.is_none() && which(&grant) {
            ended += usize::from(grant.is_good(now));
            grant.revoked_at = Some(now);
            change.put(&key, &grant)?;
        }
    }
    Ok(ended)
}

/// Stores a new grant and its refresh token family.
pub(super) fn put_new(change: &Change<'_>, grant: &Grant, now: u64) -> Result<(), ControlError> {
    let all = under(&grant.tenant, "");
    // Counted at each sign-in, and read only if room must be made.
    let mut left = change.count_of::<Grant>(&all, GRANTS_EACH_MAX)?;
    if left >= GRANTS_EACH_MAX {
        let all = change.list::<Grant>(&all, None, GRANTS_EACH_MAX)?;
        for (_, old) in all.iter().filter(|(_, old)| !old.is_good(now)) {
            remove(change, old)?;
            left -= 1;
        }
    }
    if left >= GRANTS_EACH_MAX {
        let why = format!("the workspace has {GRANTS_EACH_MAX} that are good; revoke a credential");
        return Err(ControlError::refused("grants", why));
    }
    let family = Family { tenant: grant.tenant.clone(), grant: grant.id.clone() };
    change.put(grant.family.bytes(), &family)?;
    change.put(&grant.key(), grant)
}

/// Removes a grant and its refresh token family.
pub(super) fn remove(change: &Change<'_>, grant: &Grant) -> Result<(), ControlError> {
    change.remove::<Grant>(&grant.key())?;
    change.remove::<Family>(grant.family.bytes())?;
    Ok(())
}

impl Control {
    /// Revokes a grant by id.
    ///
    /// # Errors
    /// `Refused` if the workspace has no grant of this id; otherwise a store error.
    pub fn revoke_grant(&self, slug: &str, id: &str) -> Result<Grant, ControlError> {
        let now = self.now();
        self.write(|change| {
            let none = || ControlError::refused("id", "the workspace has no such grant");
            let mut grant = find_grant(change, slug, id)?.ok_or_else(none)?;
            grant.revoked_at = grant.revoked_at.or(Some(now));
            change.put(&grant.key(), &grant)?;
            Ok(grant)
        })
    }

    /// Revokes the grants of a credential, even if the credential is no longer on record: a one-time key is removed a
    /// month after its use. Returns the number of grants that were valid.
    ///
    /// # Errors
    /// A store error.
    pub fn end_grants_of(&self, slug: &str, credential: &str) -> Result<usize, ControlError> {
        let now = self.now();
        self.write(|change| end_grants(change, slug, now, |grant| grant.credential == credential))
    }

    /// Grants of a workspace in order of id, after `after`; at most `limit` or [`LISTED_MAX`](super::LISTED_MAX).
    ///
    /// # Errors
    /// A store error.
    pub fn grants(
        &self,
        slug: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Grant>, ControlError> {
        let after = after.map(|id| under(slug, id));
        let most = limit.min(LISTED_MAX);
        let found = self.read(|view| view.list(&under(slug, ""), after.as_deref(), most))?;
        Ok(found.into_iter().map(|(_, grant)| grant).collect())
    }
}

/// Holder of a code or refresh token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The workspace.
    pub tenant: String,
    /// The signed-in principal.
    pub principal: String,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// Id of the credential that was presented at the sign-in.
    pub credential: String,
}
