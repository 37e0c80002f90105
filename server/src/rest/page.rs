//! `GET /docs`: a page of our own for the HTTP API, with a form to try each operation.
//!
//! Three files, all ours, put into the program: the page, its script and its style. The page may load these two and
//! `/openapi.json` from its own origin, and nothing else from anywhere; it writes what it shows as text only.

use crate::net::Response;

/// What the page may do: its own script, style and requests; no markup made by script; in nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// `GET /docs`.
pub fn docs() -> Response {
    asset("text/html; charset=utf-8", include_bytes!("page/index.html"))
        .header("content-security-policy", POLICY)
        .header("referrer-policy", "no-referrer")
        .header("cross-origin-opener-policy", "same-origin")
}

/// `GET /docs/page.js`.
pub fn script() -> Response {
    asset("text/javascript; charset=utf-8", include_bytes!("page/page.js"))
}

/// `GET /docs/page.css`.
pub fn style() -> Response {
    asset("text/css; charset=utf-8", include_bytes!("page/page.css"))
}

fn asset(kind: &'static str, bytes: &[u8]) -> Response {
    let answer = Response { body: bytes.to_vec(), ..Response::empty(200) };
    answer
        .header("content-type", kind)
        .header("cache-control", "no-cache")
        .header("x-content-type-options", "nosniff")
        .header("cross-origin-resource-policy", "same-origin")
}
