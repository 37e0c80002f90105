//! Where the answer to an authorization request goes: to its client by a redirect, or on a page to whoever is there.

use crate::error::{ErrorCode, OAuthError};
use crate::pages::{Destination, Problem, Returning, problem, returning};
use crate::redirect::Redirect;
use recalld_http_server::Response;
use recalld_http_server::limits::RETRY_AFTER_SECONDS;

/// Where a client has its answer, and what it wants to read there. Only of a client and a redirect URI that are known
/// to be good.
pub(super) struct Back {
    /// The address, as it was presented.
    pub redirect: Redirect,
    /// The client's own, back to the letter.
    pub state: Option<String>,
}

/// Why an authorization request is not shown, or not answered by a code.
pub(super) enum Refused {
    /// On a page: the client is not told.
    OnPage(Problem),
    /// To the client, by this address.
    ToClient(String),
    /// To the client, if the person who sees the page goes there.
    ByPerson(ByPerson),
}

/// What a client is told by whoever follows the link.
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
    /// The answer.
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
    /// The answer that brings a code.
    pub(super) fn with_code(&self, code: &str, issuer: &str) -> Response {
        see(self.redirect.with_code(code, self.state.as_deref(), issuer))
    }

    /// That the client is told of an error.
    pub(super) fn refused(&self, error: &OAuthError, issuer: &str) -> Refused {
        Refused::ToClient(self.told(error, issuer))
    }

    /// The same where nobody decided anything yet, of a client that may be a stranger's: only a person goes there.
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

/// 303, so that a browser that has sent a form follows with GET and without it (RFC 9110, section 15.4.4).
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

/// Something that it takes is not there at the moment.
pub(super) fn unavailable() -> Problem {
    Problem::Unavailable { wait_seconds: RETRY_AFTER_SECONDS }
}
