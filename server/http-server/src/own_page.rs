//! Content security policy and asset headers of the server's own pages that run scripts.
//!
//! Such pages may load their own scripts and styles and send requests to their own origin. Their scripts must insert
//! content as text only.

use crate::Response;

/// Allows own scripts, styles and requests; forbids markup created by scripts and embedding in frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// Kind of an asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An HTML page.
    Page,
    /// A script.
    Script,
    /// A style.
    Style,
}

/// A static file of a page, embedded in the program.
#[derive(Debug)]
pub struct Asset {
    /// Path of the asset.
    pub path: &'static str,
    /// Kind of the asset.
    pub kind: Kind,
    /// Contents of the file.
    pub bytes: &'static [u8],
}

impl Asset {
    /// Returns the response with the contents and headers of the asset.
    pub fn answer(&self) -> Response {
        let kind = match self.kind {
            Kind::Page => "text/html; charset=utf-8",
            Kind::Script => "text/javascript; charset=utf-8",
            Kind::Style => "text/css; charset=utf-8",
        };
        let answer = Response { body: self.bytes.to_vec(), ..Response::empty(200) };
        let answer = answer
            .header("content-type", kind)
            .header("cache-control", "no-cache")
            .header("x-content-type-options", "nosniff")
            .header("cross-origin-resource-policy", "same-origin");
        match self.kind {
            Kind::Page => answer
                .header("content-security-policy", POLICY)
                .header("referrer-policy", "no-referrer")
                .header("cross-origin-opener-policy", "same-origin"),
            Kind::Script | Kind::Style => answer,
        }
    }
}
