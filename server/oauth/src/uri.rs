//! Parses URIs from untrusted sources in normal form only.
//!
//! Two parsers must not disagree about the host of a URI. Every URI that a browser would normalize (upper case,
//! `127.1`, a default port, dot segments, a backslash, a line end) is rejected, so that the rest has one meaning.

use std::borrow::Cow;
use std::fmt;

use url::Url;

/// Reason for rejecting a URI.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UriFault {
    /// Longer than this many bytes.
    TooLong(usize),
    /// Contains a character outside RFC 3986, section 2, or an incomplete percent-encoding.
    Character,
    /// Not an absolute URI.
    NotAbsolute,
    /// Contains a user or password.
    UserInfo,
    /// Contains a fragment.
    Fragment,
    /// Differs from its normal form, which is attached.
    NotNormal(String),
}

impl fmt::Display for UriFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(max) => write!(f, "it may have {max} bytes at most"),
            Self::Character => f.write_str("it has a character that a URI must percent-encode"),
            Self::NotAbsolute => f.write_str("it is no absolute URI"),
            Self::UserInfo => f.write_str("it may have no user or password"),
            Self::Fragment => f.write_str("it may have no fragment"),
            Self::NotNormal(normal) => write!(f, "it must be written in its normal form, {normal}"),
        }
    }
}

impl std::error::Error for UriFault {}

/// Parses an absolute URI in normal form, of at most `bytes_max` bytes, without user and fragment. An empty path is
/// accepted for `/`.
pub(super) fn parse(text: &str, bytes_max: usize) -> Result<Url, UriFault> {
    if text.len() > bytes_max {
        return Err(UriFault::TooLong(bytes_max));
    }
    if text.contains('#') {
        return Err(UriFault::Fragment);
    }
    if !text.bytes().all(is_uri_byte) || !is_percent_encoded(text) {
        return Err(UriFault::Character);
    }
    let url = Url::parse(&with_lowercase_host(text)).map_err(|_| UriFault::NotAbsolute)?;
    // The parser drops an empty user, but people would still read an `@`.
    let authority = text.split_once("://").map_or("", |(_, rest)| rest);
    let authority = authority.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(UriFault::UserInfo);
    }
    let is_normal = url.as_str() == text || url.as_str().strip_suffix('/') == Some(text);
    if is_normal { Ok(url) } else { Err(UriFault::NotNormal(url.into())) }
}

/// Writes the host in lower case if the scheme is one for which `Url` decodes the host. Its `idna_adapter` without
/// Unicode data has a debug assertion against upper case behind a byte that is not ASCII, as in `a%DDB`.
fn with_lowercase_host(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once(':') else { return text.into() };
    let slashes = rest.len() - rest.trim_start_matches('/').len();
    let slashes = match &*scheme.to_ascii_lowercase() {
        // The path of a file starts at the third slash; before a host, any number of slashes is skipped.
        "file" => slashes.min(2),
        "http" | "https" | "ws" | "wss" | "ftp" => slashes,
        _ => return text.into(),
    };
    let (before, rest) = text.split_at(scheme.len() + 1 + slashes);
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    format!("{before}{}{path}", host.to_ascii_lowercase()).into()
}

/// Returns true for reserved and unreserved characters and `%` (RFC 3986, sections 2.1 to 2.3), except the `#` of a
/// fragment.
fn is_uri_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?[]@!$&'()*+,;=%".contains(&byte)
}

/// Returns true if two hexadecimal digits follow each `%`.
fn is_percent_encoded(text: &str) -> bool {
    let is_hex = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit());
    text.split('%').skip(1).all(|rest| {
        let mut bytes = rest.bytes();
        is_hex(bytes.next()) && is_hex(bytes.next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_its_normal_form_is_taken_as_it_is() {
        for good in [
            "https://a.example",
            "https://a.example/",
            "https://a.example:8443/b/c?d=e&f=%20g",
            "http://127.0.0.1:8080",
            "http://[::1]:5173/callback",
            "https://a.example/%C3%A9",
            "com.example.app:/callback",
            "com.example.app://callback/x",
            "https://xn--bcher-kva.example/",
        ] {
            let url = parse(good, 100);
            let is_same = url
                .as_ref()
                .is_ok_and(|url| url.as_str().trim_end_matches('/') == good.trim_end_matches('/'));
            assert!(is_same, "{good}: {url:?}");
        }
    }

    #[test]
    fn what_readers_could_take_in_two_ways_is_refused() {
        let normal = |text: &str| Err(UriFault::NotNormal(text.to_owned()));
        for (text, wanted) in [
            ("https://A.example/", normal("https://a.example/")),
            ("HTTPS://a.example/", normal("https://a.example/")),
            ("https://a.example:443/", normal("https://a.example/")),
            ("https://a.example/b/../c", normal("https://a.example/c")),
            ("https://a.example/./c", normal("https://a.example/c")),
            ("https://a.example/%2e%2e/c", normal("https://a.example/c")),
            ("http://127.1/", normal("http://127.0.0.1/")),
            ("http://0x7f000001/", normal("http://127.0.0.1/")),
            ("http://2130706433/", normal("http://127.0.0.1/")),
            ("http://[0:0:0:0:0:0:0:1]/", normal("http://[::1]/")),
            ("https:/a.example/", normal("https://a.example/")),
            ("https:a.example", normal("https://a.example/")),
            ("https:///a.example", normal("https://a.example/")),
            ("https://a%2eexample/", normal("https://a.example/")),
            ("https://a%C3%A9B.example/", Err(UriFault::NotAbsolute)),
            ("http:a%DDB", Err(UriFault::NotAbsolute)),
            ("FILE:///a%DDB", normal("file:///a%DDB")),
            ("file://a%DDB/", Err(UriFault::NotAbsolute)),
            ("https://a.example\\@b.example/", Err(UriFault::Character)),
            ("https://a.example/ b", Err(UriFault::Character)),
            ("https://a.example/%", Err(UriFault::Character)),
            ("https://a.example/%4", Err(UriFault::Character)),
            ("https://a.example/?a=%4g", Err(UriFault::Character)),
            ("https://a.example/%%41", Err(UriFault::Character)),
            ("https://a.example/\tb", Err(UriFault::Character)),
            ("\nhttps://a.example/", Err(UriFault::Character)),
            ("https://b\u{fc}cher.example/", Err(UriFault::Character)),
            ("https://a.example/<script>", Err(UriFault::Character)),
            ("https://a.example/\"", Err(UriFault::Character)),
            ("https://a.example/#", Err(UriFault::Fragment)),
            ("https://a.example/b#c", Err(UriFault::Fragment)),
            ("https://user@a.example/", Err(UriFault::UserInfo)),
            ("https://@a.example/", Err(UriFault::UserInfo)),
            ("https://a.example:b@c.example/", Err(UriFault::UserInfo)),
            ("com.example://user@a/", Err(UriFault::UserInfo)),
            ("/callback", Err(UriFault::NotAbsolute)),
            ("", Err(UriFault::NotAbsolute)),
            ("//a.example", Err(UriFault::NotAbsolute)),
            ("https://", Err(UriFault::NotAbsolute)),
            ("https://a.example:99999/", Err(UriFault::NotAbsolute)),
            ("https://[::1/", Err(UriFault::NotAbsolute)),
        ] {
            assert_eq!(parse(text, 100).map(|_| ()), wanted, "{text}");
        }
        let long = format!("https://a.example/{}", "a".repeat(100));
        assert_eq!(parse(&long, 100), Err(UriFault::TooLong(100)));
        assert!(parse(&long, long.len()).is_ok());
    }
}
