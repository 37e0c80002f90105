//! `POST /token`: exchanges a code, refresh token or workspace key for an access token.
//!
//! Token encoding is in `auth::token`, token verification per request in `pipeline`.

mod asked;
mod by_code;
mod by_key;
mod by_refresh;
mod issue;

use self::asked::Asked;
use super::asker::NoAnswer;
use super::error::{ErrorCode, OAuthError};
use super::form::Form;
use crate::authority::Authority;
use crate::context::OAuthContext;
use recalld_http_server::refusal::Refusal;
use recalld_http_server::{Call, Response};

/// Handles `POST /token`. CORS allows any origin, as a request without credentials reveals nothing.
pub fn token(context: &OAuthContext<'_>, call: &Call) -> Response {
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
    let asked = Asked { context, authority, call, form: &form };
    match form.need("grant_type")? {
        "authorization_code" => by_code::answer(&asked),
        "refresh_token" => by_refresh::answer(&asked),
        "client_credentials" => by_key::answer(&asked),
        _ => {
            let said = "grant_type is authorization_code, refresh_token or client_credentials";
            Err(OAuthError::new(ErrorCode::UnsupportedGrantType, said).into())
        }
    }
}
