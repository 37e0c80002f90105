//! Well-known documents on the hosted listener.

use crate::context::OAuthContext;
use recalld_http_server::refusal::Refusal;
use recalld_http_server::{Call, Response};

/// Handles a public well-known document (OAU-07 to OAU-09). 404 without an authorization server; 503 if the keys are
/// not loaded and cannot be read.
pub fn document(context: &OAuthContext<'_>, call: &Call) -> Response {
    let Some(authority) = context.authority else {
        return Refusal::new(404, "Not Found").into();
    };
    let path = call.request.path();
    match authority.with_public(context.control, |keys| authority.places.document(path, keys)) {
        Ok(Some(response)) => response,
        Ok(None) => Refusal::new(404, "Not Found").into(),
        // The cause may name a file; the next periodic reload logs the cause for the operator.
        Err(_) => Refusal::unavailable("The keys cannot be read now").into(),
    }
}
