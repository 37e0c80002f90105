//! `POST /revoke` (RFC 7009): a token ends.
//!
//! Owns which token of which client ends. Whoever asks learns nothing of tokens that are not its own: each answer is
//! the same.

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

/// The operation in the ledger.
const OPERATION: &str = "oauth/revoke";

/// What is to end: of which workspace, and whose it is.
struct Ending {
    workspace: String,
    principal: String,
    /// The credential by which it was had.
    credential: String,
    what: What,
}

/// Which kind of token.
enum What {
    /// Its id, and when it would have expired, in seconds since 1970.
    Access {
        id: String,
        expires_at: u64,
    },
    Refresh,
}

/// Answers `POST /revoke`.
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
    // No refresh token has a dot in it, and every access token has two: a hint tells nothing more.
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
    // What ended before, by itself or with what it hangs on, is not ended once more.
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

/// Ends a token. Its entry is on disk before: what has ended once is not found again by whoever asks again, and would
/// never have one.
fn end(
    context: &OAuthContext<'_>,
    token: &str,
    client: &str,
    ending: &Ending,
) -> Result<(), NoAnswer> {
    let tenant = context.control.find_tenant(&ending.workspace).map_err(|_| unavailable())?;
    // Of one that is deleted no token is good.
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
