//! Family `docstore`: ingested documents, whole and in chunks.
//!
//! `ingest` defines the stored form of a file (format-spec/wire.md, Ingest).

mod chunk;
mod document;
mod history;
mod lines;
mod manifest;
mod outline;
mod search;
mod stored;

pub(crate) use document::DocumentFacts;
pub use document::{DocumentText, GET_DOCUMENT, whole};

use recalld_tool_framework::Family;

limit_table::limits! {
    pub(crate) const LIMITS = [document, lines, outline, search];
}

/// Catalog row of the family `docstore`.
pub static FAMILY: Family = Family {
    name: "docstore",
    about: "Read the documents that were ingested.",
    tools: &[
        manifest::MANIFEST,
        search::SEARCH,
        document::GET,
        chunk::GET,
        lines::GET,
        outline::GET,
        history::HISTORY,
    ],
};
