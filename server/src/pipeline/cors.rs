//! Which pages of other origins may ask, and what browsers are told about it (the CORS protocol of Fetch).
//!
//! The operator lists origins; nobody else's page may read an answer. Owns the header fields and the answers to
//! OPTIONS; must not know credentials, which browsers send only once a preflight has said yes.

use std::fmt;
use std::str::FromStr;

use super::Refusal;
use super::authenticate::{GATEWAY_ID, GATEWAY_SECRET};
use super::route::{self, On, Route, Target};
use crate::cluster::STALE_SECONDS;
use crate::limits::{ORIGIN_BYTES_MAX, PREFLIGHT_AGE};
use crate::net::{Call, Method, Response};
use crate::rest::LEFT_OUT;

/// Fields that a page may send beside those that need no leave.
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

/// Fields of an answer that a page may read beside those that need no leave.
const EXPOSED_FIELDS: [&str; 6] =
    ["mcp-session-id", "www-authenticate", "retry-after", "x-request-id", LEFT_OUT, STALE_SECONDS];

/// An origin as browsers send it: scheme, host, and a port where it is not the scheme's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String);

/// Why a text is no origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnOrigin(&'static str);

impl fmt::Display for NotAnOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = self.0;
        write!(f, "{why}; an origin is like https://app.example or http://localhost:3000")
    }
}

impl std::error::Error for NotAnOrigin {}

impl Origin {
    /// As browsers send it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Origin {
    type Err = NotAnOrigin;

    /// Takes only what a browser would send, so that a listed origin can match: lower case, no default port,
    /// nothing behind the authority, and neither `*` nor `null`.
    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        if matches!(text, "*" | "null") {
            return Err(NotAnOrigin("every origin must be named: * and null stand for anybody's"));
        }
        if text.len() > ORIGIN_BYTES_MAX {
            return Err(NotAnOrigin("it is too long"));
        }
        let (scheme, authority) = text.split_once("://").ok_or(NotAnOrigin("it has no scheme"))?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
            && scheme
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b));
        if !is_scheme {
            return Err(NotAnOrigin("its scheme must be in lower case"));
        }
        let is_plain =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._[]:".contains(&b);
        if authority.is_empty() || !authority.bytes().all(is_plain) {
            return Err(NotAnOrigin(
                "behind the scheme it must have a host in lower case, perhaps a port, and nothing else",
            ));
        }
        let port = authority
            .rsplit_once(':')
            .filter(|(host, _)| !host.contains('[') || host.ends_with(']'));
        if let Some((_, port)) = port {
            let is_own = matches!((scheme, port), ("http", "80") | ("https", "443"));
            let is_number = !port.starts_with('0') && port.parse::<u16>().is_ok();
            if is_own || !is_number {
                return Err(NotAnOrigin("its port must be a number other than the scheme's own"));
            }
        }
        Ok(Self(text.to_owned()))
    }
}

/// Request fields that pages of any origin may send to the authorization server.
const FIELDS_OF_ANY_PAGE: [&str; 3] = ["authorization", "content-type", "mcp-protocol-version"];

/// The origins that the operator lists.
#[derive(Debug, Clone, Default)]
pub struct Origins(Vec<Origin>);

impl Origins {
    /// These and no others.
    pub fn new(listed: Vec<Origin>) -> Self {
        Self(listed)
    }

    /// Whether this is one of them, to the letter.
    pub(super) fn contains(&self, origin: &str) -> bool {
        self.0.iter().any(|listed| listed.0 == origin)
    }

    /// The fields that answers to this call carry. Where origins are listed, an answer depends on
    /// `Origin`, and says so to caches even when none was sent.
    pub(super) fn fields(&self, call: &Call) -> Vec<(&'static str, String)> {
        if self.0.is_empty() || !route::is_shared(call) {
            return Vec::new();
        }
        let mut fields = vec![("vary", "Origin".to_owned())];
        if let Some(origin) = self.listed(call) {
            fields.push(("access-control-allow-origin", origin.to_owned()));
            fields.push(("access-control-expose-headers", EXPOSED_FIELDS.join(", ")));
        }
        fields
    }

    /// The only `Origin` of a call, if it is listed.
    fn listed<'a>(&self, call: &'a Call) -> Option<&'a str> {
        let mut sent = call.request.headers.get_all("origin");
        let origin = sent.next().filter(|origin| self.contains(origin))?;
        sent.next().is_none().then_some(origin)
    }

    /// Answers OPTIONS: the methods of the path, and to a preflight of a listed origin what it may send.
    /// Nobody's credentials are looked at. The fields of [`Origins::fields`] come on top.
    pub(super) fn options(&self, call: &Call) -> Result<Response, Refusal> {
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
        if !is_preflight || !route::is_shared(call) || self.listed(call).is_none() {
            return Ok(answer);
        }
        Ok(answer
            .header("access-control-allow-methods", methods.join(", "))
            .header("access-control-allow-headers", ALLOWED_FIELDS.join(", "))
            .header("access-control-max-age", PREFLIGHT_AGE.as_secs().to_string()))
    }
}

/// Whether this is OPTIONS, which is answered before a route is looked for.
pub(super) fn is_options(call: &Call) -> bool {
    call.request.method == Method::Options
}

/// Routes that pages of listed origins may ask; the operator's own never are, nor what people sign in by. Those of
/// the authorization server say themselves who may.
pub(super) fn is_shareable(route: &Route) -> bool {
    let is_sign_in = matches!(route.target, Target::SignIn(_));
    route.on != On::Local && !route.target.is_for_any_page() && !is_sign_in
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_browser_sends_is_an_origin() {
        for good in [
            "https://app.example",
            "http://localhost:3000",
            "http://127.0.0.1:8080",
            "http://[::1]:5173",
            "http://[::1]",
            "chrome-extension://abcdefghijklmnop",
            "http://app.example:443",
        ] {
            assert_eq!(good.parse(), Ok(Origin(good.to_owned())));
        }
        let long = format!("https://{}", "a".repeat(ORIGIN_BYTES_MAX));
        for bad in [
            "",
            "*",
            "null",
            "app.example",
            "https://",
            "://app.example",
            "HTTPS://app.example",
            "https://App.example",
            "https://app.example/",
            "https://app.example/path",
            "https://app.example?x",
            "https://user@app.example",
            "https://*.app.example",
            "https://app.example:443",
            "http://app.example:80",
            "http://app.example:",
            "http://app.example:080",
            "http://app.example:70000",
            "http://app.example, http://other.example",
            "http://app.example\r\nx: y",
            long.as_str(),
        ] {
            assert!(bad.parse::<Origin>().is_err(), "{bad:?}");
        }
    }
}
