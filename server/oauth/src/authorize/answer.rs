//! The response to an authorization request: a redirect to the client, or a page for the person.

use crate::error::{ErrorCode, OAuthError};
use crate::pages::{Destination, Problem, Returning, problem, returning};
use crate::redirect::Redirect;
use recalld_http_server::Response;
use recalld_http_server::limits::RETRY_AFTER_SECONDS;

/// The validated redirect URI and `state` of a client. Constructed only after both client and redirect URI are
/// verified.
pub(super) struct Back {
    /// The redirect URI as presented.
    pub redirect: Redirect,
    /// The client's `state`, returned unchanged.
    pub state: Option<String>,
}

/// A failed authorization request, by the recipient of the error.
pub(super) enum Refused {
    /// Error page; the client receives nothing.
    OnPage(Problem),
    /// Redirect to the client at this URL.
    ToClient(String),
    /// Page with a link to the client.
    ByPerson(ByPerson),
}

/// An error delivered to the client only if the person follows the link.
pub(super) struct ByPerson {
    address: String,
    destination: Destination,
    error: ErrorCode,
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self::OnPage(problem)
    }
}

impl Refused {
    pub(super) fn response(self) -> Response {
        match self {
            Self::OnPage(which) => problem(which),
            Self::ToClient(address) => see(address),
            Self::ByPerson(ByPerson { address, destination, error }) => {
                returning(&Returning { destination: &destination, address: &address, error })
            }
        }
    }
}

impl Back {
    /// The redirect that carries an authorization code.
    pub(super) fn with_code(&self, code: &str, issuer: &str) -> Response {
        see(self.redirect.with_code(code, self.state.as_deref(), issuer))
    }

    /// A redirect that carries an error.
    pub(super) fn refused(&self, error: &OAuthError, issuer: &str) -> Refused {
        Refused::ToClient(self.told(error, issuer))
    }

    /// An error before any consent, for a client that may be a stranger's: offered as a link, not as a redirect.
    pub(super) fn offered(
        &self,
        error: &OAuthError,
        issuer: &str,
        destination: Destination,
    ) -> Refused {
        let (address, error) = (self.told(error, issuer), error.code());
        Refused::ByPerson(ByPerson { address, destination, error })
    }

    fn told(&self, error: &OAuthError, issuer: &str) -> String {
        self.redirect.with_error(error, self.state.as_deref(), issuer)
    }
}

/// A 303 response: after a form, the browser follows with GET and without the body (RFC 9110, section 15.4.4).
fn see(address: String) -> Response {
    Response::empty(303)
        .header("location", address)
        .header("cache-control", "no-store")
        .header("pragma", "no-cache")
        .header("referrer-policy", "no-referrer")
        .header("x-content-type-options", "nosniff")
        .header("content-security-policy", "default-src 'none'; frame-ancestors 'none'")
        .header("x-frame-options", "DENY")
}

/// A dependency is unavailable at the moment.
pub(super) fn unavailable() -> Problem {
    Problem::Unavailable { wait_seconds: RETRY_AFTER_SECONDS }
}
