//! Client ID metadata documents: a client whose id is the URL of what it says of itself (OAuth Client ID Metadata
//! Document, which MCP asks for).
//!
//! Owns which URLs are such ids and what a document must say. Must not know how it is fetched.

use std::fmt;

use serde_json::Value;
use url::{Host, Url};

use super::client_auth::{AuthMethod, CLIENT_ID_BYTES_MAX};
use super::error::{ErrorCode, OAuthError};
use super::fetch::{FetchFault, Fetched};
use super::register::{ClientMetadata, is_json_type};
use super::uri::{self, UriFault};

/// A client id that is the URL of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientUrl(Url);

/// Why a client has no document that is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DocumentFault {
    /// The id is no URI that is taken.
    Uri(UriFault),
    /// The id is a URI, and none of a document.
    NotADocument(&'static str),
    /// The document cannot be had.
    Fetch(FetchFault),
    /// It is of this type.
    Type(String),
    /// It is no JSON object.
    NotAnObject,
    /// Its `client_id` is not its own URL.
    OtherClient,
    /// It has a secret, or asks for one: everyone can read it.
    Secret,
    /// What it says is not taken.
    Metadata(OAuthError),
}

impl fmt::Display for DocumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(fault) => write!(f, "the client id is not taken: {fault}"),
            Self::NotADocument(why) => f.write_str(why),
            Self::Fetch(fault) => write!(f, "the client's document: {fault}"),
            Self::Type(found) => {
                write!(
                    f,
                    "the client's document is of the type {found:?}, wanted is application/json"
                )
            }
            Self::NotAnObject => f.write_str("the client's document is no JSON object"),
            Self::OtherClient => {
                f.write_str("client_id in the client's document is not the URL it was fetched from")
            }
            Self::Secret => f.write_str(
                "the client's document has a secret; token_endpoint_auth_method must be none",
            ),
            Self::Metadata(error) => write!(f, "the client's document: {}", error.description()),
        }
    }
}

impl std::error::Error for DocumentFault {}

impl From<&DocumentFault> for OAuthError {
    fn from(fault: &DocumentFault) -> Self {
        let code = if fault.is_passing() {
            ErrorCode::TemporarilyUnavailable
        } else {
            ErrorCode::InvalidClient
        };
        match fault {
            DocumentFault::Fetch(FetchFault::Busy) => Self::new(code, &fault.to_string()),
            DocumentFault::Fetch(_) => Self::new(code, NOT_HAD),
            _ => Self::new(code, &fault.to_string()),
        }
    }
}

/// The same words for whatever the way there, or its end, was like (OAU-25).
const NOT_HAD: &str = "the client's document cannot be had";

impl DocumentFault {
    /// Whether it may be over by itself.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Fetch(fault) if fault.is_passing())
    }

    /// Whether it says that there is no such document, or another one than there was; else what was had before is as
    /// good as ever.
    pub(crate) fn is_of_document(&self) -> bool {
        match self {
            Self::Fetch(fault) => fault.is_gone(),
            _ => true,
        }
    }

    /// Whether it tells whoever asks something of a place that they named, so that to ask is to guess.
    pub(crate) fn is_told_of_elsewhere(&self) -> bool {
        !matches!(self, Self::Fetch(FetchFault::Busy))
    }
}

impl ClientUrl {
    /// Whether a client id is meant as the URL of a document; ids of ours never begin so.
    pub fn is_meant(client_id: &str) -> bool {
        client_id.contains("://")
    }

    /// The URL that a client id is: `https`, a host by name, no port, a path, no fragment, no user, no dot
    /// segments, at most `CLIENT_ID_BYTES_MAX` bytes, in its normal form.
    ///
    /// # Errors
    /// The first of these that it breaks.
    pub fn parse(client_id: &str) -> Result<Self, DocumentFault> {
        let url = uri::parse(client_id, CLIENT_ID_BYTES_MAX).map_err(DocumentFault::Uri)?;
        let wrong = match url.host() {
            _ if url.scheme() != "https" => Some("the URL of a client must be https"),
            Some(Host::Domain(_)) if url.port().is_some() => {
                Some("the URL of a client may have no port")
            }
            Some(Host::Domain(_)) if url.path().len() < 2 => {
                Some("the URL of a client must have a path")
            }
            Some(Host::Domain(_)) => None,
            _ => Some("the URL of a client must name its host, not give an address"),
        };
        wrong.map_or(Ok(Self(url)), |why| Err(DocumentFault::NotADocument(why)))
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        self.0.as_str()
    }

    /// Its host, the one thing about such a client that is certain.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }
}

/// What a client says of itself in its document, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientDocument {
    /// Where it was found: the client's id.
    pub url: ClientUrl,
    /// What it says. It never has a secret.
    pub metadata: ClientMetadata,
}

impl ClientDocument {
    /// Reads what was fetched from `url`.
    ///
    /// # Errors
    /// When it is of another type, no JSON object, of another client, has a secret, or when what it says is not
    /// taken.
    pub fn read(url: &ClientUrl, fetched: &Fetched) -> Result<Self, DocumentFault> {
        if !is_json_type(&fetched.content_type) {
            let found = fetched.content_type.chars().take(80).collect();
            return Err(DocumentFault::Type(found));
        }
        let Ok(Value::Object(members)) = serde_json::from_slice(&fetched.body) else {
            return Err(DocumentFault::NotAnObject);
        };
        if members.get("client_id").and_then(Value::as_str) != Some(url.text()) {
            return Err(DocumentFault::OtherClient);
        }
        if members.keys().any(|name| name.starts_with("client_secret")) {
            return Err(DocumentFault::Secret);
        }
        let metadata = ClientMetadata::of_members(&members, AuthMethod::None);
        let metadata = metadata.map_err(DocumentFault::Metadata)?;
        if metadata.auth_method.has_secret() {
            return Err(DocumentFault::Secret);
        }
        Ok(Self { url: url.clone(), metadata })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const URL: &str = "https://app.example/oauth/client.json";

    fn read(content_type: &str, body: &str) -> Result<ClientDocument, DocumentFault> {
        let url = ClientUrl::parse(URL).unwrap();
        let fetched = Fetched {
            content_type: content_type.into(),
            max_age_seconds: None,
            body: body.as_bytes().to_vec(),
        };
        ClientDocument::read(&url, &fetched)
    }

    #[test]
    fn a_client_id_that_is_a_url_has_one_form() {
        for good in [
            URL,
            "https://app.example/a?b=c",
            "https://a.b.example/x/",
            "https://xn--bcher-kva.example/c",
        ] {
            let url = ClientUrl::parse(good).unwrap();
            assert_eq!(url.text(), good);
            assert!(ClientUrl::is_meant(good));
        }
        assert_eq!(ClientUrl::parse(URL).unwrap().host(), "app.example");
        for (bad, word) in [
            ("http://app.example/c", "https"),
            ("ftp://app.example/c", "https"),
            ("https://app.example", "a path"),
            ("https://app.example/", "a path"),
            ("https://app.example/?a=b", "a path"),
            ("https://app.example:8443/c", "no port"),
            ("https://app.example:443/c", "normal form"),
            ("https://127.0.0.1/c", "not give an address"),
            ("https://127.1/c", "normal form"),
            ("https://[::1]/c", "not give an address"),
            ("https://169.254.169.254/latest", "not give an address"),
            ("https://app.example/a/../c", "normal form"),
            ("https://app.example/./c", "normal form"),
            ("https://app.example/%2E%2e/c", "normal form"),
            ("https://APP.example/c", "normal form"),
            ("https://user@app.example/c", "no user"),
            ("https://user:word@app.example/c", "no user"),
            ("https://app.example/c#d", "no fragment"),
            ("https://app.example\\c", "percent-encode"),
            ("https://app.example/c d", "percent-encode"),
            ("com.example.app://c", "https"),
            ("client-1", "absolute"),
            (&format!("{URL}{}", "x".repeat(CLIENT_ID_BYTES_MAX)), "512 bytes"),
        ] {
            let said = ClientUrl::parse(bad).unwrap_err().to_string();
            assert!(said.contains(word), "{bad}: {said}");
        }
        assert!(!ClientUrl::is_meant("acme") && !ClientUrl::is_meant("c_0123"));
    }

    #[test]
    fn a_document_speaks_of_itself_without_secrets() {
        let good = json!({
            "client_id": URL, "client_name": "App", "redirect_uris": ["https://app.example/cb"],
            "token_endpoint_auth_method": "none", "grant_types": ["authorization_code", "refresh_token"],
            "logo_uri": "https://app.example/logo.png",
        });
        let document = read("application/json; charset=utf-8", &good.to_string()).unwrap();
        assert_eq!(document.metadata.name.as_deref(), Some("App"));
        assert_eq!(document.metadata.auth_method, AuthMethod::None);
        let with = |name: &str, value: Value| {
            let mut changed = good.clone();
            changed[name] = value;
            read("application/json", &changed.to_string())
        };
        // A document that names no method has no secret to show.
        assert_eq!(with("token_endpoint_auth_method", Value::Null), Ok(document));
        for (name, value, word) in [
            ("client_id", json!("https://app.example/oauth/client.json/"), "not the URL"),
            ("client_id", json!("https://APP.example/oauth/client.json"), "not the URL"),
            ("client_id", json!([URL]), "not the URL"),
            ("client_id", Value::Null, "not the URL"),
            ("client_secret", json!("s"), "secret"),
            ("client_secret_expires_at", json!(0), "secret"),
            ("token_endpoint_auth_method", json!("client_secret_basic"), "secret"),
            ("token_endpoint_auth_method", json!("client_secret_post"), "secret"),
            ("token_endpoint_auth_method", json!("private_key_jwt"), "token_endpoint_auth_method"),
            ("redirect_uris", json!(["http://app.example/cb"]), "use https"),
            ("redirect_uris", json!([]), "1 to 16"),
            ("client_name", json!("a\u{202e}b"), "turn text around"),
        ] {
            let fault = with(name, value.clone()).unwrap_err();
            assert!(fault.to_string().contains(word), "{name} {value}: {fault}");
            assert_eq!(OAuthError::from(&fault).code(), ErrorCode::InvalidClient);
        }
        for (content_type, body) in [
            ("text/html", good.to_string()),
            ("", good.to_string()),
            ("application/json", "[]".into()),
            ("application/json", "<html>".into()),
            ("application/json", String::new()),
        ] {
            assert!(read(content_type, &body).is_err(), "{content_type} {body}");
        }
    }
}
