//! Client metadata (RFC 7591): validation of registrations and metadata documents, and the registration response.

use serde_json::{Map, Value, json};

use super::client_auth::AuthMethod;
use super::error::{ErrorCode, OAuthError, untold};
use super::redirect::Redirect;
use recalld_common::secret::Secret;
use recalld_http_server::Response;

/// Maximum size of a registration in bytes.
pub const REGISTRATION_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of redirect URIs of a client.
pub const REDIRECTS_MAX: usize = 16;
/// Maximum length of a client name in characters.
pub(crate) const CLIENT_NAME_CHARS_MAX: usize = 100;
/// Maximum number of entries in a list of grant types or response types.
const LIST_MAX: usize = 16;
const AUTHORIZATION_CODE: &str = "authorization_code";
/// Grant types granted to every registered client.
const GRANTED: [&str; 2] = [AUTHORIZATION_CODE, "refresh_token"];

/// Validated client metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientMetadata {
    /// Display name; an unverified claim.
    pub name: Option<String>,
    /// Redirect URIs; at least one.
    pub redirects: Vec<Redirect>,
    /// Client authentication method.
    pub auth_method: AuthMethod,
}

impl ClientMetadata {
    /// Parses a registration. `content_types` yields all values of `Content-Type`.
    ///
    /// # Errors
    /// `invalid_redirect_uri` for redirect URIs that are missing, too many, or invalid; `invalid_client_metadata` for
    /// all else.
    pub fn of_registration<'a>(
        content_types: impl IntoIterator<Item = &'a str>,
        body: &[u8],
    ) -> Result<Self, OAuthError> {
        let mut types = content_types.into_iter();
        if !types.next().is_some_and(is_json_type) || types.next().is_some() {
            return Err(invalid("the body must be of the type application/json"));
        }
        if body.len() > REGISTRATION_BYTES_MAX {
            return Err(invalid(&format!("it may have {REGISTRATION_BYTES_MAX} bytes at most")));
        }
        match serde_json::from_slice(body) {
            Ok(Value::Object(members)) => Self::of_members(&members, AuthMethod::Basic),
            _ => Err(invalid("the body must be one JSON object")),
        }
    }

    /// Parses the known members. Others (`logo_uri`, `client_uri`, `contacts`, `scope`, `jwks`, `software_id`,
    /// `software_statement`, ...) are ignored, and null equals absent.
    pub(super) fn of_members(
        members: &Map<String, Value>,
        auth_method: AuthMethod,
    ) -> Result<Self, OAuthError> {
        let auth_method = match text(members, "token_endpoint_auth_method")? {
            None => auth_method,
            Some(name) => AuthMethod::named(name).ok_or_else(|| {
                invalid(
                    "token_endpoint_auth_method must be client_secret_basic, client_secret_post or none",
                )
            })?,
        };
        let responses = texts(members, "response_types")?.unwrap_or_else(|| vec!["code"]);
        if !responses.contains(&"code") {
            return Err(invalid("response_types must have code, the one there is"));
        }
        let grants = texts(members, "grant_types")?.unwrap_or_else(|| GRANTED.to_vec());
        if !grants.contains(&AUTHORIZATION_CODE) {
            return Err(invalid(
                "grant_types must have authorization_code: clients of other grants are made by the operator",
            ));
        }
        Ok(Self { name: name(members)?, redirects: redirects(members)?, auth_method })
    }

    /// Members of the registration response. The granted grant types and response types replace the requested ones, to
    /// inform the client (RFC 7591, section 3.2.1).
    fn members(&self) -> Map<String, Value> {
        let mut members = Map::new();
        if let Some(name) = &self.name {
            members.insert("client_name".into(), name.as_str().into());
        }
        let redirects: Vec<&str> = self.redirects.iter().map(Redirect::text).collect();
        members.insert("redirect_uris".into(), json!(redirects));
        members.insert("token_endpoint_auth_method".into(), self.auth_method.name().into());
        members.insert("grant_types".into(), json!(GRANTED));
        members.insert("response_types".into(), json!(["code"]));
        members
    }
}

/// A registered client, for the response.
pub struct Registered<'a> {
    /// Client id.
    pub id: &'a str,
    /// Client secret, disclosed only in this response; `None` for a client without a secret.
    pub secret: Option<&'a Secret>,
    /// Registration time in seconds since the Unix epoch.
    pub issued_at: u64,
    /// The client's validated metadata.
    pub metadata: &'a ClientMetadata,
}

impl Registered<'_> {
    /// The registration response (RFC 7591, section 3.2.1). A secret never expires before its client.
    pub fn response(&self) -> Response {
        let mut members = self.metadata.members();
        members.insert("client_id".into(), self.id.into());
        members.insert("client_id_issued_at".into(), self.issued_at.into());
        if let Some(secret) = self.secret {
            members.insert("client_secret".into(), secret.expose().into());
            members.insert("client_secret_expires_at".into(), 0.into());
        }
        untold(Response::json(201, Value::Object(members).to_string().into_bytes()))
    }
}

fn name(members: &Map<String, Value>) -> Result<Option<String>, OAuthError> {
    let Some(name) = text(members, "client_name")? else { return Ok(None) };
    let name = name.trim();
    if name.chars().count() > CLIENT_NAME_CHARS_MAX {
        let said = format!("client_name may have {CLIENT_NAME_CHARS_MAX} characters at most");
        return Err(invalid(&said));
    }
    if !name.chars().all(is_plain) {
        return Err(invalid(
            "client_name may have no control characters and none that turn text around",
        ));
    }
    Ok(Some(name).filter(|name| !name.is_empty()).map(str::to_owned))
}

/// Returns true unless the character is a control, a bidirectional control (Unicode Standard Annex 9) or zero-width.
fn is_plain(letter: char) -> bool {
    let is_hidden = matches!(
        letter,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    !letter.is_control() && !is_hidden
}

fn redirects(members: &Map<String, Value>) -> Result<Vec<Redirect>, OAuthError> {
    let refused = |said: &str| OAuthError::new(ErrorCode::InvalidRedirectUri, said);
    let Some(Value::Array(list)) = members.get("redirect_uris") else {
        return Err(refused("redirect_uris must be a list of URIs"));
    };
    if list.is_empty() || list.len() > REDIRECTS_MAX {
        return Err(refused(&format!("redirect_uris must have 1 to {REDIRECTS_MAX} URIs")));
    }
    let redirect = |value: &Value| {
        let text =
            value.as_str().ok_or_else(|| refused("redirect_uris must be a list of texts"))?;
        Redirect::parse(text).map_err(|fault| refused(&format!("{fault}: {text}")))
    };
    list.iter().map(redirect).collect()
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, OAuthError> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(&format!("{name} must be a text"))),
    }
}

fn texts<'a>(
    members: &'a Map<String, Value>,
    name: &str,
) -> Result<Option<Vec<&'a str>>, OAuthError> {
    let wrong = || invalid(&format!("{name} must be a list of at most {LIST_MAX} texts"));
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(list)) if list.len() <= LIST_MAX => list
            .iter()
            .map(|value| value.as_str().ok_or_else(wrong))
            .collect::<Result<_, _>>()
            .map(Some),
        Some(_) => Err(wrong()),
    }
}

/// Returns true for a JSON content type, whatever its parameters: `application/json`, or a subtype with the suffix
/// `+json` (RFC 6839, section 3.1).
pub(super) fn is_json_type(value: &str) -> bool {
    let essence = value.split(';').next().unwrap_or_default().trim_matches([' ', '\t']);
    let essence = essence.to_ascii_lowercase();
    let subtype = essence.strip_prefix("application/").unwrap_or_default();
    subtype == "json" || subtype.ends_with("+json")
}

fn invalid(description: &str) -> OAuthError {
    OAuthError::new(ErrorCode::InvalidClientMetadata, description)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &Value) -> Result<ClientMetadata, OAuthError> {
        ClientMetadata::of_registration(["application/json"], body.to_string().as_bytes())
    }

    #[test]
    fn a_client_has_defaults_and_what_is_not_known_is_ignored() {
        let read = read(&json!({
            "redirect_uris": ["http://127.0.0.1:3000/cb", "https://app.example/cb"],
            "client_name": " Notes \u{e9} ",
            "logo_uri": "http://169.254.169.254/", "jwks_uri": 5, "scope": "everything", "x": [],
            "software_statement": "a.b.c", "grant_types": null,
        }))
        .unwrap();
        assert_eq!(read.name.as_deref(), Some("Notes \u{e9}"));
        assert_eq!(read.auth_method, AuthMethod::Basic);
        assert_eq!(read.members()["grant_types"], json!(["authorization_code", "refresh_token"]));
        assert_eq!(read.redirects.len(), 2);
    }

    #[test]
    fn what_a_client_chose_is_told_back_with_its_secret_once() {
        let metadata = read(&json!({
            "redirect_uris": ["https://app.example/cb"],
            "token_endpoint_auth_method": "client_secret_post",
            "grant_types": ["authorization_code", "refresh_token", "implicit"],
            "response_types": ["code", "token"],
        }))
        .unwrap();
        let secret = Secret::new("s".into());
        let told = |secret| {
            let registered = Registered { id: "c", secret, issued_at: 7, metadata: &metadata };
            let response = registered.response();
            assert_eq!(response.head.status, 201);
            assert!(response.head.headers.iter().any(|(_, value)| value == "no-store"));
            serde_json::from_slice::<Value>(&response.body).unwrap()
        };
        let mut wanted = json!({
            "client_id": "c", "client_id_issued_at": 7, "redirect_uris": ["https://app.example/cb"],
            "token_endpoint_auth_method": "client_secret_post", "response_types": ["code"],
            "grant_types": ["authorization_code", "refresh_token"],
        });
        assert_eq!(told(None), wanted);
        wanted["client_secret"] = "s".into();
        wanted["client_secret_expires_at"] = 0.into();
        assert_eq!(told(Some(&secret)), wanted);
    }

    #[test]
    fn each_field_has_its_bounds() {
        let good = "https://app.example/cb";
        let many = vec![good; REDIRECTS_MAX + 1];
        for (body, code, word) in [
            (json!({}), "invalid_redirect_uri", "list of URIs"),
            (json!({"redirect_uris": good}), "invalid_redirect_uri", "list of URIs"),
            (json!({"redirect_uris": []}), "invalid_redirect_uri", "1 to 16"),
            (json!({"redirect_uris": many}), "invalid_redirect_uri", "1 to 16"),
            (json!({"redirect_uris": [good, 5]}), "invalid_redirect_uri", "texts"),
            (
                json!({"redirect_uris": [good, "http://a.example/"]}),
                "invalid_redirect_uri",
                "use https",
            ),
            (
                json!({"redirect_uris": [good], "client_name": "a".repeat(101)}),
                "invalid_client_metadata",
                "100 characters",
            ),
            (
                json!({"redirect_uris": [good], "client_name": "a\u{202e}b"}),
                "invalid_client_metadata",
                "turn text around",
            ),
            (
                json!({"redirect_uris": [good], "client_name": "a\nb"}),
                "invalid_client_metadata",
                "control",
            ),
            (
                json!({"redirect_uris": [good], "client_name": {}}),
                "invalid_client_metadata",
                "a text",
            ),
            (
                json!({"redirect_uris": [good], "token_endpoint_auth_method": "private_key_jwt"}),
                "invalid_client_metadata",
                "client_secret_basic",
            ),
            (
                json!({"redirect_uris": [good], "grant_types": ["client_credentials"]}),
                "invalid_client_metadata",
                "authorization_code",
            ),
            (
                json!({"redirect_uris": [good], "grant_types": ["refresh_token"]}),
                "invalid_client_metadata",
                "authorization_code",
            ),
            (
                json!({"redirect_uris": [good], "grant_types": []}),
                "invalid_client_metadata",
                "authorization_code",
            ),
            (
                json!({"redirect_uris": [good], "grant_types": "authorization_code"}),
                "invalid_client_metadata",
                "list",
            ),
            (
                json!({"redirect_uris": [good], "grant_types": vec!["authorization_code"; 17]}),
                "invalid_client_metadata",
                "list",
            ),
            (
                json!({"redirect_uris": [good], "response_types": ["token"]}),
                "invalid_client_metadata",
                "code",
            ),
            (json!([]), "invalid_client_metadata", "JSON object"),
        ] {
            let error = read(&body).unwrap_err();
            assert_eq!(error.code().name(), code, "{body}");
            assert!(error.description().contains(word), "{body}: {error}");
        }
        assert!(read(&json!({"redirect_uris": vec![good; REDIRECTS_MAX]})).is_ok());
    }

    #[test]
    fn only_json_of_a_bounded_size_is_read() {
        let good = br#"{"redirect_uris": ["https://app.example/cb"]}"#;
        let read = |types: &[&str], body: &[u8]| {
            ClientMetadata::of_registration(types.iter().copied(), body).map(|_| ())
        };
        assert_eq!(read(&["Application/JSON; charset=utf-8"], good), Ok(()));
        let mut long = good.to_vec();
        long.resize(REGISTRATION_BYTES_MAX, b' ');
        assert_eq!(read(&["application/json"], &long), Ok(()));
        long.push(b' ');
        for (types, body) in [
            (&["application/json"][..], &long[..]),
            (&["application/json", "application/json"], good),
            (&["text/json"], good),
            (&["application/x-www-form-urlencoded"], good),
            (&[], good),
            (&["application/json"], b"{"),
            (&["application/json"], b"\xff"),
            (&["application/json"], &[b'['; 5000]),
        ] {
            let error = read(types, body).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidClientMetadata, "{types:?}");
        }
    }

    #[test]
    fn json_has_several_types() {
        for good in ["application/json", "APPLICATION/JSON;q", "application/oauth-client+json"] {
            assert!(is_json_type(good), "{good}");
        }
        for bad in ["", "text/json", "application/jsonp", "application/", "json", "text/html"] {
            assert!(!is_json_type(bad), "{bad}");
        }
    }
}
