//! Client id metadata documents: the client id is the HTTPS URL of the client's metadata (OAuth Client ID Metadata
//! Document, required by MCP).
//!
//! Validates ids and documents; fetching is in `client_documents` and `fetch`.

use std::fmt;

use serde_json::Value;
use url::{Host, Url};

use super::client_auth::{AuthMethod, CLIENT_ID_BYTES_MAX};
use super::error::{ErrorCode, OAuthError};
use super::fetch::{FetchFault, Fetched};
use super::register::{ClientMetadata, is_json_type};
use super::uri::{self, UriFault};

/// A client id that is the URL of a metadata document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientUrl(Url);

/// Reason for rejecting a client metadata document.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DocumentFault {
    /// The id is not a valid URI.
    Uri(UriFault),
    /// The id is a URI, but not a document URL; carries the violated rule.
    NotADocument(&'static str),
    /// The document could not be fetched.
    Fetch(FetchFault),
    /// The content type is not JSON; carries the received type.
    Type(String),
    /// The document is not a JSON object.
    NotAnObject,
    /// The document's `client_id` differs from its URL.
    OtherClient,
    /// The document contains or requires a secret, although everyone can read the document.
    Secret,
    /// The metadata is invalid.
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

/// A single message for every fetch failure, so that nothing about the network is revealed (OAU-25).
const NOT_HAD: &str = "the client's document cannot be had";

impl DocumentFault {
    /// Returns true if a retry may succeed.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Fetch(fault) if fault.is_passing())
    }

    /// Returns true if the error shows that the document is gone or has changed. After any other error, a cached
    /// document remains valid.
    pub(crate) fn is_of_document(&self) -> bool {
        match self {
            Self::Fetch(fault) => fault.is_gone(),
            _ => true,
        }
    }

    /// Returns true if the error reveals anything about the host in the client id. The request then counts as a guess.
    pub(crate) fn is_told_of_elsewhere(&self) -> bool {
        !matches!(self, Self::Fetch(FetchFault::Busy))
    }
}

impl ClientUrl {
    /// Returns true if a client id is meant as a document URL; registered ids never contain `://`.
    pub fn is_meant(client_id: &str) -> bool {
        client_id.contains("://")
    }

    /// Parses a client id: an `https` URL with a host name, without port, fragment, user or dot segments, with a path,
    /// in normal form, of at most `CLIENT_ID_BYTES_MAX` bytes.
    ///
    /// # Errors
    /// The first rule that the id violates.
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

    /// The URL as written.
    pub fn text(&self) -> &str {
        self.0.as_str()
    }

    /// The URL's host, the only verified property of the client.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }
}

/// Validated metadata of a client, from its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientDocument {
    /// The document's URL, which is the client id.
    pub url: ClientUrl,
    /// The metadata, never with a secret.
    pub metadata: ClientMetadata,
}

impl ClientDocument {
    /// Parses the document fetched from `url`.
    ///
    /// # Errors
    /// The document has the wrong content type, is not a JSON object, names another client, contains a secret, or has
    /// invalid metadata.
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
        // A document without `token_endpoint_auth_method` means a client without a secret.
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
