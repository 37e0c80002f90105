//! What all pages have in common: head and foot, the style, and the headers of the answer.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::markup::Html;
use recalld_http_server::Response;

/// In the page itself, so that there is no second request and no second route; the policy names its hash, so that
/// no other style is applied, and neither the page nor the hash depends on anything random.
const STYLE: &str = include_str!("page.css");

/// The source expression of [`STYLE`] (CSP 3, section 2.3.1).
static STYLE_SOURCE: LazyLock<String> =
    LazyLock::new(|| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(STYLE))));

/// Where the page's forms may lead.
pub(super) enum Forms {
    /// There are none.
    None,
    /// To us.
    Own,
    /// To us, and from there to the client, and on to wherever that leads: browsers hold every redirect that follows a
    /// form to `form-action`, those of the client's own among them, so that nothing can be said of it.
    OwnAndOn,
}

/// A page of its own.
pub(super) struct Page<'a> {
    /// The status of the answer.
    pub status: u16,
    /// What the window is called, before our own name.
    pub title: &'a str,
    /// What it is all about, as `main` has it.
    pub content: Html,
    /// Where its forms may lead.
    pub forms: Forms,
}

impl Page<'_> {
    /// The answer.
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
            // Web clients open the page in a window of its own and wait for that window to come back to them; any
            // other value cuts it off from them for good.
            .header("cross-origin-opener-policy", "unsafe-none")
            .header("cross-origin-resource-policy", "same-origin")
            .header("permissions-policy", PERMISSIONS)
    }
}

/// No feature of the browser is for these pages.
const PERMISSIONS: &str = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), \
                           hid=(), microphone=(), midi=(), payment=(), publickey-credentials-get=(), \
                           screen-wake-lock=(), serial=(), usb=(), xr-spatial-tracking=()";

fn policy(forms: &Forms) -> String {
    let action = match forms {
        Forms::None => " form-action 'none';",
        Forms::Own => " form-action 'self';",
        Forms::OwnAndOn => "",
    };
    // An icon without content keeps browsers from asking for one.
    format!(
        "default-src 'none'; style-src {}; img-src data:;{action} frame-ancestors 'none'; base-uri 'none'",
        *STYLE_SOURCE
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The one value of a header.
    pub(crate) fn header<'a>(answer: &'a Response, name: &str) -> &'a str {
        let mut values = answer.head.headers.iter().filter(|(field, _)| field == name);
        let value = values.next().map(|(_, value)| &**value);
        assert!(values.next().is_none(), "{name} is there twice");
        value.unwrap_or_else(|| panic!("{name} is missing"))
    }

    /// The text of a page.
    pub(crate) fn text(answer: &Response) -> String {
        String::from_utf8(answer.body.clone()).unwrap()
    }

    /// What holds for every page; `action` is where its forms may lead, if that is said.
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
