//! `POST /register`: dynamic client registration (RFC 7591), rate-limited per site and network.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::asker::NoAnswer;
use super::error::{ErrorCode, OAuthError};
use super::redirect::Redirect;
use super::register::{ClientMetadata, Registered};
use crate::context::OAuthContext;
use recalld_http_server::refusal::Refusal;
use recalld_http_server::{Call, Response};
use recalld_metastore::{ControlError, NewClient};
use recalld_policy::rate::{Buckets, Rate, RetryAfter, key_of_network, key_of_site};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// Burst of registrations of one site: a team behind one address on its first day.
const REGISTRATIONS_BURST: u32 = 60;
/// Refill interval of one registration.
const REGISTRATION_EVERY: Duration = Duration::from_secs(6);
/// An IPv6 network has the rate and burst of this many sites.
const NETWORK_SITES: u32 = 4;
/// Purpose of the bucket keys.
const REGISTER: &str = "register";

/// Handles `POST /register`.
pub fn register(context: &OAuthContext<'_>, call: &Call) -> Response {
    if context.authority.is_none() {
        return Refusal::new(404, "Not Found").into();
    }
    let answer = answer(context, call).unwrap_or_else(Response::from);
    answer.header("Access-Control-Allow-Origin", "*")
}

fn answer(context: &OAuthContext<'_>, call: &Call) -> Result<Response, NoAnswer> {
    let types = call.request.headers.get_all("content-type");
    let metadata = ClientMetadata::of_registration(types, &call.request.body)?;
    slow(context.strangers, context.client_address, Instant::now())?;
    let redirects: Vec<String> =
        metadata.redirects.iter().map(Redirect::text).map(str::to_owned).collect();
    let new = NewClient {
        name: metadata.name.as_deref().unwrap_or_default(),
        redirect_uris: &redirects,
        auth_method: metadata.auth_method.name(),
    };
    let made = context.control.register_client(&new, &context.config.oauth.key_prefix);
    let (client, secret) = made.map_err(|error| match error {
        // The client limit is reached: a server condition that this client cannot fix.
        ControlError::Refused { field: "clients", .. } => unavailable(&error),
        error if error.is_fault() => unavailable(&error),
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

/// Logs the store error for the operator; clients learn no file names.
fn unavailable(error: &ControlError) -> OAuthError {
    log::event(Level::Error, "a client could not register", &[("why", Value::Text(error))]);
    let said = "clients cannot be registered now; try again";
    OAuthError::new(ErrorCode::TemporarilyUnavailable, said)
}

/// Limits registrations, as each is a disk write that anybody can request. A request rejected for its network takes no
/// token from the bucket of its site.
fn slow(strangers: &Buckets, peer: IpAddr, now: Instant) -> Result<(), NoAnswer> {
    let rate = |sites: u32| {
        Rate::new(sites, REGISTRATION_EVERY, sites * REGISTRATIONS_BURST)
            .expect("a rate that can be")
    };
    let refused = |wait: RetryAfter| NoAnswer::TooMany(wait.seconds);
    let network = key_of_network(REGISTER, peer);
    if let Some(network) = &network {
        strangers.check(network, rate(NETWORK_SITES), now).map_err(refused)?;
    }
    strangers.take(&key_of_site(REGISTER, peer), rate(1), now).map_err(refused)?;
    if let Some(network) = &network {
        strangers.owe(network, rate(NETWORK_SITES), now);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(network: u16, number: u16) -> IpAddr {
        IpAddr::V6([0x2001, 0xdb8, network, number, 0, 0, 0, 1].into())
    }

    #[test]
    fn the_sites_of_a_network_share_what_it_may_register() {
        let now = Instant::now();
        let strangers = Buckets::new(now);
        let is_let = |peer: IpAddr, at: Duration| slow(&strangers, peer, now + at).is_ok();
        let all = |network: u16, sites: u16| {
            let tries = (0..sites).flat_map(|number| (0..100).map(move |_| number));
            tries.filter(|number| is_let(site(network, *number), Duration::ZERO)).count()
        };
        assert_eq!(all(1, 1), 60, "a site");
        assert_eq!(all(2, 200), 240, "a network, with any number of them");
        assert!(!is_let(site(2, 999), Duration::ZERO), "a site that asked for nothing yet");
        assert!(is_let(site(3, 0), Duration::ZERO), "another network");
        assert!(is_let(site(2, 999), Duration::from_millis(1_500)));
        let v4 = |last: u8| IpAddr::V4([192, 0, 2, last].into());
        let tries = (0..=255).flat_map(|last| (0..100).map(move |_| v4(last)));
        assert_eq!(tries.filter(|peer| is_let(*peer, Duration::ZERO)).count(), 256 * 60);
    }
}
