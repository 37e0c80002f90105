//! Refresh tokens: each is used once, and is exchanged for the next one (CTL-50, CTL-52).
//!
//! A refresh token has two halves. The first half identifies the refresh token family for the life of the grant; the
//! second half is new each time. So a reused token is recognised without a record of its own, after any number of
//! refreshes.

use std::fmt;

use super::clients::{may_use, touch};
use super::credentials::{CredentialFault, active_tenant, end_of_key};
use super::error::ControlError;
use super::grants::{Family, Grant, Holder, REFRESH_SECONDS, find_grant};
use super::hash::Hash;
use super::record::Record;
use super::store::Control;
use super::table::Look;
use super::tenants::Tenant;
use super::text::are_within;
use recalld_auth::Prefix;
use recalld_common::secret::Secret;

/// Base-62 digits of one half of a refresh token.
const HALF_CHARS: usize = 43;

const INFIX: &str = "_refresh_";

/// Result of a refresh.
pub struct Refreshed {
    /// The grant.
    pub grant: Grant,
    /// The workspace of the grant.
    pub tenant: Tenant,
    /// Scopes of the new access token: those of the grant, or fewer if requested.
    pub scopes: Vec<String>,
    /// The next refresh token, which replaces the presented one.
    pub refresh: Secret,
}

/// Reason for which a refresh token is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefreshError {
    /// The token was never issued, or its grant is removed.
    Unknown,
    /// The token was not used for 30 days.
    Expired,
    /// The token was used before. [`Control::refresh`] then revokes the grant; [`Control::may_refresh`] does not.
    Reused,
    /// The grant was revoked.
    Revoked,
    /// The token was issued to another client, or the client is revoked.
    WrongClient,
    /// The token is for another resource.
    WrongResource,
    /// A requested scope was not granted.
    WiderScope,
    /// The workspace is suspended.
    Suspended,
    /// The workspace is deleted.
    Deleted,
    /// The store failed.
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

/// The first half of a refresh token, including the prefix.
fn first_half(token: &[u8]) -> Option<&[u8]> {
    token.len().checked_sub(HALF_CHARS).map(|at| &token[..at])
}

impl Control {
    /// Generates the first refresh token of a grant. Also returns the hash of its first half.
    pub(super) fn new_family(&self, prefix: &Prefix) -> (Secret, Hash) {
        let first = self.secret(&format!("{}{INFIX}", prefix.as_str()));
        let family = Hash::of(first.expose().as_bytes());
        (self.secret(first.expose()), family)
    }

    /// The holder of a refresh token, valid or not. Changes nothing.
    ///
    /// # Errors
    /// A store error.
    pub fn holder_of_refresh(&self, presented: &[u8]) -> Result<Option<Holder>, ControlError> {
        let Some(first) = first_half(presented) else { return Ok(None) };
        match self.read(|view| grant_of(view, &Hash::of(first))) {
            Ok(grant) => Ok(Some(grant.holder())),
            Err(RefreshError::Control(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Uses a refresh token. Returns the next refresh token, and the data of a new access token (CTL-52).
    ///
    /// # Errors
    /// The reason for the rejection. A reused token revokes its grant.
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
        // The inner result is an error that must still be committed, as reuse revokes the grant.
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

    /// Checks that a refresh token can be used now with these parameters. Changes nothing.
    ///
    /// # Errors
    /// The reason for the rejection; `Reused` if a use would revoke the grant.
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

    /// The holder of a refresh token whose grant `client` may revoke; `None` if there is nothing to revoke.
    ///
    /// # Errors
    /// A store error.
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

    /// Revokes the grant of a refresh token (RFC 7009), if the grant belongs to `client`. Returns false if there was
    /// nothing to revoke; the response to the client is the same.
    ///
    /// # Errors
    /// A store error.
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
}

struct Refreshable {
    grant: Grant,
    tenant: Tenant,
    scopes: Vec<String>,
    /// Expiry of the grant's key, in seconds since 1970.
    ends_at: u64,
}

/// Validates a refresh by `client` at `now`.
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
