//! The console: pages for the operator in a browser, and the endpoints of these pages (format-spec/console.md).
//!
//! Served on the local listener only. All data comes from tools of the catalog, and all administration goes through the
//! operator's acts. Both are audited there; the console must not access the engine or the metastore directly.

#[cfg(feature = "console")]
pub mod assets;
pub mod calls;
mod sessions;

use std::time::Instant;

use engine::ledger::{Decision, Outcome};
use serde_json::{Map, Value, json};

use crate::app_state::AppState;
use recalld_audit::{Trace, hash_call};
use recalld_auth::{Bearer, Principal};
use recalld_http_server::{Call, Method, Response, cookie};

use crate::guesses::wrong_credential;
use crate::rest::Ask;
use crate::service_error::over_http;
use recalld_audit::BY_SCOPE;
use recalld_http_server::refusal::Refusal;
use recalld_tool_framework::args::{Text, args};

pub use calls::{call, change};
pub use sessions::Sessions;
use sessions::{SESSION_IDLE, SESSION_TIME_MAX};

limit_table::limits! {
    pub(crate) const LIMITS = [sessions];

    /// Maximum size of a request body in bytes: the longest text of a correction, fully escaped, plus room for the
    /// other fields.
    pub const CONSOLE_BODY_BYTES_MAX: usize = 256 << 10;
}

/// Header of the session token.
const TOKEN: &str = "x-recalld-console";
const SIGN_IN: &str = "recalld console sign-in";

args! {
    /// Body of `POST /console/session`.
    pub struct SignIn {
        bearer: Text<1, 8192> => "The operator's.",
    }
}

/// Rejects requests that no page of the console sent, as far as a browser reports the sender (CSL-02). The `Origin` was
/// checked before: the local listener rejects pages of other origins here.
pub(crate) fn check_page(call: &Call) -> Result<(), Refusal> {
    let headers = &call.request.headers;
    let site = headers.get("sec-fetch-site");
    let is_ours = headers.get_all("sec-fetch-site").all(|site| site == "same-origin");
    let says_where = site.is_some() || headers.get("origin").is_some();
    if !is_ours || !(says_where || matches!(call.request.method, Method::Get | Method::Head)) {
        return Err(Refusal::new(403, "Only a page of this very origin may ask this"));
    }
    let is_json = headers.get("content-type").is_some_and(|kind| {
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("application/json")
    });
    if call.request.method == Method::Post && !is_json {
        return Err(Refusal::new(415, "Content-Type must be application/json"));
    }
    Ok(())
}

/// Rejects requests without a valid session, and marks the session as used.
pub(crate) fn check_session(parts: &AppState, call: &Call) -> Result<(), Refusal> {
    let is_in = |(key, token)| parts.console.take(key, token, Instant::now());
    match secrets(call).is_some_and(is_in) {
        true => Ok(()),
        false => Err(signed_out("Sign in with the operator's bearer")),
    }
}

/// The response to a body longer than [`CONSOLE_BODY_BYTES_MAX`].
pub(crate) fn body_too_large() -> Refusal {
    let max = CONSOLE_BODY_BYTES_MAX;
    Refusal::new(413, &format!("Body too large: at most {max} bytes are allowed"))
}

fn signed_out(why: &str) -> Refusal {
    Refusal::new(401, why).with("WWW-Authenticate", "Bearer").with("Cache-Control", "no-store")
}

/// Returns the cookie and the token of a request if each is present exactly once.
fn secrets(call: &Call) -> Option<(&str, &str)> {
    let headers = &call.request.headers;
    let key = cookie(headers, &cookie_name(call)).ok().flatten()?;
    let mut tokens = headers.get_all(TOKEN);
    let token = tokens.next()?;
    tokens.next().is_none().then_some((key, token))
}

/// The cookie's name contains the port, because a browser sends the cookies of a host to all its ports. Servers on one
/// machine thus have separate sessions.
fn cookie_name(call: &Call) -> String {
    let host = call.request.headers.get("host").unwrap_or_default();
    // A `Host` without a port means port 80, the default of HTTP.
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(80_u16);
    format!("recalld-console-{port}")
}

/// Parses the body as an object of at most [`CONSOLE_BODY_BYTES_MAX`] bytes.
fn body(call: &Call) -> Result<Map<String, Value>, Refusal> {
    if call.request.body.len() > CONSOLE_BODY_BYTES_MAX {
        return Err(body_too_large());
    }
    crate::operator::arguments(call)
}

fn answer(value: &Value) -> Response {
    guarded(Response::json(200, value.to_string().into_bytes()))
}

/// Forbids caching and content type sniffing of a response.
fn guarded(answer: Response) -> Response {
    answer.header("cache-control", "no-store").header("x-content-type-options", "nosniff")
}

/// `GET /console/session`: returns the state of the session.
///
/// # Errors
/// None.
pub fn look(ask: &Ask<'_>) -> Result<Response, Refusal> {
    let left = secrets(ask.call)
        .and_then(|(key, token)| ask.parts.console.left(key, token, Instant::now()));
    Ok(answer(&match left {
        Some(left) => json!({"signed_in": true, "seconds_left": left.as_secs()}),
        None => json!({"signed_in": false}),
    }))
}

/// `POST /console/session`: starts a session for the operator's bearer.
///
/// # Errors
/// The bearer is not the operator's, or the ledger accepts no entry.
pub fn sign_in(ask: &Ask<'_>) -> Result<Response, Refusal> {
    let (parts, call) = (ask.parts, ask.call);
    let SignIn { bearer } = SignIn::parse(&body(call)?).map_err(over_http)?;
    let presented = format!("Bearer {}", bearer.0);
    let Bearer::Ok(principal) = parts.checker.bearer(Some(presented.as_bytes())) else {
        let wrong = || signed_out("This is not the operator's bearer");
        return Err(wrong_credential(parts, call, wrong));
    };
    record(parts, principal)?;
    let begun = parts.console.begin(&*parts.random, Instant::now());
    let (name, key) = (cookie_name(call), begun.key.expose());
    let set = format!("{name}={key}; Path=/console; HttpOnly; SameSite=Strict");
    let said = json!({
        "token": begun.token.expose(),
        "idle_seconds": SESSION_IDLE.as_secs(),
        "seconds": SESSION_TIME_MAX.as_secs(),
    });
    Ok(answer(&said).header("set-cookie", set))
}

/// Records the sign-in in the ledger, before the session starts.
fn record(parts: &AppState, principal: Principal) -> Result<(), Refusal> {
    let trace = Trace {
        tool: SIGN_IN,
        principal: principal.name,
        arguments: hash_call(SIGN_IN, &json!({})),
        decision: Decision::Allow,
        rule: BY_SCOPE.to_owned(),
        touched: Vec::new(),
        outcome: Outcome::Done,
    };
    let recorded = parts.local.get().audit.record(&trace, true);
    recorded.map(drop).map_err(|error| {
        Refusal::unavailable(&format!("the ledger took no entry, so nobody is signed in: {error}"))
    })
}

/// `DELETE /console/session`: ends the session, if there is one.
///
/// # Errors
/// None.
pub fn sign_out(ask: &Ask<'_>) -> Result<Response, Refusal> {
    let ended = secrets(ask.call)
        .is_some_and(|(key, token)| ask.parts.console.end(key, token, Instant::now()));
    let gone =
        format!("{}=; Path=/console; Max-Age=0; HttpOnly; SameSite=Strict", cookie_name(ask.call));
    Ok(answer(&json!({"ended": ended})).header("set-cookie", gone))
}

/// `POST /console/admin`: runs one act of administration.
///
/// # Errors
/// The act failed or was rejected.
pub fn admin(ask: &Ask<'_>) -> Result<Response, Refusal> {
    body(ask.call)?;
    crate::operator::admin::serve_admin(ask).map(guarded)
}
