//! Authorization code grant: redeems a code (RFC 6749, section 4.1.3; RFC 7636, section 4.5).

use super::asked::Asked;
use super::issue::{Given, Making};
use crate::asker::{NoAnswer, guessed, invalid_grant, registered, unavailable};
use crate::error::{ErrorCode, OAuthError};
use crate::pkce;
use recalld_http_server::Response;
use recalld_metastore::{RedeemError, Redemption};

const GRANT_TYPE: &str = "authorization_code";

pub(super) fn answer(asked: &Asked<'_>) -> Result<Response, NoAnswer> {
    let (form, control) = (asked.form, &asked.context.control);
    let client = registered(asked.context, asked.authority, asked.call, form)?;
    let shown = Redemption {
        code: form.need("code")?.as_bytes(),
        client: &client.id,
        redirect_uri: form.need("redirect_uri")?,
        verifier: pkce::verifier(form)?,
        resource: asked.resource()?,
    };
    let holder = control.holder_of_code(shown.code).map_err(|_| unavailable())?;
    let Some(holder) = holder else {
        return Err(guessed(asked.context, refused(&RedeemError::Unknown)));
    };
    let tenant = asked.tenant(&holder.tenant)?;
    asked.slow(&tenant, &holder.credential)?;
    let workspace = asked.open(&tenant)?;
    let prefix = &asked.context.config.oauth.key_prefix;
    let mut making = Making {
        grant_type: GRANT_TYPE,
        workspace: &workspace,
        client: &client.id,
        principal: &holder.principal,
        granted: Default::default(),
    };
    if let Err(error) = control.may_redeem(&shown) {
        if error == RedeemError::Replayed {
            asked.record_replay(&making)?;
            // Redeeming a replayed code revokes its grant and issues nothing.
            let ended = control.redeem_code(&shown, prefix).map(drop);
            return Err(refused(ended.err().as_ref().unwrap_or(&error)).into());
        }
        return Err(refused(&error).into());
    }
    making.granted = asked.left(&holder.scopes, &tenant)?;
    asked.announce(&making)?;
    let redeemed = control.redeem_code(&shown, prefix).map_err(|error| {
        asked.record_failure(&making);
        refused(&error)
    })?;
    let grant = &redeemed.grant;
    let (refresh, ends_at) = (Some(&redeemed.refresh), Some(grant.expires_at));
    Ok(asked.give(&making, &Given { hangs_on: &grant.id, refresh, ends_at })?)
}

fn refused(error: &RedeemError) -> OAuthError {
    match error {
        RedeemError::WrongResource => OAuthError::new(ErrorCode::InvalidTarget, &error.to_string()),
        RedeemError::Control(error) if error.is_fault() => unavailable(),
        _ => invalid_grant(&error.to_string()),
    }
}
