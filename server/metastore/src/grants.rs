//! Grants: what a sign-in gave to a client (CTL-22).

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

    /// Grants of one workspace: each of its people on each of their machines, many times over.
    pub const GRANTS_EACH_MAX: usize = 10_000;
}

/// How long a refresh token is good, in seconds: 30 days. Each one that is used begins them anew.
pub(crate) const REFRESH_SECONDS: u64 = 30 * 24 * 3_600;
/// What ids of grants begin with; those of credentials begin otherwise.
pub(super) const ID_START: char = 'g';

/// What a sign-in gave. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The workspace.
    pub tenant: String,
    /// Its name: `sid` of tokens.
    pub id: String,
    /// Who signed in: `sub` of tokens.
    pub principal: String,
    /// The client that it was given to.
    pub client: String,
    /// The id of the credential that was signed in with.
    pub credential: String,
    /// What it may be used for.
    pub scopes: Vec<String>,
    /// Where it may be used.
    pub resource: String,
    /// When it was given.
    pub made_at: u64,
    /// When its refresh token is good no more.
    pub expires_at: u64,
    /// When it was taken back.
    #[serde(default)]
    pub revoked_at: Option<u64>,
    /// How often it was refreshed.
    pub number: u64,
    /// First half of its refresh tokens.
    pub(super) family: Hash,
    /// The refresh token that is good now.
    pub(super) refresh: Hash,
}

impl Record for Grant {
    const ENTRY: TableEntry = schema::GRANTS;

    fn removed_at(&self) -> Option<u64> {
        Some(self.expires_at)
    }
}

impl Grant {
    /// Where it lies.
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

/// Finds a grant by the first half of its refresh tokens.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Family {
    pub(super) tenant: String,
    pub(super) grant: String,
}

impl Record for Family {
    const ENTRY: TableEntry = schema::REFRESH;
}

/// The grant of this id.
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

/// Revokes those grants of a workspace that `which` names. Gives how many were good.
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

/// Puts a new grant on record, and what its refresh tokens are known by.
pub(super) fn put_new(change: &Change<'_>, grant: &Grant, now: u64) -> Result<(), ControlError> {
    let all = under(&grant.tenant, "");
    // They are read where room must be made, and counted at each sign-in.
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

/// Takes a grant away, and its family.
pub(super) fn remove(change: &Change<'_>, grant: &Grant) -> Result<(), ControlError> {
    change.remove::<Grant>(&grant.key())?;
    change.remove::<Family>(grant.family.bytes())?;
    Ok(())
}

impl Control {
    /// Revokes a grant by its id.
    ///
    /// # Errors
    /// `Refused` where the workspace has none of this id; else a fault of the store.
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

    /// Revokes what was granted for a credential, whether or not that is still on record: a one-time key is forgotten a
    /// month after it was spent. Gives how many grants were good.
    ///
    /// # Errors
    /// A fault of the store.
    pub fn end_grants_of(&self, slug: &str, credential: &str) -> Result<usize, ControlError> {
        let now = self.now();
        self.write(|change| end_grants(change, slug, now, |grant| grant.credential == credential))
    }

    /// Grants of a workspace in order of their ids, those after `after`: `limit` or
    /// [`LISTED_MAX`](super::LISTED_MAX) at most.
    ///
    /// # Errors
    /// A fault of the store.
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

/// Of whom a code or refresh token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The workspace.
    pub tenant: String,
    /// Who signed in.
    pub principal: String,
    /// What was granted.
    pub scopes: Vec<String>,
    /// The credential that it was given for.
    pub credential: String,
}
