//! Family `items`: tools for single memories.

mod beside;
mod chain;
mod contradictions;
mod duplicates;
mod forget;
mod found;
mod get;
mod pages;
mod remember;
mod sources;
mod supersede;
mod timeline;

pub use forget::would_forget;

use recalld_tool_framework::Family;

limit_table::limits! {
    pub(crate) const LIMITS = [
        beside, chain, contradictions, duplicates, forget, get, pages, remember, sources, supersede,
        timeline,
    ];
}

pub(super) static FAMILY: Family = Family {
    name: "items",
    about: "Write and read single memories.",
    tools: &[
        remember::ROW,
        get::ROW,
        supersede::ROW,
        chain::ROW,
        timeline::ROW,
        forget::ROW,
        sources::LIST_ROW,
        sources::ONE_ROW,
        duplicates::ROW,
        contradictions::ROW,
    ],
};
