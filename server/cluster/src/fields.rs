//! Header fields that are forwarded with a call, and those that are returned with its response.

use std::net::IpAddr;

use ureq::http::{HeaderMap, HeaderName, HeaderValue};

use recalld_http_server::{Head, Headers, Request};

/// Header field with the number of times that a call was forwarded.
pub const HOP: &str = "recalld-hop";

/// Hop-by-hop fields (RFC 9110, section 7.6.1), their obsolete variants, and the fields about a body or connection that
/// the next hop frames anew. Fields that `Connection` names are removed in addition.
const OF_A_HOP: [&str; 13] = [
    "connection",
    "content-length",
    "date",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields that this node has checked and sets anew: origin, client address, host and request id.
const SAID_ANEW: [&str; 7] = [
    HOP,
    "origin",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-request-id",
];

/// Field with the origin of the requesting page.
const ORIGIN: &str = "origin";

/// Fields of a call that are forwarded because the receiving node interprets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeps {
    /// Forward the session fields: the session belongs to the receiving node.
    pub session: bool,
    /// Forward `Origin`: the receiving node checks that the page belongs to the common address of all nodes.
    pub origin: bool,
}

/// Fields of a session.
const OF_A_SESSION: [&str; 2] = ["mcp-session-id", "last-event-id"];

/// Fields that each node adds to its own responses.
const ADDED_HERE: [&str; 2] = ["vary", "x-request-id"];

fn is_among(name: &str, list: &[&str]) -> bool {
    list.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// Returns true if one of these `Connection` values names the field.
fn is_named(name: &str, mut connection: impl Iterator<Item = String>) -> bool {
    connection.any(|value| value.split(',').any(|one| one.trim().eq_ignore_ascii_case(name)))
}

/// Header fields of a forwarded call: the client's own, with its credentials, and those that this node sets.
pub(super) fn outward(request: &Request, (id, from): (&str, IpAddr), keeps: Keeps) -> HeaderMap {
    let Request { headers, .. } = request;
    let mut out = HeaderMap::with_capacity(headers.len() + 3);
    for (name, value) in headers.iter() {
        let is_ours = is_among(name, &OF_A_HOP)
            || (is_among(name, &SAID_ANEW) && !(keeps.origin && name.eq_ignore_ascii_case(ORIGIN)))
            || (!keeps.session && is_among(name, &OF_A_SESSION))
            || is_named(name, of(headers, "connection"));
        if is_ours {
            continue;
        }
        // Each received byte is the character of its number, so the conversion loses nothing.
        let bytes: Vec<u8> = value.chars().filter_map(|c| u8::try_from(c).ok()).collect();
        let field = HeaderName::from_bytes(name.as_bytes()).ok();
        if let Some((name, value)) = field.zip(HeaderValue::from_bytes(&bytes).ok()) {
            out.append(name, value);
        }
    }
    for (name, value) in [
        (HOP, "1".to_owned()),
        ("x-request-id", id.to_owned()),
        ("x-forwarded-for", from.to_string()),
    ] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            out.insert(HeaderName::from_static(name), value);
        }
    }
    out
}

fn of<'a>(headers: &'a Headers, name: &'a str) -> impl Iterator<Item = String> + 'a {
    headers.get_all(name).map(str::to_owned)
}

/// Head of a forwarded response.
pub(super) fn homeward(status: u16, headers: &HeaderMap) -> Head {
    let connection = || {
        let values = headers.get_all("connection").iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let mut head = Head::new(status);
    for (name, value) in headers {
        let name = name.as_str();
        let is_ours = is_among(name, &OF_A_HOP)
            || is_among(name, &ADDED_HERE)
            || name.starts_with("access-control-")
            || is_named(name, connection());
        // Responses of nodes have ASCII values only.
        if let Some(value) = value.to_str().ok().filter(|_| !is_ours) {
            head = head.header(name.to_owned(), value.to_owned());
        }
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use recalld_http_server::{Method, Version};

    fn asked(fields: &[(&str, &str)]) -> Request {
        let mut headers = Headers::default();
        fields.iter().for_each(|(name, value)| headers.push(name, value.as_bytes()));
        Request {
            method: Method::Post,
            target: "/mcp".into(),
            version: Version::Http11,
            headers,
            body: Vec::new(),
        }
    }

    fn names(map: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<&str> = map.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_is_of_one_connection_or_judged_here_goes_no_further() {
        let request = asked(&[
            ("Host", "a.example"),
            ("Authorization", "Bearer t"),
            ("X-Gateway-Client-Id", "g"),
            ("Content-Type", "application/json"),
            ("Content-Length", "2"),
            ("Connection", "keep-alive, X-Mine"),
            ("Keep-Alive", "timeout=5"),
            ("X-Mine", "1"),
            ("TE", "trailers"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2c"),
            ("Expect", "100-continue"),
            ("Proxy-Authorization", "Basic x"),
            ("Origin", "https://page.example"),
            ("X-Forwarded-For", "203.0.113.9"),
            ("Forwarded", "for=203.0.113.9"),
            ("Recalld-Hop", "7"),
            ("X-Request-Id", "theirs"),
            ("Mcp-Session-Id", "s"),
            ("Last-Event-Id", "0-1"),
        ]);
        let from = IpAddr::from([192, 0, 2, 7]);
        let sent = outward(&request, ("r-1", from), Keeps { session: false, origin: false });
        assert_eq!(
            names(&sent),
            [
                "authorization",
                "content-type",
                "recalld-hop",
                "x-forwarded-for",
                "x-gateway-client-id",
                "x-request-id"
            ]
        );
        assert_eq!(
            (&sent[HOP], &sent["x-forwarded-for"]),
            (&"1".parse().unwrap(), &"192.0.2.7".parse().unwrap())
        );
        assert_eq!(
            (&sent["x-request-id"], &sent["authorization"]),
            (&"r-1".parse().unwrap(), &"Bearer t".parse().unwrap())
        );
        let whole = outward(&request, ("r-1", from), Keeps { session: true, origin: false });
        assert!(whole.contains_key("mcp-session-id") && whole.contains_key("last-event-id"));
    }

    #[test]
    fn what_each_node_adds_comes_back_once() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-type", "application/json"),
            ("content-length", "2"),
            ("transfer-encoding", "chunked"),
            ("connection", "close, x-mine"),
            ("x-mine", "1"),
            ("date", "now"),
            ("x-request-id", "r-1"),
            ("vary", "Origin"),
            ("access-control-allow-origin", "*"),
            ("www-authenticate", "Bearer"),
            ("retry-after", "1"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let Head { status, headers } = homeward(401, &headers);
        let names: Vec<&str> = headers.iter().map(|(name, _)| &**name).collect();
        assert_eq!((status, names), (401, vec!["content-type", "www-authenticate", "retry-after"]));
    }
}
