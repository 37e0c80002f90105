//! Grants: what a sign-in gave to a client, and the refresh token that keeps it alive (CTL-50, CTL-52).
//!
//! A refresh token has two halves. The first is that of its family, the grant's for life; the second is new each
//! time. So a token that was used before is known for what it is without a record of its own, however often the
//! grant was refreshed.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::clients::{may_use, touch};
use super::codes::Holder;
use super::credentials::{CredentialFault, active_tenant, end_of_key};
use super::error::ControlError;
use super::hash::Hash;
use super::record::Record;
use super::store::Control;
use super::table::{Change, Look};
use super::tenants::{LISTED_MAX, Tenant};
use super::text::{are_within, under};
use recalld_auth::Prefix;
use recalld_common::secret::Secret;

/// Grants of one workspace: each of its people on each of their machines, many times over.
pub const GRANTS_EACH_MAX: usize = 10_000;
/// How long a refresh token is good, in seconds: 30 days. Each one that is used begins them anew.
pub const REFRESH_SECONDS: u64 = 30 * 24 * 3_600;
/// What ids of grants begin with; those of credentials begin otherwise.
pub(super) const ID_START: char = 'g';
/// Base-62 digits of one half of a refresh token.
const HALF_CHARS: usize = 43;
const INFIX: &str = "_refresh_";

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
    const TABLE: &'static str = "grants";
    const NUMBER: u8 = 5;

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

    fn holder(self) -> Holder {
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
    const TABLE: &'static str = "refresh";
    const NUMBER: u8 = 6;
}

/// What a refresh token gave.
pub struct Refreshed {
    /// The grant.
    pub grant: Grant,
    /// Its workspace.
    pub tenant: Tenant,
    /// What the new access token may be used for: those of the grant, or fewer if fewer were asked for.
    pub scopes: Vec<String>,
    /// The next refresh token; the one that was used is good no more.
    pub refresh: Secret,
}

/// Why a refresh token gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefreshError {
    /// None of ours, or of a grant that is long over.
    Unknown,
    /// It was not used for 30 days.
    Expired,
    /// It was used before: the grant is revoked now.
    Reused,
    /// The grant was revoked.
    Revoked,
    /// It was given to another client, or that client may not be used any more.
    WrongClient,
    /// It is for another resource.
    WrongResource,
    /// More was asked for than was granted.
    WiderScope,
    /// The workspace is stopped.
    Suspended,
    /// The workspace is gone.
    Deleted,
    /// The store cannot say.
    Control(ControlError),
}

impl From<ControlError> for RefreshError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

impl From<CredentialFault> for RefreshError {
    fn from(fault: CredentialFault) -> Self {
        match fault {
            CredentialFault::Suspended => Self::Suspended,
            CredentialFault::Deleted => Self::Deleted,
            CredentialFault::Control(error) => Self::Control(error),
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for RefreshError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "no such refresh token",
            Self::Expired => "the refresh token has expired; sign in again",
            Self::Reused => {
                "the refresh token was used before, so all of its grant is revoked; sign in again"
            }
            Self::Revoked => "the grant is revoked; sign in again",
            Self::WrongClient => "the refresh token was given to another client",
            Self::WrongResource => "the refresh token is for another resource",
            Self::WiderScope => "more scopes were asked for than were granted",
            Self::Suspended => "the workspace is suspended",
            Self::Deleted => "the workspace is deleted",
            Self::Control(error) => return error.fmt(f),
        })
    }
}

impl std::error::Error for RefreshError {}

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

/// The first half of a refresh token, with what stands before it.
fn first_half(token: &[u8]) -> Option<&[u8]> {
    token.len().checked_sub(HALF_CHARS).map(|at| &token[..at])
}

impl Control {
    /// The first refresh token of a grant, and the hash of its first half.
    pub(super) fn new_family(&self, prefix: &Prefix) -> (Secret, Hash) {
        let first = self.secret(&format!("{}{INFIX}", prefix.as_str()));
        let family = Hash::of(first.expose().as_bytes());
        (self.secret(first.expose()), family)
    }

    /// Of whom a refresh token is, good or not; nothing comes of asking.
    ///
    /// # Errors
    /// A fault of the store.
    pub fn holder_of_refresh(&self, presented: &[u8]) -> Result<Option<Holder>, ControlError> {
        let Some(first) = first_half(presented) else { return Ok(None) };
        match self.read(|view| grant_of(view, &Hash::of(first))) {
            Ok(grant) => Ok(Some(grant.holder())),
            Err(RefreshError::Control(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Uses a refresh token: gives the next one, and what a new access token may be made of (CTL-52).
    ///
    /// # Errors
    /// Why it is not good. One that was used before revokes its grant.
    pub fn refresh(
        &self,
        presented: &[u8],
        client: &str,
        resource: Option<&str>,
        scopes: Option<&[String]>,
    ) -> Result<Refreshed, RefreshError> {
        let first = first_half(presented).ok_or(RefreshError::Unknown)?;
        let start = std::str::from_utf8(first).map_err(|_| RefreshError::Unknown)?;
        let (next, now) = (self.secret(start), self.now());
        // What revokes has to be committed, although it gives nothing.
        self.write(|change| -> Result<_, RefreshError> {
            let refreshable = refreshable(change, (presented, client), (resource, scopes), now);
            if refreshable.as_ref().err() == Some(&RefreshError::Reused) {
                let mut grant = grant_of(change, &Hash::of(first))?;
                grant.revoked_at = grant.revoked_at.or(Some(now));
                change.put(&grant.key(), &grant)?;
                return Ok(Err(RefreshError::Reused));
            }
            let Refreshable { mut grant, tenant, scopes, ends_at } = refreshable?;
            grant.refresh = Hash::of(next.expose().as_bytes());
            grant.number += 1;
            grant.expires_at = now.saturating_add(REFRESH_SECONDS).min(ends_at);
            change.put(&grant.key(), &grant)?;
            touch(change, client, now)?;
            Ok(Ok(Refreshed { grant, tenant, scopes, refresh: next }))
        })?
    }

    /// Whether a refresh token could be used so now; nothing comes of asking.
    ///
    /// # Errors
    /// Why it could not; `Reused` where using it would end its grant.
    pub fn may_refresh(
        &self,
        presented: &[u8],
        client: &str,
        resource: Option<&str>,
        scopes: Option<&[String]>,
    ) -> Result<(), RefreshError> {
        let now = self.now();
        self.read(|view| refreshable(view, (presented, client), (resource, scopes), now).map(drop))
    }

    /// Of whom a refresh token is whose grant `client` may revoke, if there is anything to revoke.
    ///
    /// # Errors
    /// A fault of the store.
    pub fn revocable(
        &self,
        presented: &[u8],
        client: &str,
    ) -> Result<Option<Holder>, ControlError> {
        let Some(first) = first_half(presented) else { return Ok(None) };
        match self.read(|view| grant_of(view, &Hash::of(first))) {
            Ok(grant) if grant.client == client && grant.revoked_at.is_none() => {
                Ok(Some(grant.holder()))
            }
            Err(RefreshError::Control(error)) => Err(error),
            _ => Ok(None),
        }
    }

    /// Revokes the grant of a refresh token (RFC 7009), if `client` has it. `false` where there is nothing to
    /// revoke, which the client is not told.
    ///
    /// # Errors
    /// A fault of the store.
    pub fn revoke_refresh(&self, presented: &[u8], client: &str) -> Result<bool, ControlError> {
        let Some(first) = first_half(presented) else { return Ok(false) };
        let (family, now) = (Hash::of(first), self.now());
        self.write(|change| match grant_of(change, &family) {
            Ok(mut grant) if grant.client == client && grant.revoked_at.is_none() => {
                grant.revoked_at = Some(now);
                change.put(&grant.key(), &grant)?;
                Ok(true)
            }
            Err(RefreshError::Control(error)) => Err(error),
            _ => Ok(false),
        })
    }

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

/// A refresh token that can be used.
struct Refreshable {
    grant: Grant,
    tenant: Tenant,
    scopes: Vec<String>,
    /// When the key of its grant ends, in seconds since 1970.
    ends_at: u64,
}

/// What a refresh token would give to `client` at `now`.
fn refreshable(
    look: &impl Look,
    (presented, client): (&[u8], &str),
    (resource, scopes): (Option<&str>, Option<&[String]>),
    now: u64,
) -> Result<Refreshable, RefreshError> {
    let first = first_half(presented).ok_or(RefreshError::Unknown)?;
    let grant = grant_of(look, &Hash::of(first))?;
    if grant.client != client || !may_use(look, client)? {
        return Err(RefreshError::WrongClient);
    }
    if grant.revoked_at.is_some() {
        return Err(RefreshError::Revoked);
    }
    if grant.refresh != Hash::of(presented) {
        return Err(RefreshError::Reused);
    }
    if now >= grant.expires_at {
        return Err(RefreshError::Expired);
    }
    let tenant = active_tenant(look, &grant.tenant)?;
    if resource.is_some_and(|resource| resource != grant.resource) {
        return Err(RefreshError::WrongResource);
    }
    let scopes = scopes.unwrap_or(&grant.scopes);
    if !are_within(scopes, &grant.scopes) {
        return Err(RefreshError::WiderScope);
    }
    let scopes = scopes.to_vec();
    let ends_at = end_of_key(look, &grant.tenant, &grant.credential)?;
    Ok(Refreshable { grant, tenant, scopes, ends_at })
}

fn grant_of(look: &impl Look, family: &Hash) -> Result<Grant, RefreshError> {
    let found: Option<Family> = look.find(family.bytes())?;
    let Family { tenant, grant } = found.ok_or(RefreshError::Unknown)?;
    let grant = find_grant(look, &tenant, &grant)?.ok_or(RefreshError::Unknown)?;
    if grant.family != *family {
        return Err(ControlError::damaged(Family::TABLE, "a family names another's grant").into());
    }
    Ok(grant)
}
