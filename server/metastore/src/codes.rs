//! Authorization codes: issued for a key, redeemed once (CTL-40, CTL-42).

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::clients::{check_id, may_use, touch};
use super::credentials::{
    CredentialFault, CredentialState, Kind, active_tenant, end_of_key, find_by_id, presented, spend,
};
use super::error::ControlError;
use super::grants::{Grant, Holder, ID_START, REFRESH_SECONDS, find_grant, put_new};
use super::hash::{Hash, hex};
use super::record::Record;
use super::schema::{self, TableEntry};
use super::store::Control;
use super::table::{Change, Look};
use super::tenants::Tenant;
use super::text::{ADDRESS_BYTES_MAX, are_within, check_line, check_scopes, check_word};
use recalld_auth::Prefix;
use recalld_common::secret::Secret;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of codes. Each code is a sign-in of the last day.
    pub const CODES_MAX: u64 = 100_000;
}

/// Lifetime of a code in seconds.
const CODE_SECONDS: u64 = 60;
/// Retention of a code in seconds (one day), so that a replay of a redeemed code is distinguished from a guess.
const KEPT_SECONDS: u64 = 24 * 3_600;
const GRANT_ID_BYTES: usize = 16;

/// An authorization code: its future grant, and the values that the redemption must match.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Code {
    tenant: String,
    principal: String,
    client: String,
    credential: String,
    scopes: Vec<String>,
    resource: String,
    redirect_uri: String,
    challenge: String,
    expires_at: u64,
    #[serde(default)]
    grant: Option<String>,
}

impl Record for Code {
    const ENTRY: TableEntry = schema::CODES;

    fn removed_at(&self) -> Option<u64> {
        let kept = self.grant.as_ref().map_or(0, |_| KEPT_SECONDS);
        Some(self.expires_at.saturating_add(kept))
    }
}

/// The request that a person approved on the sign-in page, and the presented key.
#[derive(Clone, Copy)]
pub struct CodeRequest<'a> {
    /// The workspace entered on the page.
    pub tenant: &'a str,
    /// The presented key: a one-time key, or a user key of the free tier.
    pub key: &'a [u8],
    /// The requesting client.
    pub client: &'a str,
    /// The redirect URI that receives the code.
    pub redirect_uri: &'a str,
    /// `code_challenge` by S256 (RFC 7636).
    pub challenge: &'a str,
    /// The approved scopes.
    pub scopes: &'a [String],
    /// `resource` of the request: the API for which tokens are issued (RFC 8707).
    pub resource: &'a str,
}

/// The parameters of a client's redemption request.
#[derive(Clone, Copy)]
pub struct Redemption<'a> {
    /// The code.
    pub code: &'a [u8],
    /// The client.
    pub client: &'a str,
    /// `redirect_uri`; must equal that of the authorization request.
    pub redirect_uri: &'a str,
    /// `code_verifier` (RFC 7636); the caller checks its form.
    pub verifier: &'a str,
    /// `resource`, if given (RFC 8707).
    pub resource: Option<&'a str>,
}

struct Redeemable {
    code: Code,
    tenant: Tenant,
    /// Expiry of the code's key, in seconds since 1970.
    ends_at: u64,
}

/// Result of a redemption.
pub struct Redeemed {
    /// The grant.
    pub grant: Grant,
    /// The workspace of the grant.
    pub tenant: Tenant,
    /// The first refresh token of the grant.
    pub refresh: Secret,
}

/// Reason for which no code was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SignInError {
    /// The key is not valid in this workspace.
    Key(CredentialFault),
    /// The client is revoked.
    WrongClient,
    /// A requested scope is not one of the key's scopes.
    WiderScope,
    /// The store failed, or a field is invalid.
    Control(ControlError),
}

impl From<ControlError> for SignInError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

impl From<CredentialFault> for SignInError {
    fn from(fault: CredentialFault) -> Self {
        match fault {
            CredentialFault::Control(error) => Self::Control(error),
            fault => Self::Key(fault),
        }
    }
}

impl fmt::Display for SignInError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(fault) => fault.fmt(f),
            Self::WrongClient => f.write_str("the client is revoked"),
            Self::WiderScope => f.write_str("the key is not good for all of these scopes"),
            Self::Control(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SignInError {}

/// Reason for which a code cannot be redeemed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedeemError {
    /// The code was never issued, or its retention is over.
    Unknown,
    /// The 60 seconds of the code are over.
    Expired,
    /// The code was redeemed before, and the repeated request matches it. [`Control::redeem_code`] then revokes the
    /// grant; [`Control::may_redeem`] does not.
    Replayed,
    /// The code was issued to another client, or the client is revoked.
    WrongClient,
    /// The code was sent to another redirect URI.
    WrongRedirect,
    /// The code is for another resource.
    WrongResource,
    /// The verifier does not match the code challenge.
    WrongVerifier,
    /// The key of the code was revoked or has expired, or the grant was revoked.
    Revoked,
    /// The workspace is suspended.
    Suspended,
    /// The workspace is deleted.
    Deleted,
    /// The store failed.
    Control(ControlError),
}

impl From<ControlError> for RedeemError {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

impl From<CredentialFault> for RedeemError {
    fn from(fault: CredentialFault) -> Self {
        match fault {
            CredentialFault::Suspended => Self::Suspended,
            CredentialFault::Deleted => Self::Deleted,
            CredentialFault::Control(error) => Self::Control(error),
            _ => Self::Revoked,
        }
    }
}

impl fmt::Display for RedeemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "no such code",
            Self::Expired => "the code has expired; sign in again",
            Self::Replayed => {
                "the code was redeemed before, so its grant is revoked; sign in again"
            }
            Self::WrongClient => "the code was given to another client",
            Self::WrongRedirect => "redirect_uri is not the one that the code was sent to",
            Self::WrongResource => "the code is for another resource",
            Self::WrongVerifier => "code_verifier is not that of the challenge",
            Self::Revoked => {
                "the key of the code is revoked or over, or its grant is; sign in again"
            }
            Self::Suspended => "the workspace is suspended",
            Self::Deleted => "the workspace is deleted",
            Self::Control(error) => return error.fmt(f),
        })
    }
}

impl std::error::Error for RedeemError {}

impl Code {
    /// Checks that a redemption request matches the code.
    fn check(&self, shown: &Redemption<'_>) -> Result<(), RedeemError> {
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(shown.verifier));
        if self.client != shown.client {
            Err(RedeemError::WrongClient)
        } else if self.redirect_uri != shown.redirect_uri {
            Err(RedeemError::WrongRedirect)
        } else if shown.resource.is_some_and(|resource| resource != self.resource) {
            Err(RedeemError::WrongResource)
        } else if !bool::from(challenge.as_bytes().ct_eq(self.challenge.as_bytes())) {
            Err(RedeemError::WrongVerifier)
        } else {
            Ok(())
        }
    }
}

impl Control {
    /// Issues a code, valid for 60 seconds, for a valid key of this workspace. A one-time key is spent in the same
    /// transaction.
    ///
    /// # Errors
    /// The reason for which no code was issued; the key is then unchanged.
    pub fn put_code(
        &self,
        request: &CodeRequest<'_>,
        prefix: &Prefix,
    ) -> Result<Secret, SignInError> {
        check_id(request.client)?;
        check_line("redirect_uri", request.redirect_uri, ADDRESS_BYTES_MAX)?;
        check_line("resource", request.resource, ADDRESS_BYTES_MAX)?;
        check_word("code_challenge", request.challenge)?;
        check_scopes(request.scopes)?;
        let (key, now) = (Hash::of(request.key), self.now());
        let secret = self.secret(&format!("{}_code_", prefix.as_str()));
        self.write(|change| {
            let kinds = [Kind::Once, Kind::User];
            let (credential, tenant) = presented(change, &key, &kinds, now)?;
            if tenant.slug != request.tenant {
                return Err(CredentialFault::Unknown.into());
            }
            if !may_use(change, request.client)? {
                return Err(SignInError::WrongClient);
            }
            if !are_within(request.scopes, &credential.scopes) {
                return Err(SignInError::WiderScope);
            }
            if change.count(Code::TABLE)? >= CODES_MAX {
                self.sweep_in(change)?;
            }
            if change.count(Code::TABLE)? >= CODES_MAX {
                let why = format!(
                    "there are {CODES_MAX}, each of a sign-in of the last day; try again later"
                );
                return Err(ControlError::refused("codes", why).into());
            }
            let code = Code {
                tenant: tenant.slug,
                principal: credential.principal(),
                client: request.client.to_owned(),
                credential: credential.id.clone(),
                scopes: request.scopes.to_vec(),
                resource: request.resource.to_owned(),
                redirect_uri: request.redirect_uri.to_owned(),
                challenge: request.challenge.to_owned(),
                expires_at: now.saturating_add(CODE_SECONDS),
                grant: None,
            };
            if credential.kind == Kind::Once {
                spend(change, &key, credential, now)?;
            }
            change.put(Hash::of(secret.expose().as_bytes()).bytes(), &code)?;
            touch(change, request.client, now)?;
            Ok(())
        })?;
        Ok(secret)
    }

    /// The holder of a code, valid or not. Changes nothing.
    ///
    /// # Errors
    /// A store error.
    pub fn holder_of_code(&self, code: &[u8]) -> Result<Option<Holder>, ControlError> {
        let found: Option<Code> = self.read(|view| view.find(Hash::of(code).bytes()))?;
        Ok(found.map(|code| Holder {
            tenant: code.tenant,
            principal: code.principal,
            scopes: code.scopes,
            credential: code.credential,
        }))
    }

    /// Checks that a code can be redeemed now. Changes nothing.
    ///
    /// # Errors
    /// The reason for which the code cannot be redeemed; `Replayed` if a redemption would revoke a grant.
    pub fn may_redeem(&self, shown: &Redemption<'_>) -> Result<(), RedeemError> {
        let (hash, now) = (Hash::of(shown.code), self.now());
        self.read(|view| redeemable(view, &hash, shown, now).map(drop))
    }

    /// Redeems a code for a grant and its first refresh token. If several requests run concurrently, one succeeds
    /// (CTL-42).
    ///
    /// # Errors
    /// The reason for the failure. A replay that matches the code revokes the grant; any other failure changes nothing.
    pub fn redeem_code(
        &self,
        shown: &Redemption<'_>,
        prefix: &Prefix,
    ) -> Result<Redeemed, RedeemError> {
        let (hash, now) = (Hash::of(shown.code), self.now());
        let id = format!("{ID_START}{}", hex(&self.random::<GRANT_ID_BYTES>()));
        let (refresh, family) = self.new_family(prefix);
        // The inner result is an error that must still be committed, as a replay revokes the grant.
        self.write(|change| -> Result<_, RedeemError> {
            let redeemable = redeemable(change, &hash, shown, now);
            if redeemable.as_ref().err() == Some(&RedeemError::Replayed) {
                end_replayed(change, &hash, now)?;
                return Ok(Err(RedeemError::Replayed));
            }
            let Redeemable { mut code, tenant, ends_at } = redeemable?;
            code.grant = Some(id.clone());
            change.put(hash.bytes(), &code)?;
            let grant = Grant {
                tenant: code.tenant,
                id,
                principal: code.principal,
                client: code.client,
                credential: code.credential,
                scopes: code.scopes,
                resource: code.resource,
                made_at: now,
                expires_at: now.saturating_add(REFRESH_SECONDS).min(ends_at),
                revoked_at: None,
                number: 0,
                family,
                refresh: Hash::of(refresh.expose().as_bytes()),
            };
            put_new(change, &grant, now)?;
            touch(change, &grant.client, now)?;
            Ok(Ok(Redeemed { grant, tenant, refresh }))
        })?
    }
}

/// Validates a redemption request at `now`.
fn redeemable(
    look: &impl Look,
    hash: &Hash,
    shown: &Redemption<'_>,
    now: u64,
) -> Result<Redeemable, RedeemError> {
    let found: Option<Code> = look.find(hash.bytes())?;
    let code = found.ok_or(RedeemError::Unknown)?;
    code.check(shown)?;
    if let Some(grant) = &code.grant {
        // A grant that is already revoked cannot be revoked again.
        let grant = find_grant(look, &code.tenant, grant)?;
        let stands = grant.is_some_and(|grant| grant.revoked_at.is_none());
        return Err(if stands { RedeemError::Replayed } else { RedeemError::Revoked });
    }
    if now >= code.expires_at {
        return Err(RedeemError::Expired);
    }
    let tenant = active_tenant(look, &code.tenant)?;
    let key = find_by_id(look, &code.tenant, &code.credential)?;
    let is_revoked = |state| state == CredentialState::Revoked;
    let ends_at = end_of_key(look, &code.tenant, &code.credential)?;
    if ends_at <= now || key.is_none_or(|(_, key)| is_revoked(key.state)) {
        return Err(RedeemError::Revoked);
    }
    if !may_use(look, &code.client)? {
        return Err(RedeemError::WrongClient);
    }
    Ok(Redeemable { code, tenant, ends_at })
}

/// Revokes the grant of a replayed code.
fn end_replayed(change: &Change<'_>, hash: &Hash, now: u64) -> Result<(), ControlError> {
    let Some(Code { tenant, grant: Some(grant), .. }) = change.find(hash.bytes())? else {
        return Ok(());
    };
    if let Some(mut grant) = find_grant(change, &tenant, &grant)? {
        grant.revoked_at = grant.revoked_at.or(Some(now));
        change.put(&grant.key(), &grant)?;
    }
    Ok(())
}
