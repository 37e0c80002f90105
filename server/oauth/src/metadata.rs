//! Well-known documents: protected resource metadata (RFC 9728), authorization server metadata (RFC 8414) and the JWKS
//! (RFC 7517). All follow from the service URLs and keys.

use serde_json::{Value, json};
use url::Url;

use super::client_auth::AuthMethod;
use super::error::{ErrorCode, OAuthError};
use super::pkce;
use super::redirect::REDIRECT_BYTES_MAX;
use super::scopes::Scopes;
use super::uri::{self, UriFault};
use recalld_auth::TokenKeys;
use recalld_http_server::Response;

/// Cache lifetime of a document in seconds. Keys are published for longer than this before they sign.
pub(crate) const DOCUMENT_SECONDS: u64 = 300;
/// Path of the authorization endpoint.
pub const AUTHORIZE: &str = "/authorize";
/// Path of the token endpoint.
pub const TOKEN: &str = "/token";
/// Path of the revocation endpoint.
pub const REVOKE: &str = "/revoke";
/// Path of the dynamic client registration endpoint.
pub const REGISTER: &str = "/register";
/// Path of the JWKS.
pub const JWKS: &str = "/.well-known/jwks.json";
/// Path of the authorization server metadata.
pub const SERVER_DOCUMENT: &str = "/.well-known/oauth-authorization-server";
/// Path of the resource metadata; also served with the resource's path appended.
pub const RESOURCE_DOCUMENT: &str = "/.well-known/oauth-protected-resource";
/// Path of the metadata of the resource `/mcp` (RFC 9728, section 3.1).
pub const MCP_RESOURCE_DOCUMENT: &str = "/.well-known/oauth-protected-resource/mcp";
/// Grant types of the token endpoint.
pub const GRANTS: [&str; 3] = ["authorization_code", "refresh_token", "client_credentials"];

/// The public URLs of the service: issuer and resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    issuer: String,
    resource: Url,
}

impl Places {
    /// Validates the URLs. `issuer` is an origin without a trailing slash, `https://recall.example`; `resource` has the
    /// same origin and a path, `https://recall.example/mcp`. Plain HTTP is accepted for `localhost`, `127.0.0.1` and
    /// `[::1]`.
    ///
    /// # Errors
    /// A message that names the violated rule.
    pub fn new(issuer: &str, resource: &str) -> Result<Self, String> {
        let parse = |text: &str| {
            let said = |fault: UriFault| format!("{text:?} is not taken: {fault}");
            uri::parse(text, REDIRECT_BYTES_MAX).map_err(said)
        };
        let (origin, url) = (parse(issuer)?, parse(resource)?);
        let is_local = matches!(origin.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        if origin.scheme() != "https" && !(origin.scheme() == "http" && is_local) {
            return Err(format!("the issuer {issuer:?} must be https, or http on this machine"));
        }
        if origin.as_str().strip_suffix('/') != Some(issuer) {
            return Err(format!(
                "the issuer {issuer:?} must be scheme, host and port, with nothing behind them"
            ));
        }
        let has_path = url.path().len() > 1 && !url.path().ends_with('/') && url.query().is_none();
        if url.origin() != origin.origin() || !has_path {
            return Err(format!(
                "the resource {resource:?} must be {issuer} and a path, without a slash at its end"
            ));
        }
        Ok(Self { issuer: issuer.to_owned(), resource: url })
    }

    /// The issuer (`iss`).
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The resource (`aud` of tokens).
    pub fn resource(&self) -> &str {
        self.resource.as_str()
    }

    /// Returns true if browsers connect by TLS, terminated by the listener or by a proxy in front.
    pub(crate) fn has_tls(&self) -> bool {
        self.resource.scheme() == "https"
    }

    /// URL of the resource metadata, as named by challenges.
    pub fn resource_metadata(&self) -> String {
        format!("{}{RESOURCE_DOCUMENT}{}", self.issuer, self.resource.path())
    }

    /// The resource of a token request (RFC 8707). Without a parameter, this service's resource.
    ///
    /// # Errors
    /// `invalid_target` for any other resource.
    pub fn asked(&self, resource: Option<&str>) -> Result<&str, OAuthError> {
        match resource {
            Some(other) if other != self.resource() => {
                let said = format!("tokens are for the resource {}", self.resource());
                Err(OAuthError::new(ErrorCode::InvalidTarget, &said))
            }
            _ => Ok(self.resource()),
        }
    }

    /// The well-known document at `path`; `None` if there is none (OAU-07 to OAU-09).
    pub fn document(&self, path: &str, keys: &TokenKeys) -> Option<Response> {
        let document = match path {
            SERVER_DOCUMENT => self.server_document(),
            JWKS => keys.document(),
            _ => {
                let suffix = path.strip_prefix(RESOURCE_DOCUMENT)?;
                let is_ours = suffix.is_empty() || suffix == self.resource.path();
                is_ours.then(|| self.resource_document())?
            }
        };
        let response = Response::json(200, document.to_string().into_bytes());
        let kept = format!("public, max-age={DOCUMENT_SECONDS}");
        Some(response.header("Cache-Control", kept).header("Access-Control-Allow-Origin", "*"))
    }

    fn resource_document(&self) -> Value {
        json!({
            "resource": self.resource(),
            "authorization_servers": [self.issuer],
            "scopes_supported": Scopes::everyday().names(),
            "bearer_methods_supported": ["header"],
            "resource_name": "recalld",
        })
    }

    fn server_document(&self) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer);
        json!({
            "issuer": self.issuer,
            "authorization_endpoint": at(AUTHORIZE),
            "token_endpoint": at(TOKEN),
            "registration_endpoint": at(REGISTER),
            "revocation_endpoint": at(REVOKE),
            "jwks_uri": at(JWKS),
            "scopes_supported": Scopes::all().names(),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": GRANTS,
            "token_endpoint_auth_methods_supported": AuthMethod::names(),
            "revocation_endpoint_auth_methods_supported": AuthMethod::names(),
            "code_challenge_methods_supported": [pkce::METHOD],
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": true,
            "protected_resources": [self.resource()],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recalld_auth::TokenKey;

    const ISSUER: &str = "https://recall.example";

    fn places() -> Places {
        Places::new(ISSUER, "https://recall.example/mcp").unwrap()
    }

    fn document(path: &str) -> Option<Value> {
        let keys = TokenKeys::new(&[TokenKey::from_seed(&[1; 32]).public()]).unwrap();
        let response = places().document(path, &keys)?;
        assert_eq!(response.head.status, 200);
        let fields = &response.head.headers;
        let has = |name: &str, wanted: &str| fields.iter().any(|(n, v)| n == name && v == wanted);
        assert!(has("Access-Control-Allow-Origin", "*"), "{fields:?}");
        assert!(has("Cache-Control", "public, max-age=300"), "{fields:?}");
        Some(serde_json::from_slice(&response.body).unwrap())
    }

    #[test]
    fn the_resource_says_who_issues_its_tokens() {
        let wanted = json!({
            "resource": "https://recall.example/mcp",
            "authorization_servers": ["https://recall.example"],
            "scopes_supported":
                ["tenant:read", "brain:proxy", "memory:write", "ingest:write", "agent:state"],
            "bearer_methods_supported": ["header"],
            "resource_name": "recalld",
        });
        for path in
            ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"]
        {
            assert_eq!(document(path), Some(wanted.clone()), "{path}");
        }
        let at = places().resource_metadata();
        assert_eq!(at, "https://recall.example/.well-known/oauth-protected-resource/mcp");
    }

    #[test]
    fn the_server_says_what_clients_look_for() {
        let found = document("/.well-known/oauth-authorization-server").unwrap();
        let methods = json!(["client_secret_basic", "client_secret_post", "none"]);
        let wanted = json!({
            "issuer": "https://recall.example",
            "authorization_endpoint": "https://recall.example/authorize",
            "token_endpoint": "https://recall.example/token",
            "registration_endpoint": "https://recall.example/register",
            "revocation_endpoint": "https://recall.example/revoke",
            "jwks_uri": "https://recall.example/.well-known/jwks.json",
            "scopes_supported": ["tenant:read", "brain:proxy", "memory:write", "ingest:write",
                "agent:state", "audit:read", "bench:run", "identity:assert"],
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "token_endpoint_auth_methods_supported": methods,
            "revocation_endpoint_auth_methods_supported": methods,
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": true,
            "protected_resources": ["https://recall.example/mcp"],
        });
        assert_eq!(found, wanted);
        let resource = document("/.well-known/oauth-protected-resource").unwrap();
        assert_eq!(resource["authorization_servers"][0], found["issuer"]);
    }

    #[test]
    fn there_are_no_other_documents() {
        assert_eq!(document("/.well-known/jwks.json").unwrap()["keys"][0]["kty"], "OKP");
        for path in [
            "/.well-known/oauth-protected-resource/",
            "/.well-known/oauth-protected-resource/other",
            "/.well-known/oauth-protected-resourcemcp",
            "/.well-known/oauth-authorization-server/mcp",
            "/.well-known/openid-configuration",
            "/",
        ] {
            assert_eq!(document(path), None, "{path}");
        }
    }

    #[test]
    fn a_token_is_for_the_resource_to_the_letter() {
        let places = places();
        for good in [None, Some("https://recall.example/mcp")] {
            assert_eq!(places.asked(good).unwrap(), "https://recall.example/mcp");
        }
        for bad in [
            "https://recall.example/mcp/",
            "https://recall.example",
            "https://recall.example/MCP",
            "https://RECALL.example/mcp",
            "https://recall.example:443/mcp",
            "https://evil.example/mcp",
            "http://recall.example/mcp",
            "https://recall.example/mcp#a",
            "mcp",
        ] {
            assert_eq!(
                places.asked(Some(bad)).unwrap_err().code(),
                ErrorCode::InvalidTarget,
                "{bad}"
            );
        }
    }

    #[test]
    fn an_issuer_has_no_path_and_a_resource_has_one() {
        for (issuer, resource) in [
            ("https://recall.example", "https://recall.example/mcp"),
            ("https://recall.example:8443", "https://recall.example:8443/mcp"),
            ("http://127.0.0.1:8790", "http://127.0.0.1:8790/mcp"),
            ("http://localhost:8790", "http://localhost:8790/a/mcp"),
        ] {
            assert!(Places::new(issuer, resource).is_ok(), "{issuer} {resource}");
        }
        for (issuer, resource, word) in [
            ("http://recall.example", "http://recall.example/mcp", "must be https"),
            ("ftp://localhost", "ftp://localhost/mcp", "must be https"),
            ("https://recall.example/", "https://recall.example/mcp", "nothing behind"),
            ("https://recall.example/a", "https://recall.example/mcp", "nothing behind"),
            ("https://recall.example?a", "https://recall.example/mcp", "not taken"),
            ("https://RECALL.example", "https://recall.example/mcp", "normal form"),
            ("https://recall.example", "https://recall.example", "a path"),
            ("https://recall.example", "https://recall.example/", "a path"),
            ("https://recall.example", "https://recall.example/mcp/", "a path"),
            ("https://recall.example", "https://recall.example/mcp?a=b", "a path"),
            ("https://recall.example", "https://other.example/mcp", "a path"),
            ("https://recall.example", "https://recall.example:8443/mcp", "a path"),
            ("recall.example", "https://recall.example/mcp", "absolute"),
        ] {
            let said = Places::new(issuer, resource).unwrap_err();
            assert!(said.contains(word), "{issuer} {resource}: {said}");
        }
    }
}
