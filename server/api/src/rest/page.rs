//! `GET /docs`: a page of our own for the HTTP API, with a form to try each operation.
//!
//! Three files, all ours, put into the program: the page, its script and its style. The page may load these two and
//! `/openapi.json` from its own origin, and nothing else from anywhere; it writes what it shows as text only.

use recalld_http_server::own_page::{Asset, Kind};

/// The page.
pub const PAGE: Asset =
    Asset { path: "/docs", kind: Kind::Page, bytes: include_bytes!("page/index.html") };
/// Its script.
pub const SCRIPT: Asset =
    Asset { path: "/docs/page.js", kind: Kind::Script, bytes: include_bytes!("page/page.js") };
/// Its style.
pub const STYLE: Asset =
    Asset { path: "/docs/page.css", kind: Kind::Style, bytes: include_bytes!("page/page.css") };
