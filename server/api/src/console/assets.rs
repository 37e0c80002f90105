//! The files of the console: one page, its style, and its scripts, one module per view.

use recalld_http_server::own_page::{Asset, Kind};

const fn script(path: &'static str, bytes: &'static [u8]) -> Asset {
    Asset { path, kind: Kind::Script, bytes }
}

/// The HTML page.
pub const PAGE: Asset =
    Asset { path: "/console", kind: Kind::Page, bytes: include_bytes!("page/index.html") };
/// The style sheet.
pub const STYLE: Asset = Asset {
    path: "/console/style.css",
    kind: Kind::Style,
    bytes: include_bytes!("page/style.css"),
};
/// Sets the light or dark theme before the first paint.
pub const THEME: Asset = script("/console/theme.js", include_bytes!("page/theme.js"));
/// Selects the view and handles the keyboard.
pub const APP: Asset = script("/console/app.js", include_bytes!("page/app.js"));
/// Sends requests to the service.
pub const ASK: Asset = script("/console/ask.js", include_bytes!("page/ask.js"));
/// Selects the workspace to show.
pub const WHOSE: Asset = script("/console/whose.js", include_bytes!("page/whose.js"));
/// Builds elements and formats values.
pub const SHOW: Asset = script("/console/show.js", include_bytes!("page/show.js"));
/// The views of the start page and of the search.
pub const SEARCH: Asset = script("/console/search.js", include_bytes!("page/search.js"));
/// The view of one item.
pub const ITEM: Asset = script("/console/item.js", include_bytes!("page/item.js"));
/// Corrects or forgets an item.
pub const CHANGE: Asset = script("/console/change.js", include_bytes!("page/change.js"));
/// Draws a graph.
pub const GRAPH: Asset = script("/console/graph.js", include_bytes!("page/graph.js"));
/// The filters above a list.
pub const FILTERS: Asset = script("/console/filters.js", include_bytes!("page/filters.js"));
/// The view of documents.
pub const DOCUMENTS: Asset = script("/console/documents.js", include_bytes!("page/documents.js"));
/// The view of tasks, follow-ups and the brief.
pub const WORK: Asset = script("/console/work.js", include_bytes!("page/work.js"));
/// The view of the ledger.
pub const LEDGER: Asset = script("/console/ledger.js", include_bytes!("page/ledger.js"));
/// The view of statistics.
pub const FIGURES: Asset = script("/console/figures.js", include_bytes!("page/figures.js"));
/// Draws a plot.
pub const PLOT: Asset = script("/console/plot.js", include_bytes!("page/plot.js"));
/// The view of tenants.
pub const TENANTS: Asset = script("/console/tenants.js", include_bytes!("page/tenants.js"));
/// The view of a tenant's keys.
pub const KEYS: Asset = script("/console/keys.js", include_bytes!("page/keys.js"));
/// Code shared by the acts of administration.
pub const ACTS: Asset = script("/console/acts.js", include_bytes!("page/acts.js"));
