//! The files of the console: one page, its style, and its scripts, each a module of what one view needs.

use recalld_http_server::own_page::{Asset, Kind};

const fn script(path: &'static str, bytes: &'static [u8]) -> Asset {
    Asset { path, kind: Kind::Script, bytes }
}

/// The page.
pub const PAGE: Asset =
    Asset { path: "/console", kind: Kind::Page, bytes: include_bytes!("page/index.html") };
/// Its style.
pub const STYLE: Asset = Asset {
    path: "/console/style.css",
    kind: Kind::Style,
    bytes: include_bytes!("page/style.css"),
};
/// Light or dark, before anything is drawn.
pub const THEME: Asset = script("/console/theme.js", include_bytes!("page/theme.js"));
/// Which view is shown, and the keyboard.
pub const APP: Asset = script("/console/app.js", include_bytes!("page/app.js"));
/// Requests to the service.
pub const ASK: Asset = script("/console/ask.js", include_bytes!("page/ask.js"));
/// Whose workspace is shown.
pub const WHOSE: Asset = script("/console/whose.js", include_bytes!("page/whose.js"));
/// Elements, and how values are written.
pub const SHOW: Asset = script("/console/show.js", include_bytes!("page/show.js"));
/// The start, and search.
pub const SEARCH: Asset = script("/console/search.js", include_bytes!("page/search.js"));
/// One item.
pub const ITEM: Asset = script("/console/item.js", include_bytes!("page/item.js"));
/// An item corrected or forgotten.
pub const CHANGE: Asset = script("/console/change.js", include_bytes!("page/change.js"));
/// The drawing of a graph.
pub const GRAPH: Asset = script("/console/graph.js", include_bytes!("page/graph.js"));
/// Filters above a list.
pub const FILTERS: Asset = script("/console/filters.js", include_bytes!("page/filters.js"));
/// Documents.
pub const DOCUMENTS: Asset = script("/console/documents.js", include_bytes!("page/documents.js"));
/// Tasks, follow-ups, the brief.
pub const WORK: Asset = script("/console/work.js", include_bytes!("page/work.js"));
/// The ledger.
pub const LEDGER: Asset = script("/console/ledger.js", include_bytes!("page/ledger.js"));
/// Figures.
pub const FIGURES: Asset = script("/console/figures.js", include_bytes!("page/figures.js"));
/// The drawing of a plot.
pub const PLOT: Asset = script("/console/plot.js", include_bytes!("page/plot.js"));
/// Tenants.
pub const TENANTS: Asset = script("/console/tenants.js", include_bytes!("page/tenants.js"));
/// Their keys.
pub const KEYS: Asset = script("/console/keys.js", include_bytes!("page/keys.js"));
/// What acts of administration have in common.
pub const ACTS: Asset = script("/console/acts.js", include_bytes!("page/acts.js"));
