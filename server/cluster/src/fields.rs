//! Which header fields go along with a call that is passed on, and which come back with its answer.
//!
//! Owns the lists. Must not know who is asked.

use std::net::IpAddr;

use ureq::http::{HeaderMap, HeaderName, HeaderValue};

use recalld_http_server::{Head, Headers, Request};

/// The header of a call that a node passes on: how often that was done.
pub const HOP: &str = "recalld-hop";

/// Fields of one connection (RFC 9110, section 7.6.1), with those that stood for the same before it, and what speaks
/// of a body or of a connection that the next one frames anew. Those that `Connection` names are beside them.
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

/// What this node has judged, and says anew: the page that asks, from where, under which name.
const SAID_ANEW: [&str; 7] = [
    HOP,
    "origin",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-request-id",
];

/// The page that asks.
const ORIGIN: &str = "origin";

/// What of a call means something to the node that it is passed on to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeps {
    /// The session that it names is one of that node.
    pub session: bool,
    /// The page that asks is judged there: it must be one of the address that all nodes have.
    pub origin: bool,
}

/// What belongs to a session of this node.
const OF_A_SESSION: [&str; 2] = ["mcp-session-id", "last-event-id"];

/// What each node adds to its own answers.
const ADDED_HERE: [&str; 2] = ["vary", "x-request-id"];

fn is_among(name: &str, list: &[&str]) -> bool {
    list.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// Whether one of these values of `Connection` names a field.
fn is_named(name: &str, mut connection: impl Iterator<Item = String>) -> bool {
    connection.any(|value| value.split(',').any(|one| one.trim().eq_ignore_ascii_case(name)))
}

/// The fields of a call that is passed on: the client's own, its credentials among them, and what this node says of it.
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
        // What came in as a field is one; a byte stands as the character of its number.
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

/// The head of an answer that is passed back.
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
        // Answers of ours are of plain characters.
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
