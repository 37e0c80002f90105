//! In-process tests of each tool of the catalog: its effect on the store, its answers and its denials. Embeddings are
//! random, and the tests set the clock.

mod agent_state;
mod artifacts;
mod bench;
mod briefs;
mod claims;
mod command;
mod connectors;
mod continuity;
mod docstore;
mod export;
mod graph;
mod ingest;
mod items;
mod labelled;
mod page;
mod rows;
mod secrets;
mod staleness;
mod status;
mod tenant;
mod verify;
mod work;
mod written;

use serde_json::Value;

/// The texts of a field in the rows of a list.
#[track_caller]
fn texts<'a>(answer: &'a Value, list: &str, field: &str) -> Vec<&'a str> {
    let rows = answer[list].as_array().unwrap();
    rows.iter().map(|row| row[field].as_str().unwrap()).collect()
}
