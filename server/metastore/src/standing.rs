//! Token introspection: checks on every request, in one transaction, that an access token is active (CTL-60).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::clients::may_use;
use super::credentials::{Credential, CredentialFault, active_tenant, find_by_id};
use super::error::ControlError;
use super::grants::{self, Grant, find_grant};
use super::latest::CLOCK_BACK_SECONDS_MAX;
use super::record::Record;
use super::schema::{self, TableEntry};
use super::store::Control;
use super::table::Look;
use super::tenants::Tenant;
use super::text::check_word;
use recalld_policy::{Caller, Credential as Shown};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of access tokens that are revoked and not yet expired.
    pub const REVOKED_MAX: u64 = 1_000_000;
}

/// A single revoked access token.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Revoked {
    expires_at: u64,
}

impl Record for Revoked {
    const ENTRY: TableEntry = schema::REVOKED;

    fn removed_at(&self) -> Option<u64> {
        // If the clock goes back a little, an expired token would be active again.
        Some(self.expires_at.saturating_add(5 * CLOCK_BACK_SECONDS_MAX))
    }
}

/// The object that an access token depends on (its `sid`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// The grant of a person's sign-in.
    Grant(Grant),
    /// A credential, without a sign-in.
    Credential(Credential),
}

/// Status of an active access token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The token's workspace, which is active.
    pub tenant: Tenant,
    /// The valid grant or credential that the token depends on.
    pub hold: Hold,
}

/// Reason for which an access token is inactive.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StandingFault {
    /// There is no such workspace.
    Unknown,
    /// The workspace is suspended.
    Suspended,
    /// The workspace is deleted.
    Deleted,
    /// The token was issued before the workspace's `tokens_not_before`.
    TooOld,
    /// The token itself is revoked.
    Revoked,
    /// The grant or credential is revoked or has expired.
    NoHold,
    /// The grant or credential is not on record here.
    NotHere,
    /// The store failed.
    Control(ControlError),
}

impl From<ControlError> for StandingFault {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

impl From<CredentialFault> for StandingFault {
    fn from(fault: CredentialFault) -> Self {
        match fault {
            CredentialFault::Suspended => Self::Suspended,
            CredentialFault::Deleted => Self::Deleted,
            CredentialFault::Control(error) => Self::Control(error),
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for StandingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "the token names a workspace that is not there",
            Self::Suspended => "the workspace is suspended",
            Self::Deleted => "the workspace is deleted",
            Self::TooOld => "the token is older than the workspace's tokens may be",
            Self::Revoked => "the token is revoked",
            Self::NoHold => "what the token was made of is revoked or over",
            Self::NotHere => "what the token was made of is not on record",
            Self::Control(error) => return error.fmt(f),
        })
    }
}

impl std::error::Error for StandingFault {}

impl Control {
    /// Returns true if a caller's credential is still active; false if the store fails.
    pub fn caller_stands(&self, caller: &Caller) -> bool {
        let Some(Shown { hold, token, .. }) = &caller.credential else { return true };
        // A key has no issue time: `tokens_not_before` of the workspace applies to tokens only.
        let (id, issued_at) =
            token.as_ref().map_or(("", u64::MAX), |token| (&token.id, token.issued_at));
        let is_over = token.as_ref().is_some_and(|token| self.now() >= token.expires_at);
        !is_over && self.standing(&caller.workspace, hold, id, issued_at).is_ok()
    }

    /// Introspects a token with a valid signature, by workspace `slug`, grant or credential `sid`, token id `jti`, and
    /// issue time `issued_at` (`iat`, in seconds since 1970).
    ///
    /// # Errors
    /// The reason for which the token is inactive.
    pub fn standing(
        &self,
        slug: &str,
        sid: &str,
        jti: &str,
        issued_at: u64,
    ) -> Result<Standing, StandingFault> {
        let now = self.now();
        self.read(|view| {
            let tenant = active_tenant(view, slug)?;
            if issued_at < tenant.tokens_not_before {
                return Err(StandingFault::TooOld);
            }
            if view.find::<Revoked>(jti.as_bytes())?.is_some() {
                return Err(StandingFault::Revoked);
            }
            let hold = if sid.starts_with(grants::ID_START) {
                let grant = find_grant(view, slug, sid)?.ok_or(StandingFault::NotHere)?;
                if !grant.is_good(now) || !may_use(view, &grant.client)? {
                    return Err(StandingFault::NoHold);
                }
                Hold::Grant(grant)
            } else {
                let (_, credential) = find_by_id(view, slug, sid)?.ok_or(StandingFault::NotHere)?;
                if credential.check(now).is_err() {
                    return Err(StandingFault::NoHold);
                }
                Hold::Credential(credential)
            };
            Ok(Standing { tenant, hold })
        })
    }

    /// Revokes one access token of a workspace, with the expiry `expires_at`. If [`REVOKED_MAX`] tokens are on record,
    /// all access tokens of that workspace are ended instead: its clients refresh theirs, and other workspaces are
    /// unaffected.
    ///
    /// # Errors
    /// `Refused` if `jti` is not a word; otherwise a store error.
    pub fn revoke_token(&self, slug: &str, jti: &str, expires_at: u64) -> Result<(), ControlError> {
        check_word("jti", jti)?;
        let is_full = self.write(|change| {
            if change.count(Revoked::TABLE)? >= REVOKED_MAX {
                self.sweep_in(change)?;
            }
            if change.count(Revoked::TABLE)? >= REVOKED_MAX {
                return Ok::<_, ControlError>(true);
            }
            change.put(jti.as_bytes(), &Revoked { expires_at }).map(|()| false)
        })?;
        if is_full { self.end_tokens(slug).map(drop) } else { Ok(()) }
    }
}
