//! What the pages of ours that run scripts have in common: their policy, and the headers of their files.
//!
//! Such a page may load its own scripts and its own style, and ask its own origin; it writes what it shows as text
//! only.

use crate::Response;

/// What a page may do: its own script, style and requests; no markup made by script; in nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// What a file of a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The page itself.
    Page,
    /// A script.
    Script,
    /// A style.
    Style,
}

/// A file of a page, as it is in the program.
#[derive(Debug)]
pub struct Asset {
    /// Where it is served.
    pub path: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its bytes.
    pub bytes: &'static [u8],
}

impl Asset {
    /// The answer to whoever asks for it.
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
