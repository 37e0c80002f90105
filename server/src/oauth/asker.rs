//! Who asks at `/token` and `/revoke`: a client that is known and showed its secret, or a workspace by its key.
//!
//! Owns that a secret is the right one, and that guessing at one, or at a code or token, is slowed. Must not know
//! what is asked for.

use std::time::Instant;

use super::client_auth::ShownClient;
use super::error::{ErrorCode, OAuthError, untold};
use super::form::Form;
use super::known_client::{ClientTrouble, KnownClient, known_client};
use crate::authority::Authority;
use crate::control::{Credential, CredentialFault, Kind, Tenant};
use crate::net::{Call, Response};
use crate::parts::Parts;
use crate::pipeline::Refusal;

/// Why nothing is given.
pub(super) enum NoAnswer {
    Error(OAuthError),
    /// Whoever guesses too often waits so many seconds.
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
            NoAnswer::TooMany(wait) => untold(Refusal::too_many(wait).into()),
        }
    }
}

pub(super) fn unavailable() -> OAuthError {
    OAuthError::new(ErrorCode::TemporarilyUnavailable, "tokens cannot be issued now; try again")
}

pub(super) fn invalid_grant(why: &str) -> OAuthError {
    OAuthError::new(ErrorCode::InvalidGrant, why)
}

/// What was shown was wrong: the refusal, or that whoever shows wrong things so often has to wait (GOV-04). A fault of
/// ours is nobody's guess.
pub(super) fn guessed(parts: &Parts, call: &Call, why: OAuthError) -> NoAnswer {
    slowed(parts, call, None, why)
}

fn slowed(parts: &Parts, call: &Call, workspace: Option<&str>, why: OAuthError) -> NoAnswer {
    if why.code() == ErrorCode::TemporarilyUnavailable {
        return why.into();
    }
    let (peer, now) = (call.peer.ip(), Instant::now());
    let budget = parts.guesses.check(peer, workspace, now);
    parts.guesses.failed(peer, workspace, now);
    match budget {
        Ok(()) => why.into(),
        Err(wait) => NoAnswer::TooMany(wait.seconds),
    }
}

/// The client that asks: registered, or a document of its own; with its secret, if it has one.
///
/// # Errors
/// `invalid_client`, or what stands in the way of knowing.
pub(super) fn registered(
    parts: &Parts,
    authority: &Authority,
    call: &Call,
    form: &Form,
) -> Result<KnownClient, NoAnswer> {
    let shown = ShownClient::read(call.request.headers.get_all("authorization"), form)?;
    proven(parts, authority, call, &shown)
}

fn proven(
    parts: &Parts,
    authority: &Authority,
    call: &Call,
    shown: &ShownClient,
) -> Result<KnownClient, NoAnswer> {
    let wrong = |why: &str| OAuthError::new(ErrorCode::InvalidClient, why).by_basic(shown.by_basic);
    let client = match known_client(parts, authority, &shown.id) {
        Ok(client) => client,
        Err(ClientTrouble::Unknown) => return Err(guessed(parts, call, wrong(UNKNOWN))),
        Err(trouble) => return Err(OAuthError::from(trouble).by_basic(shown.by_basic).into()),
    };
    match (&shown.secret, client.auth_method.has_secret()) {
        (None, false) => Ok(client),
        (Some(secret), true) if client.is_secret(secret.expose().as_bytes()) => Ok(client),
        (None, true) => Err(wrong("the client has a secret, and did not show it").into()),
        (Some(_), false) => Err(wrong("the client is registered without a secret").into()),
        (Some(_), true) => Err(guessed(parts, call, wrong(UNKNOWN))),
    }
}

/// The same words whichever of the two is wrong.
const UNKNOWN: &str = "the client or its secret is wrong";

/// The workspace key that a client shows, and its workspace.
///
/// # Errors
/// `invalid_client`, or that it cannot be known.
pub(super) fn workspace_of_key(
    parts: &Parts,
    call: &Call,
    client: &ShownClient,
) -> Result<(Credential, Tenant), NoAnswer> {
    let secret = client.secret.as_ref().map(|secret| secret.expose().as_bytes());
    let found = parts.control.find_credential(secret.unwrap_or_default(), &[Kind::Workspace]);
    let refused =
        |why: &str| OAuthError::new(ErrorCode::InvalidClient, why).by_basic(client.by_basic);
    match found {
        Ok((credential, tenant)) if tenant.slug == client.id => Ok((credential, tenant)),
        Err(CredentialFault::Suspended) => Err(refused("the workspace is suspended").into()),
        Err(CredentialFault::Control(error)) if error.is_fault() => Err(unavailable().into()),
        _ => {
            let why = refused("the workspace or its key is wrong");
            Err(slowed(parts, call, Some(&client.id), why))
        }
    }
}

/// The id of whoever may have a token revoked: a client's, or a workspace's slug.
///
/// # Errors
/// `invalid_client`, or what stands in the way of knowing.
pub(super) fn revoker(
    parts: &Parts,
    authority: &Authority,
    call: &Call,
    form: &Form,
) -> Result<String, NoAnswer> {
    let shown = ShownClient::read(call.request.headers.get_all("authorization"), form)?;
    let secret = shown.secret.as_ref().map(|secret| secret.expose().as_bytes());
    if let Some(secret) = secret
        && let Ok((_, tenant)) = parts.control.find_credential(secret, &[Kind::Workspace])
        && tenant.slug == shown.id
    {
        return Ok(tenant.slug);
    }
    proven(parts, authority, call, &shown).map(|client| client.id)
}
