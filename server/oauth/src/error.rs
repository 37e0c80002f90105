//! Errors of the authorization server: codes, statuses and bodies (RFC 6749, section 5.2; RFC 7591, section 3.2.2; RFC
//! 8707, section 2).

use std::fmt;

use serde_json::json;

use recalld_http_server::Response;
use recalld_http_server::limits::RETRY_AFTER_SECONDS;

/// Maximum length of a description in characters; the rest is cut off.
const DESCRIPTION_CHARS_MAX: usize = 240;
/// Challenge to a client whose Basic authentication failed.
const BASIC: &str = "Basic realm=\"recalld\", charset=\"UTF-8\"";

/// The `error` code of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// A parameter is missing, repeated or malformed.
    InvalidRequest,
    /// The client is unknown, or its authentication failed.
    InvalidClient,
    /// The code or refresh token is invalid, or was issued to another client.
    InvalidGrant,
    /// A scope does not exist, or no requested scope can be granted.
    InvalidScope,
    /// The requested resource is not this service.
    InvalidTarget,
    /// The client may not use this grant type.
    UnauthorizedClient,
    /// The grant type is not supported.
    UnsupportedGrantType,
    /// The response type is not supported.
    UnsupportedResponseType,
    /// The person denied the request.
    AccessDenied,
    /// The service failed.
    ServerError,
    /// The service cannot answer now.
    TemporarilyUnavailable,
    /// The redirect URI cannot be registered.
    InvalidRedirectUri,
    /// The client metadata is not accepted.
    InvalidClientMetadata,
    /// A signed request object is not supported (RFC 9101, section 6).
    RequestNotSupported,
    /// A request object by reference is not supported.
    RequestUriNotSupported,
}

impl ErrorCode {
    /// All codes.
    pub const ALL: [Self; 15] = [
        Self::InvalidRequest,
        Self::InvalidClient,
        Self::InvalidGrant,
        Self::InvalidScope,
        Self::InvalidTarget,
        Self::UnauthorizedClient,
        Self::UnsupportedGrantType,
        Self::UnsupportedResponseType,
        Self::AccessDenied,
        Self::ServerError,
        Self::TemporarilyUnavailable,
        Self::InvalidRedirectUri,
        Self::InvalidClientMetadata,
        Self::RequestNotSupported,
        Self::RequestUriNotSupported,
    ];

    /// The code on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::InvalidScope => "invalid_scope",
            Self::InvalidTarget => "invalid_target",
            Self::UnauthorizedClient => "unauthorized_client",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::AccessDenied => "access_denied",
            Self::ServerError => "server_error",
            Self::TemporarilyUnavailable => "temporarily_unavailable",
            Self::InvalidRedirectUri => "invalid_redirect_uri",
            Self::InvalidClientMetadata => "invalid_client_metadata",
            Self::RequestNotSupported => "request_not_supported",
            Self::RequestUriNotSupported => "request_uri_not_supported",
        }
    }

    /// The HTTP status of a response body with this code.
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidClient => 401,
            Self::ServerError => 500,
            Self::TemporarilyUnavailable => 503,
            _ => 400,
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An OAuth error: code and description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthError {
    code: ErrorCode,
    description: String,
    by_basic: bool,
}

impl OAuthError {
    /// An error with a description for the client's developer. Characters that RFC 6749, section 5.2 excludes are
    /// replaced, and an overlong description is cut off.
    pub fn new(code: ErrorCode, description: &str) -> Self {
        let plain = |letter| match letter {
            '"' => '\'',
            ' '..='~' if letter != '\\' => letter,
            _ => '?',
        };
        let description = description.chars().take(DESCRIPTION_CHARS_MAX).map(plain).collect();
        Self { code, description, by_basic: false }
    }

    /// Marks the error as a response to Basic authentication: `invalid_client` then includes a challenge.
    #[must_use]
    pub fn by_basic(self, by_basic: bool) -> Self {
        Self { by_basic, ..self }
    }

    /// The 429 response of a rate limit, in the form of an error (OAU-06). `Retry-After` carries the wait in seconds
    /// (RFC 6585, section 4).
    pub fn too_many(wait_seconds: u32) -> Response {
        let code = ErrorCode::TemporarilyUnavailable.name();
        let description = format!("too many requests; try again in {wait_seconds} s");
        let body = json!({"error": code, "error_description": description});
        untold(Response::json(429, body.to_string().into_bytes()))
            .header("Retry-After", wait_seconds.to_string())
    }

    /// The error code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The sanitized description.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The response with the error in its body (OAU-06).
    pub fn response(&self) -> Response {
        let body = json!({"error": self.code.name(), "error_description": self.description});
        let response = untold(Response::json(self.code.status(), body.to_string().into_bytes()));
        match self.code {
            ErrorCode::InvalidClient if self.by_basic => response.header("WWW-Authenticate", BASIC),
            ErrorCode::TemporarilyUnavailable => {
                response.header("Retry-After", RETRY_AFTER_SECONDS.to_string())
            }
            _ => response,
        }
    }
}

impl fmt::Display for OAuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.description)
    }
}

impl std::error::Error for OAuthError {}

/// Forbids caching of a response (RFC 6749, section 5.1).
pub(super) fn untold(response: Response) -> Response {
    response.header("Cache-Control", "no-store").header("Pragma", "no-cache")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn field<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
        let mut fields = response.head.headers.iter();
        fields.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    #[test]
    fn each_code_has_its_status_and_is_kept_by_nobody() {
        for code in ErrorCode::ALL {
            let response = OAuthError::new(code, "words").response();
            let body: Value = serde_json::from_slice(&response.body).unwrap();
            assert_eq!(body, json!({"error": code.name(), "error_description": "words"}));
            let wanted = match code.name() {
                "invalid_client" => 401,
                "server_error" => 500,
                "temporarily_unavailable" => 503,
                _ => 400,
            };
            assert_eq!(response.head.status, wanted, "{code}");
            assert_eq!(field(&response, "cache-control"), Some("no-store"));
            assert_eq!(field(&response, "retry-after").is_some(), wanted == 503);
            assert_eq!(field(&response, "www-authenticate"), None);
        }
    }

    #[test]
    fn only_who_showed_itself_by_basic_is_challenged_by_basic() {
        let challenge = |code| {
            let response = OAuthError::new(code, "").by_basic(true).response();
            field(&response, "www-authenticate").map(str::to_owned)
        };
        assert!(challenge(ErrorCode::InvalidClient).unwrap().starts_with("Basic realm="));
        assert_eq!(challenge(ErrorCode::InvalidGrant), None);
    }

    #[test]
    fn a_description_has_only_characters_that_an_error_may_have() {
        let error = OAuthError::new(ErrorCode::InvalidRequest, "a \"b\" \\ \r\n\u{e9}~");
        assert_eq!(error.description(), "a 'b' ? ???~");
        let long = OAuthError::new(ErrorCode::InvalidRequest, &"x".repeat(1000));
        assert_eq!(long.description().len(), DESCRIPTION_CHARS_MAX);
    }
}
