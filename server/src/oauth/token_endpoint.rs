//! `POST /token`: what a client shows becomes an access token.
//!
//! Owns the grant of client credentials (RFC 6749, section 4.4): a workspace's slug and key. Must not know how a
//! token is written (`auth::token`) nor where it is asked for again (`pipeline`).

use std::time::Instant;

use engine::hex;
use engine::ledger::{Decision, Outcome};
use serde_json::json;

use super::client_auth::ShownClient;
use super::error::{ErrorCode, OAuthError, untold};
use super::form::Form;
use super::scopes::Scopes;
use crate::auth::token::Claims;
use crate::authority::{Authority, seconds};
use crate::control::{Credential, CredentialFault, Kind, Tenant};
use crate::govern::{Trace, hash_arguments};
use crate::net::{Call, Response};
use crate::parts::Parts;
use crate::pipeline::Refusal;
use crate::tools::{BY_SCOPE, Scope};

/// The operation in the ledger.
const OPERATION: &str = "oauth/token";
/// Random bytes of a token's id.
const ID_BYTES: usize = 16;

/// Why there is no token.
enum NoToken {
    Error(OAuthError),
    /// Whoever guesses too often waits so many seconds.
    TooMany(u32),
}

impl From<OAuthError> for NoToken {
    fn from(error: OAuthError) -> Self {
        Self::Error(error)
    }
}

/// Answers `POST /token`; any page may ask, since nothing is told to one that shows nothing.
pub fn token(parts: &Parts, call: &Call) -> Response {
    let Some(authority) = &parts.authority else {
        return Refusal::new(404, "Not Found").into();
    };
    let answer = match issue(parts, authority, call) {
        Ok(answer) => answer,
        Err(NoToken::Error(error)) => error.response(),
        Err(NoToken::TooMany(wait)) => Refusal::too_many(wait).into(),
    };
    answer.header("Access-Control-Allow-Origin", "*")
}

fn issue(parts: &Parts, authority: &Authority, call: &Call) -> Result<Response, NoToken> {
    let headers = &call.request.headers;
    let form = Form::of_body(headers.get_all("content-type"), &call.request.body)?;
    match form.need("grant_type")? {
        "client_credentials" => {}
        other => {
            let said = format!("the grant {other} is not given here yet; use client_credentials");
            return Err(OAuthError::new(ErrorCode::UnsupportedGrantType, &said).into());
        }
    }
    let client = ShownClient::read(headers.get_all("authorization"), &form)?;
    let resource = authority.places.asked(form.get("resource"))?.to_owned();
    let asked = form.get("scope").map_or_else(|| Ok(Scopes::everyday()), Scopes::parse)?;
    let (credential, tenant) = shown(parts, call, &client)?;
    let granted = asked.granted(&allowed(parts, &credential, &tenant)?)?;
    let (token, lives) = minted(parts, authority, &credential, &granted, resource)?;
    record(parts, &credential, &granted)?;
    let body = json!({
        "access_token": token, "token_type": "Bearer", "expires_in": lives,
        "scope": granted.to_string(),
    });
    Ok(untold(Response::json(200, body.to_string().into_bytes())))
}

/// The workspace key that a client shows, and its workspace.
fn shown(
    parts: &Parts,
    call: &Call,
    client: &ShownClient,
) -> Result<(Credential, Tenant), NoToken> {
    let secret = client.secret.as_ref().map(|secret| secret.expose().as_bytes());
    let found = parts.control.find_credential(secret.unwrap_or_default(), &[Kind::Workspace]);
    let refused =
        |why: &str| OAuthError::new(ErrorCode::InvalidClient, why).by_basic(client.by_basic);
    match found {
        Ok((credential, tenant)) if tenant.slug == client.id => Ok((credential, tenant)),
        Err(CredentialFault::Suspended) => Err(refused("the workspace is suspended").into()),
        Err(CredentialFault::Control(error)) if error.is_fault() => Err(unavailable().into()),
        _ => {
            let (peer, now) = (call.peer.ip(), Instant::now());
            let budget = parts.guesses.check(peer, Some(&client.id), now);
            parts.guesses.failed(peer, Some(&client.id), now);
            Err(match budget {
                Ok(()) => refused("the workspace or its key is wrong").into(),
                Err(wait) => NoToken::TooMany(wait.seconds),
            })
        }
    }
}

/// What the key and the plan of its workspace allow.
fn allowed(parts: &Parts, credential: &Credential, tenant: &Tenant) -> Result<Scopes, OAuthError> {
    let plan = parts.config.plans.find(&tenant.plan).ok_or_else(unavailable)?;
    let named = credential.scopes.iter().filter_map(|name| Scope::of(name));
    Ok(named.filter(|scope| plan.may_grant(*scope)).collect())
}

/// A token that hangs on the key, so that it ends with it; and how many seconds it lives.
fn minted(
    parts: &Parts,
    authority: &Authority,
    credential: &Credential,
    granted: &Scopes,
    resource: String,
) -> Result<(String, u64), OAuthError> {
    let (issued_at, lives) = (seconds(parts.clock.now()), parts.config.oauth.access_token_seconds);
    let mut id = [0; ID_BYTES];
    parts.random.fill(&mut id);
    let claims = Claims {
        audience: resource,
        client: credential.tenant.clone(),
        expires_at: issued_at + lives,
        issued_at,
        issuer: authority.places.issuer().to_owned(),
        id: hex(&id),
        scope: granted.to_string(),
        hangs_on: credential.id.clone(),
        subject: credential.principal(),
        workspace: credential.tenant.clone(),
    };
    let token = authority.mint(&parts.control, &claims).map_err(|_| unavailable())?;
    Ok((token, lives))
}

/// The entry in the workspace's ledger, on disk before the token leaves.
fn record(parts: &Parts, credential: &Credential, granted: &Scopes) -> Result<(), OAuthError> {
    let arguments = json!({"grant_type": "client_credentials", "scope": granted.to_string()});
    let trace = Trace {
        tool: OPERATION,
        principal: credential.principal(),
        arguments: hash_arguments(&json!({"tool": OPERATION, "arguments": arguments})),
        decision: Decision::Allow,
        rule: BY_SCOPE.to_owned(),
        touched: Vec::new(),
        outcome: Outcome::Done,
    };
    let workspace = parts.tenants.open(&credential.tenant).map_err(|_| unavailable())?;
    workspace.audit.record(&trace, true).map(drop).map_err(|_| unavailable())
}

fn unavailable() -> OAuthError {
    OAuthError::new(ErrorCode::TemporarilyUnavailable, "tokens cannot be issued now; try again")
}
