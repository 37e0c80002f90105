//! Reads commands in plain words: which tool one is for, and with which arguments.
//!
//! No language model: rules over words, ids, paths, quotes and times (`cues`, `mood`, `parts`, `times`) choose a tool
//! and take its arguments; what cannot be told is not guessed. Knows the names of tools, and calls none.
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

/// The tool that takes commands.
pub const COMMAND: &str = "brain_command";
/// The tool for questions about what is remembered.
const RECALL: &str = "retrieval_arbitrate_tool";
/// The tool for questions about the service.
const STATUS: &str = "brain_status_query_tool";

limit_table::limits! {
    pub const LIMITS = [cues, likely, mood, routes, routing, said, times];
}
