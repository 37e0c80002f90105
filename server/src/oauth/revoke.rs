//! `POST /revoke` (RFC 7009): a token ends.
//!
//! Owns which token of which client ends. Whoever asks learns nothing of tokens that are not its own: each answer is
//! the same.

use engine::ledger::{Decision, Outcome};
use serde_json::json;

use super::asker::{NoAnswer, revoker, unavailable};
use super::error::untold;
use super::form::Form;
use crate::authority::{Authority, NoToken};
use crate::control::StandingFault;
use crate::govern::{Trace, hash_arguments};
use crate::net::{Call, Response};
use crate::parts::Parts;
use crate::pipeline::Refusal;
use crate::tools::BY_SCOPE;

/// The operation in the ledger.
const OPERATION: &str = "oauth/revoke";

/// What ended: of which workspace, and whose it was.
struct Ended {
    workspace: String,
    principal: String,
    what: &'static str,
}

/// Answers `POST /revoke`.
pub fn revoke(parts: &Parts, call: &Call) -> Response {
    let Some(authority) = &parts.authority else {
        return Refusal::new(404, "Not Found").into();
    };
    let answer = answer(parts, authority, call).unwrap_or_else(Response::from);
    answer.header("Access-Control-Allow-Origin", "*")
}

fn answer(parts: &Parts, authority: &Authority, call: &Call) -> Result<Response, NoAnswer> {
    let form = Form::of_body(call.request.headers.get_all("content-type"), &call.request.body)?;
    let client = revoker(parts, authority, call, &form)?;
    let token = form.need("token")?;
    // No refresh token has a dot in it, and every access token has two: a hint tells nothing more.
    let ended = match token.contains('.') {
        true => end_access(parts, authority, token, &client)?,
        false => end_refresh(parts, token, &client)?,
    };
    if let Some(ended) = ended {
        record(parts, &client, &ended)?;
    }
    Ok(untold(Response::empty(200)))
}

fn end_access(
    parts: &Parts,
    authority: &Authority,
    token: &str,
    client: &str,
) -> Result<Option<Ended>, NoAnswer> {
    let claims = match authority.claims(&parts.control, token, parts.clock.now()) {
        Ok(claims) if claims.client == client => claims,
        Ok(_) | Err(NoToken::Refused(_)) => return Ok(None),
        Err(NoToken::Unavailable(_)) => return Err(unavailable().into()),
    };
    // What ended before, by itself or with what it hangs on, is not ended once more.
    let (workspace, sid) = (&claims.workspace, &claims.hangs_on);
    match parts.control.standing(workspace, sid, &claims.id, claims.issued_at) {
        Ok(_) | Err(StandingFault::Suspended) => {}
        Err(StandingFault::Control(_)) => return Err(unavailable().into()),
        Err(_) => return Ok(None),
    }
    let revoked = parts.control.revoke_token(&claims.id, claims.expires_at);
    revoked.map_err(|_| unavailable())?;
    Ok(Some(Ended {
        workspace: claims.workspace.clone(),
        principal: claims.subject.clone(),
        what: "access_token",
    }))
}

fn end_refresh(parts: &Parts, token: &str, client: &str) -> Result<Option<Ended>, NoAnswer> {
    let holder = parts.control.holder_of_refresh(token.as_bytes()).map_err(|_| unavailable())?;
    let ended = parts.control.revoke_refresh(token.as_bytes(), client);
    let ended = ended.map_err(|_| unavailable())?;
    Ok(holder.filter(|_| ended).map(|holder| Ended {
        workspace: holder.tenant,
        principal: holder.principal,
        what: "refresh_token",
    }))
}

/// The entry in the workspace's ledger, on disk before the answer leaves. What ended has ended, whether or not it can
/// be written; who is told 503 asks again.
fn record(parts: &Parts, client: &str, ended: &Ended) -> Result<(), NoAnswer> {
    let arguments = json!({"token": ended.what, "client": client});
    let trace = Trace {
        tool: OPERATION,
        principal: ended.principal.clone(),
        arguments: hash_arguments(&json!({"tool": OPERATION, "arguments": arguments})),
        decision: Decision::Allow,
        rule: BY_SCOPE.to_owned(),
        touched: Vec::new(),
        outcome: Outcome::Done,
    };
    let workspace = parts.tenants.open(&ended.workspace).map_err(|_| unavailable())?;
    workspace.audit.record(&trace, true).map(drop).map_err(|_| unavailable().into())
}
