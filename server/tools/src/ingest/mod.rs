//! Family `ingest`: files and texts as documents, export and removal of documents.

mod beneath;
mod export;
mod given;
mod paths;
mod status;
mod sweep;
mod text;
mod tombstone;

pub(super) use paths::NAME as INGEST_PATHS;
pub use paths::{readable, run, texts};

use recalld_tool_framework::Family;

limit_table::limits! {
    pub(crate) const LIMITS = [beneath, export, paths, status, sweep, text, tombstone];
}

pub(super) static FAMILY: Family = Family {
    name: "ingest",
    about: "Bring files in.",
    tools: &[paths::ROW, text::ROW, status::ROW, tombstone::ROW, sweep::ROW, export::ROW],
};
