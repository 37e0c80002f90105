//! `GET /docs`: the documentation page of the HTTP API, with a form to try each operation.
//!
//! Three files are built into the program: the page, its script and its style. The page may load these two and
//! `/openapi.json` from its own origin, and nothing else. The script inserts data as text only.

use recalld_http_server::own_page::{Asset, Kind};

/// The HTML page.
pub const PAGE: Asset =
    Asset { path: "/docs", kind: Kind::Page, bytes: include_bytes!("page/index.html") };
/// The script.
pub const SCRIPT: Asset =
    Asset { path: "/docs/page.js", kind: Kind::Script, bytes: include_bytes!("page/page.js") };
/// The style sheet.
pub const STYLE: Asset =
    Asset { path: "/docs/page.css", kind: Kind::Style, bytes: include_bytes!("page/page.css") };
