//! A refresh token becomes the next one, and an access token (RFC 6749, section 6; RFC 9700, section 4.14).

use engine::ledger::Outcome;
use serde_json::json;

use super::Asked;
use super::issue::Making;
use crate::control::RefreshError;
use crate::net::Response;
use crate::oauth::asker::{NoAnswer, guessed, invalid_grant, registered, unavailable};
use crate::oauth::error::{ErrorCode, OAuthError};
use crate::oauth::scopes::Scopes;

const GRANT_TYPE: &str = "refresh_token";

pub(super) fn answer(asked: &Asked<'_>) -> Result<Response, NoAnswer> {
    let (form, control) = (asked.form, &asked.parts.control);
    let client = registered(asked.parts, asked.authority, asked.call, form)?;
    let token = form.need(GRANT_TYPE)?.as_bytes();
    let resource = asked.resource()?;
    let wanted: Option<Vec<String>> = asked.scopes()?.as_ref().map(names);
    let holder = control.holder_of_refresh(token).map_err(|_| unavailable())?;
    let Some(holder) = holder else {
        return Err(guessed(asked.parts, asked.call, refused(&RefreshError::Unknown)));
    };
    let Some(workspace) = asked.open(&holder.tenant)? else {
        return Err(refused(&RefreshError::Deleted).into());
    };
    asked.left(&holder)?;
    let refreshed = match control.refresh(token, &client.id, resource, wanted.as_deref()) {
        Ok(refreshed) => refreshed,
        Err(error) => {
            if error == RefreshError::Reused {
                let arguments = json!({"grant_type": GRANT_TYPE, "client": client.id});
                asked.record(&workspace, &holder.principal, Outcome::Refused, &arguments)?;
            }
            return Err(guessed(asked.parts, asked.call, refused(&error)));
        }
    };
    let grant = &refreshed.grant;
    let scopes = refreshed.scopes.iter().map(String::as_str);
    Ok(asked.issue(&Making {
        grant_type: GRANT_TYPE,
        workspace: &workspace,
        client: &grant.client,
        principal: &grant.principal,
        hangs_on: &grant.id,
        granted: &asked.under_plan(scopes, &refreshed.tenant)?,
        refresh: Some(&refreshed.refresh),
    })?)
}

fn names(scopes: &Scopes) -> Vec<String> {
    scopes.iter().map(|scope| scope.name().to_owned()).collect()
}

fn refused(error: &RefreshError) -> OAuthError {
    let said = error.to_string();
    match error {
        RefreshError::WrongResource => OAuthError::new(ErrorCode::InvalidTarget, &said),
        RefreshError::WiderScope => OAuthError::new(ErrorCode::InvalidScope, &said),
        RefreshError::Control(error) if error.is_fault() => unavailable(),
        _ => invalid_grant(&said),
    }
}
