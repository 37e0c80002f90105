//! Authentication of callers: by credential, or as the operator of this machine.

use std::sync::Arc;
use std::time::Instant;

use super::bearer::{self, NoCaller};
use super::cors::Origins;
use crate::app_state::AppState;
use crate::console;
use crate::forwarded::asks_from;
use crate::guesses::wrong_credential;
use crate::listeners::LOCAL;
use recalld_auth::{Bearer, bearer_of};
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_http_server::Call;
use recalld_http_server::refusal::Refusal;
use recalld_oauth::{Scopes, challenge};
use recalld_policy::Caller;
use recalld_policy::identity::Turn;
use recalld_policy::plans::Plan;

/// Header of the gateway token's id.
pub const GATEWAY_ID: &str = "x-gateway-client-id";
/// Header of the gateway token's secret.
pub const GATEWAY_SECRET: &str = "x-gateway-client-secret";

/// Credentials that a route requires of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Nothing.
    Open,
    /// The gateway's service token and a bearer token.
    GatewayAndBearer,
    /// A bearer token.
    Bearer,
    /// Nothing on the local listener, a bearer token elsewhere.
    LocalOrBearer,
    /// A request from a page of this server (CSL-02).
    OwnPage,
    /// A request from a page of this server, in a session of administration.
    Session,
}

/// Authenticates the caller of a route. Checks the gateway token first, then the bearer.
pub(super) fn caller(
    parts: &AppState,
    gate: Gate,
    call: &Call,
    early: Option<EarlyAuth>,
) -> Result<Caller, Refusal> {
    let early = || early.unwrap_or_else(|| EarlyAuth::of(parts, gate, call));
    match gate {
        Gate::Open => Ok(nobody()),
        Gate::LocalOrBearer if call.listener == LOCAL => {
            Ok(operator(parts, call, Caller::local_operator(parts.local.name())))
        }
        Gate::LocalOrBearer => bearer(parts, call, early(), true),
        Gate::OwnPage | Gate::Session => {
            // Checked again after the head: a session may have ended since.
            at_once(parts, gate, call, &mut None)?;
            Ok(operator(parts, call, Caller::local_operator(parts.local.name())))
        }
        Gate::Bearer => bearer(parts, call, early(), false).and_then(operators_own),
        Gate::GatewayAndBearer => {
            let early = early();
            early.check_gateway()?;
            bearer(parts, call, early, false)
        }
    }
}

/// Knowledge about the caller from the head alone, without disk access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// The operator of this machine.
    Operator,
    /// No credential required, or a credential that must be looked up.
    Nobody,
}

/// The credentials of a head, compared with those of `credentials.toml`. The comparison uses hashes in memory, so an
/// event loop may do it. Computed once per request.
pub(super) struct EarlyAuth {
    is_gateways: bool,
    bearer: Bearer,
}

impl EarlyAuth {
    /// Compares the credentials that the gate requires.
    pub(super) fn of(parts: &AppState, gate: Gate, call: &Call) -> Self {
        let is_gateways = gate == Gate::GatewayAndBearer && {
            let id = only(call, GATEWAY_ID).unwrap_or_default();
            let secret = only(call, GATEWAY_SECRET).unwrap_or_default();
            parts.checker.gateway(id.as_bytes(), secret.as_bytes())
        };
        let authorization = only(call, "authorization").map(str::as_bytes);
        Self { is_gateways, bearer: parts.checker.bearer(authorization) }
    }

    /// Returns true if the bearer is the operator's.
    pub(super) fn is_operators(&self) -> bool {
        matches!(self.bearer, Bearer::Ok(_))
    }

    /// A wrong gateway token does not count as a failed credential (GOV-04).
    fn check_gateway(&self) -> Result<(), Refusal> {
        match self.is_gateways {
            true => Ok(()),
            false => Err(Refusal::new(403, "Gateway service token required")),
        }
    }
}

/// Performs the checks of [`caller`] that need no disk access, so that an event loop may run them.
pub(super) fn at_once(
    parts: &AppState,
    gate: Gate,
    call: &Call,
    early: &mut Option<EarlyAuth>,
) -> Result<Known, Refusal> {
    match gate {
        Gate::Open => return Ok(Known::Nobody),
        Gate::LocalOrBearer if call.listener == LOCAL => return Ok(Known::Operator),
        Gate::OwnPage => return console::check_page(call).map(|()| Known::Operator),
        Gate::Session => {
            console::check_page(call)?;
            return console::check_session(parts, call).map(|()| Known::Operator);
        }
        Gate::LocalOrBearer | Gate::Bearer | Gate::GatewayAndBearer => {}
    }
    let takes_tokens = gate == Gate::LocalOrBearer;
    let early = early.get_or_insert_with(|| EarlyAuth::of(parts, gate, call));
    if gate == Gate::GatewayAndBearer {
        early.check_gateway()?;
    }
    match early.bearer {
        Bearer::Ok(_) => Ok(Known::Operator),
        Bearer::Missing => Err(unauthorized(parts, takes_tokens, false)),
        // Only `credentials.toml` is valid for this gate, so no lookup follows.
        Bearer::Wrong if gate == Gate::Bearer => Err(wrong(parts, call, takes_tokens)),
        Bearer::Wrong => Ok(Known::Nobody),
    }
}

/// Builds the operator's caller, who has no turn identity. Enforcement of turn identities does not apply at the machine
/// itself.
fn operator(parts: &AppState, call: &Call, caller: Caller) -> Caller {
    let enforcement = match call.listener == LOCAL {
        true => parts.config.identity.at_the_machine(),
        false => parts.config.identity,
    };
    Caller { turn: Turn::of(enforcement, None, true), ..caller }
}

/// Restricts the command line's routes to the operator's bearer: a tenant's bearer is rejected like an invalid one.
fn operators_own(caller: Caller) -> Result<Caller, Refusal> {
    match caller.metered {
        None => Ok(caller),
        Some(_) => {
            let challenge = "Bearer error=\"invalid_token\"";
            Err(Refusal::new(401, "Not authenticated").with("WWW-Authenticate", challenge))
        }
    }
}

fn nobody() -> Caller {
    Caller {
        principal: "nobody".to_owned(),
        plan: String::new(),
        entitled: Arc::new(Plan::bare()),
        scopes: Vec::new(),
        ..Caller::local_operator(LOCAL_WORKSPACE)
    }
}

/// Returns 401 for a credential that is not valid under the requested host (GOV-61).
pub(super) fn not_here(parts: &AppState, gate: Gate) -> Refusal {
    unauthorized(parts, gate == Gate::LocalOrBearer, true)
}

/// Returns the only value of a header. A repeated header counts as missing, so that two parsers of one request never
/// use different values.
pub(super) fn only<'a>(call: &'a Call, name: &str) -> Option<&'a str> {
    let mut values = call.request.headers.get_all(name);
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

fn bearer(
    parts: &AppState,
    call: &Call,
    early: EarlyAuth,
    takes_tokens: bool,
) -> Result<Caller, Refusal> {
    match early.bearer {
        Bearer::Ok(principal) => {
            let caller = Caller::local_operator(&principal.workspace);
            Ok(operator(parts, call, Caller { principal: principal.name, ..caller }))
        }
        Bearer::Missing => Err(unauthorized(parts, takes_tokens, false)),
        Bearer::Wrong => {
            let presented = only(call, "authorization").and_then(bearer_of).unwrap_or_default();
            let may_guess =
                || parts.guesses.check(asks_from(parts, call), None, Instant::now()).is_ok();
            let found = bearer::caller(parts, presented, takes_tokens, may_guess);
            found.map_err(|why| match why {
                NoCaller::Wrong => wrong(parts, call, takes_tokens),
                NoCaller::OutOfTime | NoCaller::Ended | NoCaller::NotHere => {
                    unauthorized(parts, takes_tokens, true)
                }
                NoCaller::Suspended => Refusal::new(403, "Workspace suspended"),
                NoCaller::Unavailable => Refusal::unavailable("Credentials cannot be checked now"),
            })
        }
    }
}

/// Returns 401. On the resource for which access tokens are issued, the challenge names the authorization server's
/// metadata.
fn unauthorized(parts: &AppState, takes_tokens: bool, was_sent: bool) -> Refusal {
    let challenge = match &parts.authority {
        Some(authority) if takes_tokens => {
            let (at, scopes) = (authority.places.resource_metadata(), Scopes::everyday());
            match was_sent {
                true => challenge::invalid_token(&at, &scopes),
                false => challenge::missing(&at, &scopes),
            }
        }
        _ if was_sent => "Bearer error=\"invalid_token\"".to_owned(),
        _ => "Bearer".to_owned(),
    };
    Refusal::new(401, "Not authenticated").with("WWW-Authenticate", challenge)
}

/// Returns the response to a wrong bearer, which counts as a failed credential.
fn wrong(parts: &AppState, call: &Call, takes_tokens: bool) -> Refusal {
    wrong_credential(parts, call, || unauthorized(parts, takes_tokens, true))
}

/// Restricts the local listener to programs of this machine. Rejects a peer that is not loopback, a `Host` that names
/// another machine (DNS rebinding), and a page of another origin. `ports` are those of the listener's sockets. Pages of
/// the `listed` origins are allowed as well, if a list is given.
pub fn check_local(call: &Call, ports: &[u16], listed: Option<&Origins>) -> Result<(), Refusal> {
    if !call.peer.ip().is_loopback() {
        return Err(Refusal::new(403, "The local listener answers this machine only"));
    }
    if !only(call, "host").is_some_and(|host| is_local_authority(host, ports)) {
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        let ports = ports.join(" or ");
        let detail = format!("Host must be localhost, 127.0.0.1 or [::1], with port {ports}");
        return Err(Refusal::new(403, &detail));
    }
    // A page must have the listener's own origin or a configured origin.
    let is_welcome = |origin: &str| {
        let authority = origin.strip_prefix("http://");
        authority.is_some_and(|authority| is_local_authority(authority, ports))
            || listed.is_some_and(|listed| listed.contains(origin))
    };
    if call.request.headers.get_all("origin").all(is_welcome) {
        return Ok(());
    }
    Err(Refusal::new(403, "Requests from other origins are refused"))
}

/// Checks `Origin`. MCP requires servers to validate `Origin` on every connection and to reject a wrong value with 403
/// (revision 2025-11-25, Streamable HTTP, security warning). Allowed are the origin of the request's own address and
/// the `listed` origins. If the listener has no TLS (`speaks_tls`), a proxy in front may have TLS, so either scheme is
/// allowed.
pub(super) fn check_hosted_origin(
    call: &Call,
    speaks_tls: bool,
    listed: &Origins,
) -> Result<(), Refusal> {
    let host = only(call, "host").unwrap_or_default();
    let mut sent = call.request.headers.get_all("origin");
    if sent.all(|origin| is_same_origin(origin, host, speaks_tls) || listed.contains(origin)) {
        return Ok(());
    }
    Err(Refusal::new(403, "Requests from other origins are refused"))
}

/// Returns true if an origin equals the request's `Host`. The scheme's default port may be omitted from either.
fn is_same_origin(origin: &str, host: &str, speaks_tls: bool) -> bool {
    let of = |scheme: &str, port: &str| {
        let authority = origin.strip_prefix(scheme)?.strip_prefix("://")?;
        let bare = |text: &str| text.strip_suffix(port).unwrap_or(text).to_ascii_lowercase();
        Some(!authority.is_empty() && bare(authority) == bare(host))
    };
    of("https", ":443") == Some(true) || (!speaks_tls && of("http", ":80") == Some(true))
}

/// Returns true if an authority is a loopback name of this machine with one of `ports`; port 80 may be omitted.
fn is_local_authority(authority: &str, ports: &[u16]) -> bool {
    let (name, given) = match authority.rsplit_once(':') {
        Some((name, given)) if !given.contains(']') => (name, given.parse().ok()),
        _ => (authority, Some(80)),
    };
    let named = matches!(name, "127.0.0.1" | "[::1]") || name.eq_ignore_ascii_case("localhost");
    named && given.is_some_and(|given| ports.contains(&given))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_with_the_right_port_are_local() {
        for host in ["localhost:8788", "LOCALHOST:8788", "127.0.0.1:8788", "[::1]:8788"] {
            assert!(is_local_authority(host, &[8788]), "{host}");
        }
        for host in [
            "",
            "localhost",
            "localhost:8789",
            "[::1]",
            "evil.example:8788",
            "localhost.evil.example:8788",
            "127.0.0.1.evil.example:8788",
            "127.0.0.2:8788",
            "localhost:",
            "localhost:x",
            "user@localhost:8788",
            "::1:8788",
        ] {
            assert!(!is_local_authority(host, &[8788]), "{host}");
        }
        assert!(is_local_authority("localhost", &[80]));
        // Each of the two sockets accepts its own port.
        for host in ["localhost:8788", "127.0.0.1:9000"] {
            assert!(is_local_authority(host, &[8788, 9000]), "{host}");
        }
        assert!(!is_local_authority("localhost:9001", &[8788, 9000]));
        assert!(!is_local_authority("localhost:8788", &[]));
    }

    #[test]
    fn an_origin_is_the_same_by_scheme_host_and_port() {
        for (origin, host) in [
            ("https://brain.example", "brain.example"),
            ("https://brain.example", "Brain.Example:443"),
            ("https://brain.example:8443", "brain.example:8443"),
            ("https://[::1]:8443", "[::1]:8443"),
        ] {
            assert!(is_same_origin(origin, host, true), "{origin} at {host}");
        }
        assert!(is_same_origin("http://brain.example", "brain.example:80", false));
        for (origin, host) in [
            ("https://evil.example", "brain.example"),
            ("https://brain.example.evil.example", "brain.example"),
            ("https://brain.example:8443", "brain.example"),
            ("https://brain.example/", "brain.example"),
            ("http://brain.example", "brain.example"),
            ("null", "null"),
            ("null", "brain.example"),
            ("https://", ""),
            ("", ""),
        ] {
            assert!(!is_same_origin(origin, host, true), "{origin} at {host}");
        }
    }
}
