//! Client authentication at `/token` and `/revoke`: a client by id and secret, or a workspace by slug and key.
//!
//! Failed guesses of secrets, codes and tokens are throttled here, independent of the requested grant.

use std::time::Instant;

use super::client_auth::ShownClient;
use super::client_document::ClientUrl;
use super::error::{ErrorCode, OAuthError};
use super::form::Form;
use super::known_client::{ClientTrouble, KnownClient, known_client};
use crate::authority::Authority;
use crate::context::OAuthContext;
use recalld_http_server::{Call, Response};
use recalld_metastore::{Credential, CredentialFault, Kind, Tenant};
use recalld_policy::rate::key_of;

/// Error of the token endpoint: nothing is issued.
pub(super) enum NoAnswer {
    Error(OAuthError),
    /// Too many failed guesses or requests: seconds until the caller may retry.
    TooMany(u32),
}

impl From<OAuthError> for NoAnswer {
    fn from(error: OAuthError) -> Self {
        Self::Error(error)
    }
}

impl From<NoAnswer> for Response {
    fn from(why: NoAnswer) -> Self {
        match why {
            NoAnswer::Error(error) => error.response(),
            NoAnswer::TooMany(wait) => OAuthError::too_many(wait),
        }
    }
}

pub(super) fn unavailable() -> OAuthError {
    OAuthError::new(ErrorCode::TemporarilyUnavailable, "tokens cannot be issued now; try again")
}

pub(super) fn invalid_grant(why: &str) -> OAuthError {
    OAuthError::new(ErrorCode::InvalidGrant, why)
}

/// Counts a failed credential. Returns the error, or [`NoAnswer::TooMany`] if the login throttle is exhausted (GOV-04).
/// A `temporarily_unavailable` error is a server fault and is not counted.
pub(super) fn guessed(context: &OAuthContext<'_>, why: OAuthError) -> NoAnswer {
    slowed(context, None, why)
}

fn slowed(context: &OAuthContext<'_>, workspace: Option<&str>, why: OAuthError) -> NoAnswer {
    if why.code() == ErrorCode::TemporarilyUnavailable {
        return why.into();
    }
    counted(context, workspace, why)
}

fn counted(context: &OAuthContext<'_>, workspace: Option<&str>, why: OAuthError) -> NoAnswer {
    let (peer, now) = (context.client_address, Instant::now());
    let budget = context.guesses.check(peer, workspace, now);
    context.guesses.failed(peer, workspace, now);
    match budget {
        Ok(()) => why.into(),
        Err(wait) => NoAnswer::TooMany(wait.seconds),
    }
}

/// Authenticates the client: registered or known by its metadata document, with its secret if the client has one.
///
/// # Errors
/// `invalid_client`, or an error of the client lookup.
pub(super) fn registered(
    context: &OAuthContext<'_>,
    authority: &Authority,
    call: &Call,
    form: &Form,
) -> Result<KnownClient, NoAnswer> {
    let shown = ShownClient::read(call.request.headers.get_all("authorization"), form)?;
    proven(context, authority, (&shown, None))
}

/// Authenticates parsed credentials. `workspace` is the named workspace if the secret may have been meant as its key: a
/// wrong secret then counts against that workspace, too.
fn proven(
    context: &OAuthContext<'_>,
    authority: &Authority,
    (shown, workspace): (&ShownClient, Option<&str>),
) -> Result<KnownClient, NoAnswer> {
    let wrong = |why: &str| OAuthError::new(ErrorCode::InvalidClient, why).by_basic(shown.by_basic);
    let client = match known_client(context, authority, (&shown.id, context.client_address)) {
        Ok(client) => client,
        Err(ClientTrouble::Unknown) => return Err(slowed(context, workspace, wrong(UNKNOWN))),
        Err(trouble) => {
            let is_guess = trouble.is_guess();
            let why = OAuthError::from(trouble).by_basic(shown.by_basic);
            // A transient failure counts, too: an unreachable host may be reachable by this server only.
            return Err(if is_guess { counted(context, None, why) } else { why.into() });
        }
    };
    match (&shown.secret, client.auth_method.has_secret()) {
        (None, false) => Ok(client),
        (Some(secret), true) if client.is_secret(secret.expose().as_bytes()) => Ok(client),
        (None, true) => Err(wrong("the client has a secret, and did not show it").into()),
        (Some(_), false) => Err(wrong("the client is registered without a secret").into()),
        (Some(_), true) => Err(slowed(context, workspace, wrong(UNKNOWN))),
    }
}

/// A single message for an unknown client and a wrong secret, so that client ids cannot be probed.
const UNKNOWN: &str = "the client or its secret is wrong";

/// Authenticates a workspace by its slug and workspace key.
///
/// # Errors
/// `invalid_client`, `unauthorized_client` for a registered client, or `temporarily_unavailable`.
pub(super) fn workspace_of_key(
    context: &OAuthContext<'_>,
    client: &ShownClient,
) -> Result<(Credential, Tenant), NoAnswer> {
    let secret = client.secret.as_ref().map(|secret| secret.expose().as_bytes());
    let found = context.control.find_credential(secret.unwrap_or_default(), &[Kind::Workspace]);
    let refused =
        |why: &str| OAuthError::new(ErrorCode::InvalidClient, why).by_basic(client.by_basic);
    match found {
        Ok((credential, tenant)) if tenant.slug == client.id => Ok((credential, tenant)),
        Err(CredentialFault::Suspended) => Err(refused("the workspace is suspended").into()),
        Err(CredentialFault::Control(error)) if error.is_fault() => Err(unavailable().into()),
        _ if is_client(context, client) => {
            let said = "client_credentials is for workspaces, by their slug and key";
            Err(OAuthError::new(ErrorCode::UnauthorizedClient, said).into())
        }
        _ => {
            let why = refused("the workspace or its key is wrong");
            Err(slowed(context, Some(&client.id), why))
        }
    }
}

/// Returns true if the credentials belong to a client rather than to a workspace: its secret matches, or the client has
/// none. No metadata document is fetched for this check.
fn is_client(context: &OAuthContext<'_>, shown: &ShownClient) -> bool {
    if ClientUrl::is_meant(&shown.id) {
        return shown.secret.is_none();
    }
    let Ok(client) = context.control.find_client(&shown.id) else { return false };
    match &shown.secret {
        Some(secret) => client.is_secret(secret.expose().as_bytes()),
        None => client.secret.is_none(),
    }
}

/// Authenticates the caller of `/revoke`. Returns a client id or a workspace slug.
///
/// # Errors
/// `invalid_client`, or an error of the client lookup.
pub(super) fn revoker(
    context: &OAuthContext<'_>,
    authority: &Authority,
    call: &Call,
    form: &Form,
) -> Result<String, NoAnswer> {
    let shown = ShownClient::read(call.request.headers.get_all("authorization"), form)?;
    let secret = shown.secret.as_ref().map(|secret| secret.expose().as_bytes());
    if let Some(secret) = secret
        && let Ok((_, tenant)) = context.control.find_credential(secret, &[Kind::Workspace])
        && tenant.slug == shown.id
    {
        return Ok(tenant.slug);
    }
    let workspace = secret.map(|_| shown.id.as_str());
    proven(context, authority, (&shown, workspace)).map(|client| client.id)
}

/// Takes one token from the credential's bucket for authorization server requests. The rate is the call rate of the
/// workspace's plan.
pub(super) fn slow(
    context: &OAuthContext<'_>,
    tenant: &Tenant,
    credential: &str,
) -> Result<(), NoAnswer> {
    let plan = context.config.plans.find(&tenant.plan).ok_or_else(unavailable)?;
    let Some(rate) = plan.rate else { return Ok(()) };
    let bucket = key_of(format!("tokens/{}/{credential}", tenant.slug).as_bytes());
    let taken = context.rates.take(&bucket, rate, Instant::now());
    taken.map_err(|wait| NoAnswer::TooMany(wait.seconds))
}
