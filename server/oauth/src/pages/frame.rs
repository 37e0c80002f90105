//! Common layout of all pages: head, foot, style and response headers.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::markup::Html;
use recalld_http_server::Response;

/// Inlined, so that no second request or route is needed. The policy names the style's hash, so no other style applies,
/// and neither page nor hash depends on a random nonce.
const STYLE: &str = include_str!("page.css");

/// The source expression of [`STYLE`] (CSP 3, section 2.3.1).
static STYLE_SOURCE: LazyLock<String> =
    LazyLock::new(|| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(STYLE))));

/// Allowed targets of the page's forms (`form-action`).
pub(super) enum Forms {
    /// The page has no forms.
    None,
    /// This server only.
    Own,
    /// This server, then the client and any redirect after the client. Browsers apply `form-action` to every redirect
    /// of a form submission, including the client's own, so no directive is sent.
    OwnAndOn,
}

/// A complete page.
pub(super) struct Page<'a> {
    /// HTTP status.
    pub status: u16,
    /// Window title, shown before the product name.
    pub title: &'a str,
    /// Content of `main`.
    pub content: Html,
    /// Allowed form targets.
    pub forms: Forms,
}

impl Page<'_> {
    /// Renders the page with its security headers.
    pub(super) fn answer(self) -> Response {
        let policy = policy(&self.forms);
        let mut html = Html::new();
        html.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
            .raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
            .raw("<meta name=\"robots\" content=\"noindex\">\n")
            .put("<title>{} - Memory recall</title>\n", &[self.title])
            .raw("<link rel=\"icon\" href=\"data:,\">\n<style>")
            .raw(STYLE)
            .raw("</style>\n</head>\n<body>\n<header><strong>Memory recall</strong></header>\n")
            .raw("<main>\n<div class=\"card\">\n")
            .part(&self.content)
            .raw("</div>\n</main>\n</body>\n</html>\n");
        let answer = Response { body: html.into_bytes(), ..Response::empty(self.status) };
        answer
            .header("content-type", "text/html; charset=utf-8")
            .header("content-security-policy", policy)
            .header("x-frame-options", "DENY")
            .header("referrer-policy", "no-referrer")
            .header("x-content-type-options", "nosniff")
            .header("cache-control", "no-store")
            // Web clients open the page in a new window and wait for that window to return. Any other value severs the
            // window from its opener for good.
            .header("cross-origin-opener-policy", "unsafe-none")
            .header("cross-origin-resource-policy", "same-origin")
            .header("permissions-policy", PERMISSIONS)
    }
}

/// Disables every browser feature listed here.
const PERMISSIONS: &str = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), \
                           hid=(), microphone=(), midi=(), payment=(), publickey-credentials-get=(), \
                           screen-wake-lock=(), serial=(), usb=(), xr-spatial-tracking=()";

fn policy(forms: &Forms) -> String {
    let action = match forms {
        Forms::None => " form-action 'none';",
        Forms::Own => " form-action 'self';",
        Forms::OwnAndOn => "",
    };
    // The empty icon prevents requests for `/favicon.ico`.
    format!(
        "default-src 'none'; style-src {}; img-src data:;{action} frame-ancestors 'none'; base-uri 'none'",
        *STYLE_SOURCE
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The only value of a header.
    pub(crate) fn header<'a>(answer: &'a Response, name: &str) -> &'a str {
        let mut values = answer.head.headers.iter().filter(|(field, _)| field == name);
        let value = values.next().map(|(_, value)| &**value);
        assert!(values.next().is_none(), "{name} is there twice");
        value.unwrap_or_else(|| panic!("{name} is missing"))
    }

    pub(crate) fn text(answer: &Response) -> String {
        String::from_utf8(answer.body.clone()).unwrap()
    }

    /// Checks the invariants of every page; `action` is the expected `form-action`, or empty for none.
    pub(crate) fn check(answer: &Response, status: u16, action: &str) {
        assert_eq!(answer.head.status, status);
        let policy = header(answer, "content-security-policy");
        let (before, after) = policy.split_once("'sha256-").unwrap();
        assert_eq!(before, "default-src 'none'; style-src ");
        let (hash, after) = after.split_once("'; ").unwrap();
        let action = match action {
            "" => String::new(),
            action => format!(" form-action {action};"),
        };
        assert_eq!(
            after,
            format!("img-src data:;{action} frame-ancestors 'none'; base-uri 'none'")
        );
        for (name, value) in [
            ("content-type", "text/html; charset=utf-8"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "unsafe-none"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(header(answer, name), value);
        }
        assert!(header(answer, "permissions-policy").split(", ").all(|one| one.ends_with("=()")));
        for (name, _) in &answer.head.headers {
            assert!(!name.starts_with("access-control-"), "{name}");
        }
        let text = text(answer);
        let style = text.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
        assert_eq!(STANDARD.encode(Sha256::digest(style)), hash);
        for once in ["<title>", "<h1>", "<main", "<header>", "lang=\"en\""] {
            assert_eq!(text.matches(once).count(), 1, "{once}");
        }
        for never in ["<script", "style=\"", " onclick", "src=", "url("] {
            assert!(!text.contains(never), "{never}");
        }
    }

    #[test]
    fn the_style_can_neither_end_early_nor_load_anything() {
        assert!(!STYLE.contains("</") && !STYLE.contains('\r') && STYLE.is_ascii());
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
