//! What the authorization server answers on the hosted listener.

use crate::context::OAuthContext;
use recalld_http_server::refusal::Refusal;
use recalld_http_server::{Call, Response};

/// A document anyone may read (OAU-07 to OAU-09). 404 where nothing issues tokens; 503 where the keys are not known
/// and cannot be read.
pub fn document(context: &OAuthContext<'_>, call: &Call) -> Response {
    let Some(authority) = context.authority else {
        return Refusal::new(404, "Not Found").into();
    };
    let path = call.request.path();
    match authority.with_public(context.control, |keys| authority.places.document(path, keys)) {
        Ok(Some(response)) => response,
        Ok(None) => Refusal::new(404, "Not Found").into(),
        // Why may name a file; whoever runs the server is told with the next sweep.
        Err(_) => Refusal::unavailable("The keys cannot be read now").into(),
    }
}
