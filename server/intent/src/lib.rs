//! Routes commands in plain words: selects the tool for a command, and extracts the tool's arguments.
//!
//! The rules are about words, ids, paths, quotes and times; no language model is used. Anything ambiguous stays
//! undecided. The crate knows the names of tools, and calls none.
#![forbid(unsafe_code)]

mod cues;
mod likely;
mod mood;
mod parts;
mod routes;
mod routing;
mod said;
mod times;

pub use likely::likely;
pub use routing::{Choice, RoutedCommand, understand};

/// Tool that executes commands.
pub const COMMAND: &str = "brain_command";
/// Tool for questions about stored memories.
const RECALL: &str = "retrieval_arbitrate_tool";
/// Tool for questions about the service.
const STATUS: &str = "brain_status_query_tool";

limit_table::limits! {
    pub const LIMITS = [cues, likely, mood, routes, routing, said, times];
}
