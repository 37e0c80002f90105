//! `POST /register` (RFC 7591): a client makes itself known.
//!
//! Owns how often that may be done. What a client may say of itself is `register.rs`'s.

use std::time::{Duration, Instant};

use super::asker::{NoAnswer, unavailable};
use super::error::{ErrorCode, OAuthError};
use super::redirect::Redirect;
use super::register::{ClientMetadata, Registered};
use crate::control::{ControlError, NewClient};
use crate::govern::rate::{Rate, key_of_site};
use crate::net::{Call, Response};
use crate::parts::Parts;
use crate::pipeline::Refusal;

/// Registrations of one address at once: those of a team behind one, which begins.
const REGISTRATIONS_BURST: u32 = 60;
/// Then one each so many seconds.
const REGISTRATION_SECONDS: u64 = 6;

/// Answers `POST /register`.
pub fn register(parts: &Parts, call: &Call) -> Response {
    if parts.authority.is_none() {
        return Refusal::new(404, "Not Found").into();
    }
    let answer = answer(parts, call).unwrap_or_else(Response::from);
    answer.header("Access-Control-Allow-Origin", "*")
}

fn answer(parts: &Parts, call: &Call) -> Result<Response, NoAnswer> {
    let types = call.request.headers.get_all("content-type");
    let metadata = ClientMetadata::of_registration(types, &call.request.body)?;
    slow(parts, call)?;
    let redirects: Vec<String> =
        metadata.redirects.iter().map(Redirect::text).map(str::to_owned).collect();
    let new = NewClient {
        name: metadata.name.as_deref().unwrap_or_default(),
        redirect_uris: &redirects,
        auth_method: metadata.auth_method.name(),
    };
    let made = parts.control.register_client(&new, &parts.config.oauth.key_prefix);
    let (client, secret) = made.map_err(|error| match error {
        // As many are registered as may be: nothing that this one could mend.
        ControlError::Refused { field: "clients", .. } => unavailable(),
        error if error.is_fault() => unavailable(),
        error => OAuthError::new(ErrorCode::InvalidClientMetadata, &error.to_string()),
    })?;
    let registered = Registered {
        id: &client.id,
        secret: secret.as_ref(),
        issued_at: client.made_at,
        metadata: &metadata,
    };
    Ok(registered.response())
}

/// Each of them is a write to disk that anybody may ask for.
fn slow(parts: &Parts, call: &Call) -> Result<(), NoAnswer> {
    let period = Duration::from_secs(REGISTRATION_SECONDS);
    let rate = Rate::new(1, period, REGISTRATIONS_BURST).expect("a rate that can be");
    let taken = parts.rates.take(&key_of_site("register", call.peer.ip()), rate, Instant::now());
    taken.map_err(|wait| NoAnswer::TooMany(wait.seconds))
}
