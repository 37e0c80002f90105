//! Origins in the form that browsers send: scheme, host, and a port other than the default of the scheme.

use std::fmt;
use std::str::FromStr;

use crate::limits::ORIGIN_BYTES_MAX;

/// An origin in the form that browsers send: scheme, host, and a port other than the default of the scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String);

/// Reason why a text is not an origin.
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
    /// The text, as browsers send the origin.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Origin {
    type Err = NotAnOrigin;

    /// Accepts only the form that a browser sends, so that a configured origin can match: lower case, no default port,
    /// nothing after the authority, and neither `*` nor `null`.
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
