//! An authorization code becomes a grant (RFC 6749, section 4.1.3; RFC 7636, section 4.5).

use engine::ledger::Outcome;
use serde_json::json;

use super::Asked;
use super::issue::Making;
use crate::control::{RedeemError, Redemption};
use crate::net::Response;
use crate::oauth::asker::{NoAnswer, guessed, invalid_grant, registered, unavailable};
use crate::oauth::error::{ErrorCode, OAuthError};
use crate::oauth::pkce;

const GRANT_TYPE: &str = "authorization_code";

pub(super) fn answer(asked: &Asked<'_>) -> Result<Response, NoAnswer> {
    let (form, control) = (asked.form, &asked.parts.control);
    let client = registered(asked.parts, asked.authority, asked.call, form)?;
    let shown = Redemption {
        code: form.need("code")?.as_bytes(),
        client: &client.id,
        redirect_uri: form.need("redirect_uri")?,
        verifier: pkce::verifier(form)?,
        resource: asked.resource()?,
    };
    let holder = control.holder_of_code(shown.code).map_err(|_| unavailable())?;
    let Some(holder) = holder else {
        return Err(guessed(asked.parts, asked.call, refused(&RedeemError::Unknown)));
    };
    let Some(workspace) = asked.open(&holder.tenant)? else {
        return Err(refused(&RedeemError::Deleted).into());
    };
    asked.left(&holder)?;
    let redeemed = match control.redeem_code(&shown, &asked.parts.config.oauth.key_prefix) {
        Ok(redeemed) => redeemed,
        Err(error) => {
            if error == RedeemError::Replayed {
                let arguments = json!({"grant_type": GRANT_TYPE, "client": client.id});
                asked.record(&workspace, &holder.principal, Outcome::Refused, &arguments)?;
            }
            return Err(guessed(asked.parts, asked.call, refused(&error)));
        }
    };
    let grant = &redeemed.grant;
    let scopes = grant.scopes.iter().map(String::as_str);
    Ok(asked.issue(&Making {
        grant_type: GRANT_TYPE,
        workspace: &workspace,
        client: &grant.client,
        principal: &grant.principal,
        hangs_on: &grant.id,
        granted: &asked.under_plan(scopes, &redeemed.tenant)?,
        refresh: Some(&redeemed.refresh),
    })?)
}

fn refused(error: &RedeemError) -> OAuthError {
    match error {
        RedeemError::WrongResource => OAuthError::new(ErrorCode::InvalidTarget, &error.to_string()),
        RedeemError::Control(error) if error.is_fault() => unavailable(),
        _ => invalid_grant(&error.to_string()),
    }
}
