//! Who calls: by credential, or by being the operator of this machine.

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

/// The header of the gateway token's id.
pub const GATEWAY_ID: &str = "x-gateway-client-id";
/// The header of the gateway token's secret.
pub const GATEWAY_SECRET: &str = "x-gateway-client-secret";

/// What a route asks of its caller.
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
    /// That a page of ours asks (CSL-02).
    OwnPage,
    /// The same in a session of administration.
    Session,
}

/// The caller of a route. The gateway token is checked first, then the bearer.
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
            // Anew, where the head was judged: a session may have ended since.
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

/// What the head of a call tells of its caller without a look at the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// The operator of this machine.
    Operator,
    /// Nobody, or somebody whose credential has to be looked up.
    Nobody,
}

/// The credentials of a head, compared with those of `credentials.toml`: hashes in memory, so that an event loop
/// may ask, and asked once for each request.
pub(super) struct EarlyAuth {
    is_gateways: bool,
    bearer: Bearer,
}

impl EarlyAuth {
    /// Compares what a route's gate asks for.
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

    /// A wrong gateway token is no guess (GOV-04).
    fn check_gateway(&self) -> Result<(), Refusal> {
        match self.is_gateways {
            true => Ok(()),
            false => Err(Refusal::new(403, "Gateway service token required")),
        }
    }
}

/// The same as [`caller`] as far as it needs no disk, so that an event loop may ask.
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
        // Who may do this is known by now.
        Bearer::Wrong if gate == Gate::Bearer => Err(wrong(parts, call, takes_tokens)),
        Bearer::Wrong => Ok(Known::Nobody),
    }
}

/// The operator, who is nobody in particular to the service, and bound by no enforcement at the machine itself.
fn operator(parts: &AppState, call: &Call, caller: Caller) -> Caller {
    let enforcement = match call.listener == LOCAL {
        true => parts.config.identity.at_the_machine(),
        false => parts.config.identity,
    };
    Caller { turn: Turn::of(enforcement, None, true), ..caller }
}

/// What is for the command line is for the operator's own bearer: a tenant's is as good as none.
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

/// 401 to a caller whose credential is not good under the host that it named (GOV-61).
pub(super) fn not_here(parts: &AppState, gate: Gate) -> Refusal {
    unauthorized(parts, gate == Gate::LocalOrBearer, true)
}

/// The only value of a header; a repeated one counts as missing, so that two readers of the same
/// request can never take different ones.
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

/// 401. A client of the resource that access tokens are for is told where to get one.
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

/// A wrong bearer.
fn wrong(parts: &AppState, call: &Call, takes_tokens: bool) -> Refusal {
    wrong_credential(parts, call, || unauthorized(parts, takes_tokens, true))
}

/// The local listener is for programs of this machine that mean it: a peer that is not loopback, a
/// `Host` that names another machine (DNS rebinding) and a page of another origin are refused.
/// `ports` are those of the listener's sockets; pages of the `listed` origins may ask as well, where there are any.
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
    // A page must come from this very listener, or from where the operator said.
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

/// MCP has servers look at `Origin` on every connection, and refuse a wrong one with 403 (revision
/// 2025-11-25, Streamable HTTP, security warning). A page may ask the hosted listener from the address
/// that the request was sent to, or from one of the `listed` origins. Where the listener has no TLS of
/// its own (`speaks_tls`), what stands before it may, so that such an address may be of either scheme.
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

/// Whether an origin is of this very `Host`; the port of the scheme may be left out of either.
fn is_same_origin(origin: &str, host: &str, speaks_tls: bool) -> bool {
    let of = |scheme: &str, port: &str| {
        let authority = origin.strip_prefix(scheme)?.strip_prefix("://")?;
        let bare = |text: &str| text.strip_suffix(port).unwrap_or(text).to_ascii_lowercase();
        Some(!authority.is_empty() && bare(authority) == bare(host))
    };
    of("https", ":443") == Some(true) || (!speaks_tls && of("http", ":80") == Some(true))
}

/// Whether a host and port are this machine's own names and one of `ports`; port 80 may be left out.
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
        // Each of two sockets is reached by its own port.
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
