//! `POST /revoke`: token revocation (RFC 7009).
//!
//! A caller can revoke only tokens issued to the caller. The response is the same for every token, so nothing is
//! revealed about others' tokens.

use engine::ledger::{Decision, Outcome};
use serde_json::json;

use super::asker::{NoAnswer, revoker, slow, unavailable};
use super::error::untold;
use super::form::Form;
use crate::authority::{Authority, NoToken};
use crate::context::OAuthContext;
use recalld_audit::BY_SCOPE;
use recalld_audit::{Trace, hash_call};
use recalld_http_server::refusal::Refusal;
use recalld_http_server::{Call, Response};
use recalld_metastore::{Hold, Standing, StandingFault, TenantState};
use recalld_policy::identity::in_ledger;

/// Operation of the audit entry.
const OPERATION: &str = "oauth/revoke";

/// A token to revoke, with its workspace and principal.
struct Ending {
    workspace: String,
    principal: String,
    /// Id of the credential behind the token.
    credential: String,
    what: What,
}

enum What {
    /// Token id, and expiry in seconds since the Unix epoch.
    Access {
        id: String,
        expires_at: u64,
    },
    Refresh,
}

/// Handles `POST /revoke`.
pub fn revoke(context: &OAuthContext<'_>, call: &Call) -> Response {
    let Some(authority) = context.authority else {
        return Refusal::new(404, "Not Found").into();
    };
    let answer = answer(context, authority, call).unwrap_or_else(Response::from);
    answer.header("Access-Control-Allow-Origin", "*")
}

fn answer(
    context: &OAuthContext<'_>,
    authority: &Authority,
    call: &Call,
) -> Result<Response, NoAnswer> {
    let form = Form::of_body(call.request.headers.get_all("content-type"), &call.request.body)?;
    let client = revoker(context, authority, call, &form)?;
    let token = form.need("token")?;
    // Refresh tokens contain no dot, access tokens two: `token_type_hint` adds no information.
    let ending = match token.contains('.') {
        true => of_access(context, authority, token, &client)?,
        false => of_refresh(context, token, &client)?,
    };
    if let Some(ending) = ending {
        end(context, token, &client, &ending)?;
    }
    Ok(untold(Response::empty(200)))
}

fn of_access(
    context: &OAuthContext<'_>,
    authority: &Authority,
    token: &str,
    client: &str,
) -> Result<Option<Ending>, NoAnswer> {
    let claims = match authority.claims(context.control, token, context.clock.now()) {
        Ok(claims) if claims.client == client => claims,
        Ok(_) | Err(NoToken::Refused(_)) => return Ok(None),
        Err(NoToken::Unavailable(_)) => return Err(unavailable().into()),
    };
    // A token that is already inactive, by itself or with its grant, is not revoked again.
    let (workspace, sid) = (&claims.workspace, &claims.hangs_on);
    let credential = match context.control.standing(workspace, sid, &claims.id, claims.issued_at) {
        Ok(Standing { hold: Hold::Grant(grant), .. }) => grant.credential,
        Ok(Standing { hold: Hold::Credential(credential), .. }) => credential.id,
        Err(StandingFault::Suspended) => sid.clone(),
        Err(StandingFault::Control(_)) => return Err(unavailable().into()),
        Err(_) => return Ok(None),
    };
    Ok(Some(Ending {
        workspace: workspace.clone(),
        principal: claims.subject.clone(),
        credential,
        what: What::Access { id: claims.id.clone(), expires_at: claims.expires_at },
    }))
}

fn of_refresh(
    context: &OAuthContext<'_>,
    token: &str,
    client: &str,
) -> Result<Option<Ending>, NoAnswer> {
    let holder = context.control.revocable(token.as_bytes(), client).map_err(|_| unavailable())?;
    Ok(holder.map(|holder| Ending {
        workspace: holder.tenant,
        principal: holder.principal,
        credential: holder.credential,
        what: What::Refresh,
    }))
}

/// Revokes a token. The audit entry is durable first: once revoked, the token is no longer found by a retry, so a later
/// entry would never be written.
fn end(
    context: &OAuthContext<'_>,
    token: &str,
    client: &str,
    ending: &Ending,
) -> Result<(), NoAnswer> {
    let tenant = context.control.find_tenant(&ending.workspace).map_err(|_| unavailable())?;
    // Tokens of a deleted workspace are already invalid.
    let Some(tenant) = tenant.filter(|it| it.state != TenantState::Deleted) else { return Ok(()) };
    slow(context, &tenant, &ending.credential)?;
    let workspace = context.tenants.open(&tenant.slug).map_err(|_| unavailable())?;
    let recorded = workspace.audit.record(&ending.trace(client), true);
    recorded.map_err(|_| unavailable())?;
    let ended = match &ending.what {
        What::Access { id, expires_at } => {
            context.control.revoke_token(&tenant.slug, id, *expires_at)
        }
        What::Refresh => context.control.revoke_refresh(token.as_bytes(), client).map(drop),
    };
    ended.map_err(|_| unavailable().into())
}

impl Ending {
    fn trace(&self, client: &str) -> Trace {
        let what = match self.what {
            What::Access { .. } => "access_token",
            What::Refresh => "refresh_token",
        };
        Trace {
            tool: OPERATION,
            principal: in_ledger(None, &self.principal),
            arguments: hash_call(OPERATION, &json!({"token": what, "client": client})),
            decision: Decision::Allow,
            rule: BY_SCOPE.to_owned(),
            touched: Vec::new(),
            outcome: Outcome::Done,
        }
    }
}
