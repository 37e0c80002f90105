//! Summary of a redirect URI as shown to people.
//!
//! Parses only the parts that are shown. The caller decides if a client may use the URI; this module only rejects URIs
//! that people and browsers could read differently.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};

/// Longest redirect URI in bytes.
const ADDRESS_BYTES_MAX: usize = 2048;
/// Longest scheme in bytes; application schemes may be reversed host names.
const SCHEME_BYTES_MAX: usize = 64;
/// Longest host name in bytes (RFC 1035, section 2.3.4).
const HOST_BYTES_MAX: usize = 253;

/// Schemes that a browser handles itself instead of opening an application.
const NEVER: [&str; 17] = [
    "about",
    "blob",
    "chrome",
    "content",
    "data",
    "file",
    "filesystem",
    "ftp",
    "intent",
    "javascript",
    "mailto",
    "sms",
    "tel",
    "vbscript",
    "view-source",
    "ws",
    "wss",
];

/// Target of a redirect URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A web host, with its port if given.
    Host { shown: String, is_plain: bool },
    /// A loopback host.
    Here { shown: String },
    /// An application registered for a scheme.
    Application { scheme: String },
}

impl Destination {
    /// Parses an absolute URI: `https`, `http`, or an application's scheme. Returns `None` for any other URI, for user
    /// information, and for a host that is neither an IP address nor made of ASCII letters, digits, dots, hyphens and
    /// underscores.
    pub fn of(address: &str) -> Option<Destination> {
        let is_visible = address.bytes().all(|byte| byte.is_ascii_graphic());
        if address.len() > ADDRESS_BYTES_MAX || !is_visible {
            return None;
        }
        let (scheme, rest) = address.split_once(':')?;
        let scheme = scheme.to_ascii_lowercase();
        match scheme.as_str() {
            "http" | "https" => of_web(&scheme, rest),
            _ => of_application(scheme),
        }
    }

    /// Returns true if the redirect stays on the browser's machine: a loopback host or an application.
    pub fn is_here(&self) -> bool {
        !matches!(self.place, Place::Host { .. })
    }

    /// Host or scheme, as shown to people.
    pub(super) fn shown(&self) -> &str {
        match &self.place {
            Place::Host { shown, .. } | Place::Here { shown } => shown,
            Place::Application { scheme } => scheme,
        }
    }

    /// Additional text about the target.
    pub(super) fn remark(&self) -> &'static str {
        match &self.place {
            Place::Host { is_plain: false, .. } => "over an encrypted connection",
            Place::Host { is_plain: true, .. } => "over a connection that is not encrypted",
            Place::Here { .. } => "a program on this computer",
            Place::Application { .. } => "the application that opens such links on this computer",
        }
    }
}

fn of_web(scheme: &str, rest: &str) -> Option<Destination> {
    let authority = rest.strip_prefix("//")?.split(['/', '?', '#']).next()?;
    let (host, port) = split_port(authority)?;
    let host = host.to_ascii_lowercase();
    let address = read_ip(&host);
    if address.is_none() && !is_host_name(&host) {
        return None;
    }
    let mut shown = host.clone();
    if let Some(port) = port {
        write!(shown, ":{port}").expect("a text takes what is written to it");
    }
    let is_here = host == "localhost" || address.is_some_and(|ip| ip.is_loopback());
    let place = if is_here {
        Place::Here { shown }
    } else {
        Place::Host { shown, is_plain: scheme == "http" }
    };
    Some(Destination { place })
}

fn of_application(scheme: String) -> Option<Destination> {
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte));
    if !is_scheme || scheme.len() > SCHEME_BYTES_MAX || NEVER.contains(&scheme.as_str()) {
        return None;
    }
    Some(Destination { place: Place::Application { scheme } })
}

/// Splits an authority into host and port. An authority with user information fails here or as a host name.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let end_of_host = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[end_of_host..].split_once(':') {
        None => Some((authority, None)),
        Some((before, port)) => {
            let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let number = port.parse().ok().filter(|_| is_number)?;
            Some((&authority[..end_of_host + before.len()], Some(number)))
        }
    }
}

fn read_ip(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse().ok().filter(IpAddr::is_ipv4),
    }
}

/// Returns true for a valid host name. A last label that starts with a digit is rejected: browsers parse such a host as
/// an IPv4 number, each in its own way.
fn is_host_name(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    host.len() <= HOST_BYTES_MAX
        && host.split('.').all(is_label)
        && !last.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_is_shown_by_its_host() {
        for (address, shown, here) in [
            ("https://App.Example/cb?x=1", "app.example", false),
            ("https://app.example:8443/cb", "app.example:8443", false),
            ("http://127.0.0.1:49152/cb", "127.0.0.1:49152", true),
            ("http://localhost/cb", "localhost", true),
            ("http://[::1]:7/cb", "[::1]:7", true),
            ("https://[2001:db8::1]/cb", "[2001:db8::1]", false),
            ("cursor://callback/x", "cursor", true),
            ("com.example.app:/cb", "com.example.app", true),
            ("https://localhost.example/", "localhost.example", false),
        ] {
            let found = Destination::of(address).unwrap_or_else(|| panic!("{address}"));
            assert_eq!((found.shown(), found.is_here()), (shown, here), "{address}");
        }
    }

    #[test]
    fn what_is_not_written_plainly_is_no_destination() {
        for address in [
            "",
            "https",
            "https:",
            "https:/x",
            "https://",
            "https:///x",
            "//x/",
            "/x",
            "https://a;b/",
            "https://a b/",
            "https://a,b/",
            "https://a'b/",
            "https://*/",
            "https://*.a/",
            "https://a@b/",
            "https://a:b@c/",
            "https://a:/",
            "https://a:99999/",
            "https://a:+1/",
            "https://[::1/",
            "https://::1/",
            "https://[::1]x/",
            "https://[v1.a]/",
            "https://a..b/",
            "https://caf\u{e9}/",
            "https://a\n/",
            "https://a%20b/",
            "https://a\\b/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://a.0x1/",
            "javascript:alert(1)",
            "JavaScript:x",
            "data:text/html,x",
            "file:///x",
            "blob:x",
            "1a:x",
            "a;b:x",
            ":x",
        ] {
            assert_eq!(Destination::of(address), None, "{address:?}");
        }
        assert_eq!(Destination::of(&format!("https://a/{}", "x".repeat(ADDRESS_BYTES_MAX))), None);
        assert_eq!(Destination::of(&format!("{}:x", "x".repeat(SCHEME_BYTES_MAX + 1))), None);
    }

    proptest! {
        #[test]
        fn what_is_shown_is_plain(address in "(https?://|[a-z]{1,4}:)?[ -~]{0,40}") {
            if let Some(destination) = Destination::of(&address) {
                let shown = destination.shown();
                prop_assert!(shown.bytes().all(|byte| {
                    byte.is_ascii_alphanumeric() || b"+.-_:[]".contains(&byte)
                }), "{shown}");
                prop_assert!(!shown.is_empty());
            }
        }
    }
}
