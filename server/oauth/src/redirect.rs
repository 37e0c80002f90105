//! Redirect URIs: rules of registration, comparison with the presented URI, and the redirect itself (OAuth 2.1, section
//! 2.3; RFC 8252, sections 7 and 8).

use std::fmt;

use url::form_urlencoded::Serializer;
use url::{Host, Url};

use super::error::OAuthError;
use super::uri::{self, UriFault};

/// Maximum length of a redirect URI in bytes.
pub(crate) const REDIRECT_BYTES_MAX: usize = 1_024;
/// Response parameters. A redirect URI's own query must not contain them.
const ANSWER_NAMES: [&str; 6] = [CODE, STATE, ISSUER, ERROR, ERROR_DESCRIPTION, "error_uri"];
const CODE: &str = "code";
const STATE: &str = "state";
const ISSUER: &str = "iss";
const ERROR: &str = "error";
const ERROR_DESCRIPTION: &str = "error_description";

/// A valid redirect URI, registered or presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    text: String,
    url: Url,
}

/// Reason for rejecting a redirect URI.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedirectFault {
    /// Not a valid URI.
    Uri(UriFault),
    /// Contains `*`, which would match only itself.
    Wildcard,
    /// The query contains this response parameter.
    Reserved(&'static str),
    /// Plain HTTP to another machine.
    PlainHttp,
    /// A scheme that any program could claim.
    Scheme(String),
}

impl fmt::Display for RedirectFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(fault) => fault.fmt(f),
            Self::Wildcard => {
                f.write_str("it may have no *: a redirect URI is compared to the letter")
            }
            Self::Reserved(name) => write!(f, "its query may have no {name}, which answers add"),
            Self::PlainHttp => {
                f.write_str("http is for localhost, 127.0.0.1 and [::1] only; use https")
            }
            Self::Scheme(scheme) => write!(
                f,
                "the scheme {scheme} is not taken: https, http to this machine, or one of the program's \
                 own with a dot in it (com.example.app:/callback)"
            ),
        }
    }
}

impl std::error::Error for RedirectFault {}

impl Redirect {
    /// Parses a redirect URI: `https`; `http` to `localhost`, `127.0.0.1` or `[::1]`; or a scheme with a dot in it and
    /// a path. No fragment, user, `*` or response parameter, at most `REDIRECT_BYTES_MAX` bytes, in normal form
    /// (OAU-14).
    ///
    /// # Errors
    /// The first rule that the URI violates.
    pub fn parse(text: &str) -> Result<Self, RedirectFault> {
        let url = uri::parse(text, REDIRECT_BYTES_MAX).map_err(RedirectFault::Uri)?;
        let redirect = Self { text: text.to_owned(), url };
        if let Some(name) = redirect.reserved() {
            return Err(RedirectFault::Reserved(name));
        }
        match redirect.url.scheme() {
            _ if text.contains('*') => Err(RedirectFault::Wildcard),
            "https" => Ok(redirect),
            "http" if redirect.is_loopback() => Ok(redirect),
            "http" => Err(RedirectFault::PlainHttp),
            scheme if scheme.contains('.') && !redirect.url.cannot_be_a_base() => Ok(redirect),
            scheme => Err(RedirectFault::Scheme(scheme.to_owned())),
        }
    }

    /// The URI as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Target as shown to people: the host with its port if given, or the application's scheme.
    pub fn place(&self) -> String {
        match (self.url.host_str(), self.url.port()) {
            (Some(host), Some(port)) if self.is_web() => format!("{host}:{port}"),
            (Some(host), None) if self.is_web() => host.to_owned(),
            _ => self.url.scheme().to_owned(),
        }
    }

    /// Returns true for a loopback host: the redirect stays on the person's machine, where any program may receive it.
    pub fn is_loopback(&self) -> bool {
        self.is_web()
            && match self.url.host() {
                Some(Host::Domain(name)) => name == "localhost",
                Some(Host::Ipv4(address)) => address.octets() == [127, 0, 0, 1],
                Some(Host::Ipv6(address)) => address.is_loopback(),
                None => false,
            }
    }

    /// Returns true if `presented` equals this registered URI byte for byte. For plain HTTP to loopback, the port may
    /// differ (RFC 8252, section 7.3), as programs listen on any free port.
    pub fn is_met_by(&self, presented: &str) -> bool {
        if self.text == presented {
            return true;
        }
        if self.url.scheme() != "http" || !self.is_loopback() {
            return false;
        }
        let Ok(other) = Self::parse(presented) else { return false };
        self.around_port() == other.around_port()
    }

    /// The URI with `parameters` appended to its query.
    pub fn answer<'a>(&self, parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
        let mut answer = self.text.clone();
        answer.push(match self.url.query() {
            None => '?',
            Some(_) => '&',
        });
        let start = answer.len();
        Serializer::for_suffix(answer, start).extend_pairs(parameters).finish()
    }

    /// The redirect URL with an authorization code (RFC 6749, section 4.1.2; RFC 9207).
    pub fn with_code(&self, code: &str, state: Option<&str>, issuer: &str) -> String {
        let state = state.map(|state| (STATE, state));
        self.answer([(CODE, code)].into_iter().chain(state).chain([(ISSUER, issuer)]))
    }

    /// The redirect URL with an error (RFC 6749, section 4.1.2.1; RFC 9207).
    pub(crate) fn with_error(
        &self,
        error: &OAuthError,
        state: Option<&str>,
        issuer: &str,
    ) -> String {
        let said = [(ERROR, error.code().name()), (ERROR_DESCRIPTION, error.description())];
        let state = state.map(|state| (STATE, state));
        self.answer(said.into_iter().chain(state).chain([(ISSUER, issuer)]))
    }

    /// Scheme, host, and the part after the port as written.
    fn around_port(&self) -> (&str, Option<&str>, &str) {
        let scheme = self.url.scheme();
        let rest = self.text.get(scheme.len() + "://".len()..).unwrap_or_default();
        let path = rest.find(['/', '?']).unwrap_or(rest.len());
        (scheme, self.url.host_str(), &rest[path..])
    }

    /// The first response parameter found in the URI's query.
    fn reserved(&self) -> Option<&'static str> {
        let mut names = self.url.query_pairs().map(|(name, _)| name);
        names.find_map(|name| ANSWER_NAMES.into_iter().find(|reserved| *reserved == name))
    }

    fn is_web(&self) -> bool {
        matches!(self.url.scheme(), "http" | "https")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    #[test]
    fn what_may_be_registered() {
        for good in [
            "https://app.example/callback",
            "https://app.example",
            "https://app.example:8443/callback?tenant=1",
            "http://127.0.0.1:3000/callback",
            "http://127.0.0.1/callback",
            "http://localhost:6276/oauth/callback",
            "http://[::1]:9/",
            "com.example.app:/callback",
            "com.example.app://callback",
        ] {
            assert_eq!(Redirect::parse(good).map(|it| it.text), Ok(good.to_owned()));
        }
    }

    #[test]
    fn what_may_not_be_registered() {
        let scheme = |scheme: &str| RedirectFault::Scheme(scheme.to_owned());
        for (bad, wanted) in [
            ("http://app.example/callback", RedirectFault::PlainHttp),
            ("http://127.0.0.2/callback", RedirectFault::PlainHttp),
            ("http://localhost.evil.example/", RedirectFault::PlainHttp),
            ("http://127.0.0.1.evil.example/", RedirectFault::PlainHttp),
            ("http://0.0.0.0/", RedirectFault::PlainHttp),
            ("http://[::ffff:7f00:1]/", RedirectFault::PlainHttp),
            ("javascript:alert(1)", scheme("javascript")),
            ("data:text/html,x", scheme("data")),
            ("file:///etc/passwd", scheme("file")),
            ("myapp://callback", scheme("myapp")),
            ("ws://app.example/", scheme("ws")),
            ("com.example.app:callback", scheme("com.example.app")),
            ("urn:ietf:wg:oauth:2.0:oob", scheme("urn")),
            ("https://*.example/callback", RedirectFault::Wildcard),
            ("https://app.example/*", RedirectFault::Wildcard),
            ("https://app.example/cb?a=1&code=2", RedirectFault::Reserved("code")),
            ("https://app.example/cb?%73tate", RedirectFault::Reserved("state")),
            ("com.example.app:/cb?iss=https://evil.example", RedirectFault::Reserved("iss")),
            ("https://app.example/callback#x", RedirectFault::Uri(UriFault::Fragment)),
            ("https://app.example@evil.example/", RedirectFault::Uri(UriFault::UserInfo)),
            ("https://app.example\\@evil.example", RedirectFault::Uri(UriFault::Character)),
            ("/callback", RedirectFault::Uri(UriFault::NotAbsolute)),
            ("", RedirectFault::Uri(UriFault::NotAbsolute)),
        ] {
            assert_eq!(Redirect::parse(bad), Err(wanted), "{bad}");
        }
        let long = format!("https://app.example/{}", "a".repeat(REDIRECT_BYTES_MAX));
        let fault = RedirectFault::Uri(UriFault::TooLong(REDIRECT_BYTES_MAX));
        assert_eq!(Redirect::parse(&long), Err(fault));
    }

    #[test]
    fn a_presented_one_is_the_registered_one_to_the_letter() {
        for (registered, presented, wanted) in [
            ("https://app.example/cb", "https://app.example/cb", true),
            ("https://app.example/cb", "https://app.example/cb/", false),
            ("https://app.example/cb", "https://app.example/CB", false),
            ("https://app.example/cb", "https://app.example:443/cb", false),
            ("https://app.example/cb", "https://app.example:8443/cb", false),
            ("https://app.example/cb", "https://app.example/cb?x=1", false),
            ("https://app.example/cb", "https://app.example/cb/../cb", false),
            ("https://app.example/cb", "https://app.example/c%62", false),
            ("https://app.example/cb", "https://app.example.evil.example/cb", false),
            ("https://app.example/cb", "http://app.example/cb", false),
            ("https://app.example", "https://app.example/", false),
            ("https://localhost/cb", "https://localhost:1/cb", false),
            ("com.example.app:/cb", "com.example.app:/cb", true),
            ("com.example.app:/cb", "com.example.app:/cb2", false),
            // Only the port may differ, on the same loopback host.
            ("http://127.0.0.1:3000/cb", "http://127.0.0.1:51234/cb", true),
            ("http://127.0.0.1/cb", "http://127.0.0.1:51234/cb", true),
            ("http://127.0.0.1:3000/cb", "http://127.0.0.1/cb", true),
            ("http://localhost:3000/cb", "http://localhost:4000/cb", true),
            ("http://[::1]:3000/cb?a=1", "http://[::1]:4000/cb?a=1", true),
            ("http://127.0.0.1:3000", "http://127.0.0.1:4000", true),
            ("http://127.0.0.1:3000", "http://127.0.0.1:4000/", false),
            ("http://127.0.0.1:3000/", "http://127.0.0.1:4000", false),
            ("http://127.0.0.1:3000/cb", "http://localhost:3000/cb", false),
            ("http://127.0.0.1:3000/cb", "http://[::1]:3000/cb", false),
            ("http://127.0.0.1:3000/cb", "https://127.0.0.1:3000/cb", false),
            ("http://127.0.0.1:3000/cb", "http://127.0.0.1:3000/cb2", false),
            ("http://127.0.0.1:3000/cb", "http://127.0.0.1:3000/cb?a=1", false),
            ("http://127.0.0.1:3000/cb?a=1", "http://127.0.0.1:3000/cb?a=2", false),
            ("http://127.0.0.1:3000/cb", "http://127.0.0.1:3000@evil.example/cb", false),
            ("http://127.0.0.1:3000/cb", "http://127.0.0.1:3000/cb#f", false),
            ("http://127.0.0.1:3000/cb", "http://127.1:3000/cb", false),
            ("http://127.0.0.1:3000/cb", "http://evil.example:3000/cb", false),
            ("http://127.0.0.1:3000/cb", "http://127.0.0.1:99999/cb", false),
        ] {
            let Ok(redirect) = Redirect::parse(registered) else { panic!("{registered}") };
            assert_eq!(redirect.is_met_by(presented), wanted, "{registered} and {presented}");
        }
    }

    #[test]
    fn an_answer_keeps_the_query_that_is_there() {
        let answer = |text: &str| {
            let redirect = Redirect::parse(text).unwrap();
            redirect.with_code("c&d", Some("a b\u{e9}="), "https://issuer.example")
        };
        let added = "code=c%26d&state=a+b%C3%A9%3D&iss=https%3A%2F%2Fissuer.example";
        assert_eq!(answer("https://a.example/cb"), format!("https://a.example/cb?{added}"));
        assert_eq!(answer("https://a.example/cb?x=1"), format!("https://a.example/cb?x=1&{added}"));
        assert_eq!(answer("http://127.0.0.1:9"), format!("http://127.0.0.1:9?{added}"));
        assert_eq!(answer("com.example.app:/cb"), format!("com.example.app:/cb?{added}"));
    }

    #[test]
    fn an_error_says_who_sent_it_and_has_a_state_only_where_one_was_given() {
        let redirect = Redirect::parse("https://a.example/cb").unwrap();
        let error = OAuthError::new(ErrorCode::AccessDenied, "no");
        assert_eq!(
            redirect.with_error(&error, None, "https://i.example"),
            "https://a.example/cb?error=access_denied&error_description=no&iss=https%3A%2F%2Fi.example"
        );
        assert!(redirect.with_error(&error, Some("s"), "i").contains("&state=s&"));
    }

    #[test]
    fn people_are_told_where_an_answer_goes() {
        for (text, place, is_loopback) in [
            ("https://app.example/cb", "app.example", false),
            ("https://app.example:8443/cb", "app.example:8443", false),
            ("http://127.0.0.1:3000/cb", "127.0.0.1:3000", true),
            ("http://localhost/cb", "localhost", true),
            ("com.example.app:/cb", "com.example.app", false),
            ("com.example.app://localhost/cb", "com.example.app", false),
        ] {
            let redirect = Redirect::parse(text).unwrap();
            assert_eq!((redirect.place().as_str(), redirect.is_loopback()), (place, is_loopback));
        }
    }
}
