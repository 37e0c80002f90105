//! Parses the client credentials of `/token` and `/revoke` (RFC 6749, section 2.3), without verifying them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use zeroize::Zeroizing;

use super::error::{ErrorCode, OAuthError};
use super::form::{Form, decode};
use recalld_common::secret::Secret;

/// Longest client id in bytes: the URL of a client metadata document is an id.
pub(crate) const CLIENT_ID_BYTES_MAX: usize = 512;
/// Longest accepted secret in bytes; issued secrets have about 60.
const CLIENT_SECRET_BYTES_MAX: usize = 256;
/// Longest `Authorization` value in bytes: id and secret, percent-encoded, in base64.
const BASIC_BYTES_MAX: usize = 4 * 1024;

/// A client authentication method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMethod {
    /// Id and secret in the header `Authorization`.
    Basic,
    /// Id and secret in the body.
    Post,
    /// The id alone.
    None,
}

impl AuthMethod {
    /// All methods.
    pub const ALL: [Self; 3] = [Self::Basic, Self::Post, Self::None];

    /// The `token_endpoint_auth_method` name in metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::None => "none",
        }
    }

    /// The method with this metadata name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Metadata names of all methods.
    pub(super) fn names() -> Vec<Value> {
        Self::ALL.iter().map(|method| method.name().into()).collect()
    }

    /// Returns true if the method uses a secret.
    pub fn has_secret(self) -> bool {
        self != Self::None
    }
}

/// Credentials as presented by a client, not verified.
pub struct ShownClient {
    /// Client id.
    pub id: String,
    /// Client secret, if presented.
    pub secret: Option<Secret>,
    /// The method used. A client with a secret may use Basic or post, whichever was registered: some clients register
    /// one method and use the other.
    pub method: AuthMethod,
    /// True if the `Authorization` header was present: a rejection then includes a challenge.
    pub by_basic: bool,
}

impl ShownClient {
    /// Parses the credentials. `authorization` yields all values of the `Authorization` header.
    ///
    /// # Errors
    /// `invalid_request` for two methods at once; `invalid_client` for none, for an unsupported method, and for
    /// malformed credentials.
    pub fn read<'a>(
        authorization: impl IntoIterator<Item = &'a str>,
        form: &Form,
    ) -> Result<Self, OAuthError> {
        let mut values = authorization.into_iter();
        let header = values.next();
        if values.next().is_some() {
            return Err(two_ways());
        }
        if ["client_assertion", "client_assertion_type"].iter().any(|name| form.get(name).is_some())
        {
            return Err(refused(
                "assertions are not taken; use Basic, post or none",
                header.is_some(),
            ));
        }
        let (id, secret) = (form.once("client_id")?, form.once("client_secret")?);
        let shown = match (header, id, secret) {
            (Some(_), _, Some(_)) => return Err(two_ways()),
            (Some(value), id, None) => {
                let shown = basic(value)?;
                if id.is_some_and(|id| id != shown.id) {
                    return Err(two_ways());
                }
                shown
            }
            (None, Some(id), secret) => Self {
                id: id.to_owned(),
                secret: secret.map(|secret| Secret::new(secret.to_owned())),
                method: if secret.is_some() { AuthMethod::Post } else { AuthMethod::None },
                by_basic: false,
            },
            (None, None, _) => {
                return Err(refused("the client shows itself by Basic, client_id or both", false));
            }
        };
        let secret_bytes = shown.secret.as_ref().map_or(0, |secret| secret.expose().len());
        if shown.id.len() > CLIENT_ID_BYTES_MAX || secret_bytes > CLIENT_SECRET_BYTES_MAX {
            return Err(refused("no client has an id or a secret that long", shown.by_basic));
        }
        Ok(shown)
    }
}

/// Parses `Basic base64(id:secret)` (RFC 7617). Id and secret may be percent-encoded (RFC 6749, section 2.3.1) or
/// plain, as many clients send them. Issued ids and secrets contain no character with two readings. A `+` is a plus,
/// never a space, and issued values contain neither.
fn basic(value: &str) -> Result<ShownClient, OAuthError> {
    let malformed = || refused("Authorization is not Basic with an id and a secret", true);
    if value.len() > BASIC_BYTES_MAX {
        return Err(malformed());
    }
    let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(refused("a client shows itself by Basic, post or none", true));
    }
    let bytes = BASE64_STANDARD.decode(rest.trim_start_matches(' ')).map_err(|_| malformed())?;
    let bytes = Zeroizing::new(bytes);
    let at = bytes.iter().position(|&byte| byte == b':').ok_or_else(malformed)?;
    let id = decode(&bytes[..at], b'+').filter(|id| !id.is_empty()).ok_or_else(malformed)?;
    let secret = Secret::new(decode(&bytes[at + 1..], b'+').ok_or_else(malformed)?);
    // An empty password means a client without a secret.
    let secret = Some(secret).filter(|secret| !secret.expose().is_empty());
    let method = if secret.is_some() { AuthMethod::Basic } else { AuthMethod::None };
    Ok(ShownClient { id, secret, method, by_basic: true })
}

fn two_ways() -> OAuthError {
    let code = ErrorCode::InvalidRequest;
    OAuthError::new(code, "a client shows itself in one way, and names one client")
}

fn refused(description: &str, by_basic: bool) -> OAuthError {
    OAuthError::new(ErrorCode::InvalidClient, description).by_basic(by_basic)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Seen = (String, Option<String>, AuthMethod, bool);

    fn read(headers: &[&str], body: &str) -> Result<Seen, OAuthError> {
        let form = Form::of_body(["application/x-www-form-urlencoded"], body.as_bytes())?;
        ShownClient::read(headers.iter().copied(), &form).map(|shown| {
            let secret = shown.secret.map(|secret| secret.expose().to_owned());
            (shown.id, secret, shown.method, shown.by_basic)
        })
    }

    fn basic(pair: &str) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(pair))
    }

    #[test]
    fn each_way_is_read() {
        use AuthMethod::{Basic, None as Nothing, Post};
        let seen = |id: &str, secret: &str, method, by_basic| {
            let secret = Some(secret.to_owned()).filter(|secret| !secret.is_empty());
            (id.to_owned(), secret, method, by_basic)
        };
        let cases: [(Option<String>, &str, Seen); 11] = [
            (None, "client_id=a", seen("a", "", Nothing, false)),
            (None, "client_id=a&client_secret=", seen("a", "", Nothing, false)),
            (None, "client_id=a&client_secret=s", seen("a", "s", Post, false)),
            (Some(basic("a:s")), "", seen("a", "s", Basic, true)),
            (Some(basic("a:s")), "client_id=a", seen("a", "s", Basic, true)),
            (Some(basic("a:")), "", seen("a", "", Nothing, true)),
            (Some(basic("a:s:t")), "", seen("a", "s:t", Basic, true)),
            (Some(basic("a:s").replace("Basic ", "bASIC  ")), "", seen("a", "s", Basic, true)),
            (Some(basic("ac%2Dme:s%5Ft")), "", seen("ac-me", "s_t", Basic, true)),
            (Some(basic("ac-me:s_t~.")), "", seen("ac-me", "s_t~.", Basic, true)),
            (
                Some(basic("https%3A%2F%2Fa.example%2Fc:x")),
                "",
                seen("https://a.example/c", "x", Basic, true),
            ),
        ];
        for (header, body, wanted) in cases {
            let headers: Vec<&str> = header.as_deref().into_iter().collect();
            assert_eq!(read(&headers, body), Ok(wanted), "{header:?} {body}");
        }
    }

    #[test]
    fn two_ways_at_once_are_refused() {
        let (one, other) = (basic("a:s"), basic("b:s"));
        let cases: [(&[&str], &str); 5] = [
            (&[&one], "client_secret=s"),
            (&[&one], "client_id=a&client_secret=s"),
            (&[&one], "client_id=b"),
            (&[&one, &one], ""),
            (&[&one, &other], ""),
        ];
        for (headers, body) in cases {
            let error = read(headers, body).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidRequest, "{headers:?} {body}");
        }
    }

    #[test]
    fn what_is_no_client_is_challenged_where_it_came_by_the_header() {
        let cases = [
            "Basic".to_owned(),
            "Basic !!!".to_owned(),
            "Bearer abc".to_owned(),
            "Digest username=\"a\"".to_owned(),
            basic("no colon"),
            basic(":secret"),
            basic("a%zz:s"),
            basic("a:s%"),
            basic("a:%ff"),
            basic(&format!("{}:s", "a".repeat(CLIENT_ID_BYTES_MAX + 1))),
            basic(&format!("a:{}", "s".repeat(CLIENT_SECRET_BYTES_MAX + 1))),
            basic(&"a:s".repeat(2000)),
            String::new(),
        ];
        for header in cases {
            let error = read(&[&header], "").unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidClient, "{header}");
            let told = error.response().head.headers;
            assert!(told.iter().any(|(name, _)| name == "WWW-Authenticate"), "{header}");
        }
        let long = format!("client_id={}", "a".repeat(CLIENT_ID_BYTES_MAX + 1));
        for body in [long.as_str(), "client_id=a&client_assertion=x", "client_secret=s", ""] {
            let error = read(&[], body).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidClient, "{body}");
            let told = error.response().head.headers;
            assert!(!told.iter().any(|(name, _)| name == "WWW-Authenticate"), "{body}");
        }
    }
}
