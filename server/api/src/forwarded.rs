//! The client's IP address behind trusted proxies.
//!
//! Defines which address counts for failed credentials, registrations and documents (GOV-07). A trusted proxy appends
//! to the right of values that the client wrote. The fields are therefore read from the right, up to the first address
//! that is no trusted proxy.

use std::net::IpAddr;

use crate::app_state::AppState;
use crate::listeners::HOSTED;
use recalld_common::network::Network;
use recalld_http_server::{Call, Headers};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of addresses read: those of a chain of proxies, and one more.
    pub const FORWARDED_MAX: usize = 16;
}

/// Returns the client's address. The local listener has no proxies, so the peer's address counts there.
pub(crate) fn asks_from(parts: &AppState, call: &Call) -> IpAddr {
    let peer = call.peer.ip();
    match call.listener {
        HOSTED => stands_for(peer, &call.request.headers, &parts.config.trusted_proxies),
        _ => peer,
    }
}

/// Returns the client's address. Falls back to `peer`, the other end of the connection, if `peer` is not one of the
/// `proxies`, or if the fields name no client or contradict each other.
fn stands_for(peer: IpAddr, headers: &Headers, proxies: &[Network]) -> IpAddr {
    if !is_trusted(peer, proxies) {
        return peer;
    }
    let forwarded = last_untrusted(headers, "forwarded", proxies, of_forwarded);
    let named = last_untrusted(headers, "x-forwarded-for", proxies, node);
    match (forwarded, named) {
        (Some(Said::Address(one)), Some(Said::Address(other))) if one == other => one,
        // A proxy that sets only one of the two fields may pass the other on as the client wrote it.
        (Some(_), Some(_)) => peer,
        (Some(Said::Address(only)), None) | (None, Some(Said::Address(only))) => only,
        _ => peer,
    }
}

fn is_trusted(address: IpAddr, proxies: &[Network]) -> bool {
    proxies.iter().any(|network| network.contains(address))
}

/// Result of reading a field.
enum Said {
    Address(IpAddr),
    /// No usable address.
    Nothing,
}

/// Returns the last address of a field that is no trusted proxy; `None` if the field is absent.
fn last_untrusted(
    headers: &Headers,
    name: &str,
    proxies: &[Network],
    read: fn(&str) -> Option<IpAddr>,
) -> Option<Said> {
    let values: Vec<&str> = headers.get_all(name).collect();
    if values.is_empty() {
        return None;
    }
    let elements =
        values.into_iter().rev().flat_map(|value| Elements(Some(value))).take(FORWARDED_MAX);
    for element in elements {
        match read(element.trim_matches([' ', '\t'])) {
            None => return Some(Said::Nothing),
            Some(address) if is_trusted(address, proxies) => {}
            Some(address) => return Some(Said::Address(address)),
        }
    }
    Some(Said::Nothing)
}

/// Iterates over the elements of a list from the last to the first (RFC 9110, section 5.6.1). A comma between double
/// quotes does not separate.
struct Elements<'a>(Option<&'a str>);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0.take()?;
        let (before, last) = rsplit_unquoted(text, b',');
        self.0 = before;
        Some(last)
    }
}

/// Splits `text` at the last `at` outside double quotes. Returns the text before and the text after the separator.
fn rsplit_unquoted(text: &str, at: u8) -> (Option<&str>, &str) {
    let mut is_quoted = false;
    for (place, byte) in text.bytes().enumerate().rev() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            byte if byte == at && !is_quoted => {
                return (Some(&text[..place]), &text[place + 1..]);
            }
            _ => {}
        }
    }
    (None, text)
}

/// Returns the address of `for` in an element of `Forwarded` (RFC 7239, sections 4 and 6).
fn of_forwarded(element: &str) -> Option<IpAddr> {
    let mut found = None;
    let mut rest = Some(element);
    while let Some(text) = rest {
        let (before, pair) = rsplit_unquoted(text, b';');
        rest = before;
        let (name, value) = pair.trim_matches([' ', '\t']).split_once('=')?;
        if name.eq_ignore_ascii_case("for") {
            let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            let address = node(bare.unwrap_or(value))?;
            if found.replace(address).is_some() {
                return None;
            }
        }
    }
    found
}

/// Parses an address with or without a port. IPv6 is in brackets, or bare if there is no port.
fn node(text: &str) -> Option<IpAddr> {
    let (address, port): (IpAddr, &str) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            (IpAddr::V6(address.parse().ok()?), port)
        }
        None => match text.parse() {
            Ok(address) => (address, ""),
            Err(_) => {
                let at = text.find(':')?;
                (IpAddr::V4(text[..at].parse().ok()?), &text[at..])
            }
        },
    };
    let is_port = |port: &str| {
        (1..=6).contains(&port.len())
            && port.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
    };
    let is_good = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    is_good.then(|| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PEER: &str = "10.0.0.1";
    const CLIENT: &str = "203.0.113.7";

    fn proxies() -> Vec<Network> {
        ["10.0.0.0/8", "2001:db8:1::/48"].map(|text| text.parse().unwrap()).to_vec()
    }

    fn asked(peer: &str, fields: &[(&str, &str)]) -> String {
        let mut headers = Headers::default();
        fields.iter().for_each(|(name, value)| headers.push(name, value.as_bytes()));
        stands_for(peer.parse().unwrap(), &headers, &proxies()).to_string()
    }

    #[test]
    fn who_is_not_trusted_is_who_it_is() {
        let fields = [("X-Forwarded-For", "198.51.100.1"), ("Forwarded", "for=198.51.100.1")];
        for peer in ["203.0.113.7", "11.0.0.1", "::1", "2001:db8:2::1"] {
            assert_eq!(asked(peer, &fields), peer);
        }
    }

    #[test]
    fn a_trusted_one_says_for_whom_it_asks() {
        for (fields, wanted) in [
            (&[("X-Forwarded-For", "203.0.113.7")][..], CLIENT),
            (&[("x-forwarded-for", "203.0.113.7:4711")], CLIENT),
            (&[("X-Forwarded-For", "198.51.100.1, 203.0.113.7")], CLIENT),
            (&[("X-Forwarded-For", "nonsense,203.0.113.7, 10.1.1.1 ,10.2.2.2")], CLIENT),
            (&[("X-Forwarded-For", "198.51.100.1"), ("X-Forwarded-For", "203.0.113.7")], CLIENT),
            (&[("X-Forwarded-For", "203.0.113.7"), ("X-Forwarded-For", "10.0.0.9")], CLIENT),
            (&[("X-Forwarded-For", "2001:db8::7")], "2001:db8::7"),
            (&[("X-Forwarded-For", "[2001:db8::7]:80, 2001:db8:1::1")], "2001:db8::7"),
            (&[("X-Forwarded-For", "::ffff:203.0.113.7")], CLIENT),
            (&[("Forwarded", "for=203.0.113.7")], CLIENT),
            (
                &[("Forwarded", "For=198.51.100.1, proto=https;FOR=\"203.0.113.7:80\";by=_x")],
                CLIENT,
            ),
            (&[("Forwarded", "for=\"[2001:db8::7]:4711\", for=10.0.0.9")], "2001:db8::7"),
            (&[("Forwarded", "for=\"not closed, for=203.0.113.7")], CLIENT),
            (&[("Forwarded", "for=203.0.113.7;x=\"a,b;c\"")], CLIENT),
            (&[("Forwarded", "for=203.0.113.7"), ("X-Forwarded-For", "203.0.113.7")], CLIENT),
            // If the fields are missing or contradictory, the peer's address counts.
            (&[], PEER),
            (&[("X-Forwarded-For", "")], PEER),
            (&[("X-Forwarded-For", "10.0.0.9")], PEER),
            (&[("X-Forwarded-For", "203.0.113.7, unknown")], PEER),
            (&[("X-Forwarded-For", "203.0.113.7,")], PEER),
            (&[("X-Forwarded-For", "203.0.113.7:")], PEER),
            (&[("X-Forwarded-For", "203.0.113")], PEER),
            (&[("Forwarded", "for=unknown")], PEER),
            (&[("Forwarded", "for=_hidden")], PEER),
            (&[("Forwarded", "by=203.0.113.7")], PEER),
            (&[("Forwarded", "for=203.0.113.7;for=203.0.113.8")], PEER),
            (&[("Forwarded", "for=\"203.0.113.7")], PEER),
            (&[("Forwarded", "for=198.51.100.1"), ("X-Forwarded-For", "203.0.113.7")], PEER),
            (&[("Forwarded", "x"), ("X-Forwarded-For", "203.0.113.7")], PEER),
        ] {
            assert_eq!(asked(PEER, fields), wanted, "{fields:?}");
        }
        let many = vec!["10.0.0.9"; FORWARDED_MAX].join(",");
        assert_eq!(asked(PEER, &[("X-Forwarded-For", &format!("{CLIENT},{many}"))]), PEER);
    }

    /// Generates values a client might send, with parts that resemble addresses, lists and quotes.
    fn written() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("198.51.100.1".to_owned()),
            Just("for=198.51.100.1".to_owned()),
            Just("for=\"[2001:db8::9]\"".to_owned()),
            Just("10.0.0.5".to_owned()),
            "[ -~]{0,6}",
            Just(",".to_owned()),
            Just("\"".to_owned()),
            Just(";".to_owned()),
        ];
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn nobody_chooses_an_address(
            named in proptest::collection::vec(written(), 0..3),
            forwarded in proptest::collection::vec(written(), 0..3),
            is_forwarded in any::<bool>(), is_line in any::<bool>(), is_through_two in any::<bool>(),
        ) {
            let (mut named, mut forwarded) = (named, forwarded);
            // The proxies append to the last line or add a line.
            let added = if is_forwarded { &mut forwarded } else { &mut named };
            let mut hops = vec![CLIENT];
            hops.extend(is_through_two.then_some("10.9.9.9"));
            for hop in hops {
                let element = if is_forwarded { format!("for={hop}") } else { hop.to_owned() };
                match added.last_mut() {
                    Some(last) if !is_line => *last = format!("{last}, {element}"),
                    _ => added.push(element),
                }
            }
            let mut headers = Headers::default();
            named.iter().for_each(|value| headers.push("X-Forwarded-For", value.as_bytes()));
            forwarded.iter().for_each(|value| headers.push("Forwarded", value.as_bytes()));
            let found = stands_for(PEER.parse().unwrap(), &headers, &proxies()).to_string();
            let is_alone = if is_forwarded { named.is_empty() } else { forwarded.is_empty() };
            prop_assert!(found == CLIENT || (found == PEER && !is_alone), "{found}");
        }
    }
}
