//! Cross-origin requests: the CORS protocol of Fetch.
//!
//! Only pages of origins listed by the operator may read a response. This module sets the header fields and answers
//! OPTIONS. Independent of credentials, which browsers send only after a successful preflight.

use super::authenticate::{GATEWAY_ID, GATEWAY_SECRET};
use super::route;
use crate::limits::PREFLIGHT_AGE;
use crate::rest::LEFT_OUT;
use recalld_common::age::STALE_SECONDS;
use recalld_http_server::origin::Origin;
use recalld_http_server::refusal::Refusal;
use recalld_http_server::{Call, Method, Response};

/// Request fields that a page may send besides the CORS-safelisted ones.
const ALLOWED_FIELDS: [&str; 11] = [
    "authorization",
    "content-type",
    GATEWAY_ID,
    GATEWAY_SECRET,
    "accept",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "mcp-method",
    "mcp-name",
    "x-request-id",
];

/// Response fields that a page may read besides the CORS-safelisted ones.
const EXPOSED_FIELDS: [&str; 6] =
    ["mcp-session-id", "www-authenticate", "retry-after", "x-request-id", LEFT_OUT, STALE_SECONDS];

/// Request fields that pages of any origin may send to the authorization server.
const FIELDS_OF_ANY_PAGE: [&str; 3] = ["authorization", "content-type", "mcp-protocol-version"];

/// Origins listed by the operator.
#[derive(Debug, Clone, Default)]
pub struct Origins(Vec<Origin>);

impl Origins {
    /// Creates the list.
    pub fn new(listed: Vec<Origin>) -> Self {
        Self(listed)
    }

    /// Returns true if the list contains exactly this origin.
    pub(super) fn contains(&self, origin: &str) -> bool {
        self.0.iter().any(|listed| listed.as_str() == origin)
    }

    /// Returns the fields that responses to this call carry. If origins are listed, a response depends on `Origin`:
    /// `Vary` tells caches so even if no `Origin` was sent. `is_shared` is a property of the path (`route::PathMatch`).
    pub(super) fn fields(&self, call: &Call, is_shared: bool) -> Vec<(&'static str, String)> {
        if self.0.is_empty() || !is_shared {
            return Vec::new();
        }
        let mut fields = vec![("vary", "Origin".to_owned())];
        if let Some(origin) = self.listed(call) {
            fields.push(("access-control-allow-origin", origin.to_owned()));
            fields.push(("access-control-expose-headers", EXPOSED_FIELDS.join(", ")));
        }
        fields
    }

    /// Returns the only `Origin` of a call if it is listed.
    fn listed<'a>(&self, call: &'a Call) -> Option<&'a str> {
        let mut sent = call.request.headers.get_all("origin");
        let origin = sent.next().filter(|origin| self.contains(origin))?;
        sent.next().is_none().then_some(origin)
    }

    /// Answers OPTIONS with the methods of the path. A preflight of a listed origin also receives the allowed fields.
    /// Credentials are not checked. The caller adds the fields of [`Origins::fields`].
    pub(super) fn options(&self, call: &Call, is_shared: bool) -> Result<Response, Refusal> {
        let methods = if call.request.target == "*" {
            route::methods(|route| route.on.is_for(call))
        } else {
            route::methods(|route| route::is_here(route, call))
        };
        if methods.is_empty() {
            return Err(Refusal::new(404, "Not Found"));
        }
        let answer = Response::empty(204).header("allow", methods.join(", "));
        let is_preflight = call.request.headers.get("access-control-request-method").is_some();
        if is_preflight && route::is_for_any_page(call) {
            return Ok(answer
                .header("access-control-allow-origin", "*")
                .header("access-control-allow-methods", methods.join(", "))
                .header("access-control-allow-headers", FIELDS_OF_ANY_PAGE.join(", "))
                .header("access-control-max-age", PREFLIGHT_AGE.as_secs().to_string()));
        }
        if !is_preflight || !is_shared || self.listed(call).is_none() {
            return Ok(answer);
        }
        Ok(answer
            .header("access-control-allow-methods", methods.join(", "))
            .header("access-control-allow-headers", ALLOWED_FIELDS.join(", "))
            .header("access-control-max-age", PREFLIGHT_AGE.as_secs().to_string()))
    }
}

/// Returns true for OPTIONS, which is answered before routing.
pub(super) fn is_options(call: &Call) -> bool {
    call.request.method == Method::Options
}
