//! ingest: files become memories.

mod export;
mod given;
mod paths;

pub use paths::{readable, run};

use super::Family;

/// The tool that waits until no other ingest runs.
pub const INGEST_PATHS: &str = "ingest_paths_tool";

pub(super) static FAMILY: Family =
    Family { name: "ingest", about: "Bring files in.", tools: &[paths::ROW, export::ROW] };
