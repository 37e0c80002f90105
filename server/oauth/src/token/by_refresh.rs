//! Refresh token grant: rotates the refresh token and issues an access token (RFC 6749, section 6; RFC 9700, section
//! 4.14).

use super::asked::Asked;
use super::issue::{Given, Making};
use crate::asker::{NoAnswer, guessed, invalid_grant, registered, unavailable};
use crate::error::{ErrorCode, OAuthError};
use crate::scopes::Scopes;
use recalld_http_server::Response;
use recalld_metastore::RefreshError;

const GRANT_TYPE: &str = "refresh_token";

pub(super) fn answer(asked: &Asked<'_>) -> Result<Response, NoAnswer> {
    let (form, control) = (asked.form, &asked.context.control);
    let client = registered(asked.context, asked.authority, asked.call, form)?;
    let token = form.need(GRANT_TYPE)?.as_bytes();
    let resource = asked.resource()?;
    let wanted: Option<Vec<String>> = asked.scopes()?.as_ref().map(names);
    let holder = control.holder_of_refresh(token).map_err(|_| unavailable())?;
    let Some(holder) = holder else {
        return Err(guessed(asked.context, refused(&RefreshError::Unknown)));
    };
    let tenant = asked.tenant(&holder.tenant)?;
    asked.slow(&tenant, &holder.credential)?;
    let workspace = asked.open(&tenant)?;
    let mut making = Making {
        grant_type: GRANT_TYPE,
        workspace: &workspace,
        client: &client.id,
        principal: &holder.principal,
        granted: Scopes::default(),
    };
    let refresh = || control.refresh(token, &client.id, resource, wanted.as_deref());
    if let Err(error) = control.may_refresh(token, &client.id, resource, wanted.as_deref()) {
        if error == RefreshError::Reused {
            asked.record_replay(&making)?;
            // Refreshing with a reused token revokes its grant and issues nothing.
            let ended = refresh().map(drop);
            return Err(refused(ended.err().as_ref().unwrap_or(&error)).into());
        }
        return Err(refused(&error).into());
    }
    making.granted = asked.left(wanted.as_ref().unwrap_or(&holder.scopes), &tenant)?;
    asked.announce(&making)?;
    let refreshed = refresh().map_err(|error| {
        asked.record_failure(&making);
        refused(&error)
    })?;
    let grant = &refreshed.grant;
    let (refresh, ends_at) = (Some(&refreshed.refresh), Some(grant.expires_at));
    Ok(asked.give(&making, &Given { hangs_on: &grant.id, refresh, ends_at })?)
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
