//! The catalog of MCP tools, one module a family.
#![forbid(unsafe_code)]

mod agent_state;
mod artifacts;
mod bench;
pub mod brief;
pub mod catalog;
mod command;
mod connectors;
mod continuity;
pub mod docstore;
mod graph;
pub mod ingest;
pub mod instructions;
pub mod items;
pub mod limits;
pub mod recall;
mod recall_names;
mod recall_text;
mod startup;
pub mod status;
mod tenant;
mod verify;
mod work;

pub use catalog::FAMILIES;
pub use catalog::find;
pub use catalog::lacking;
pub use catalog::may_wait;
pub use catalog::named;
pub use catalog::tool_names;
pub use catalog::unknown;
pub use catalog::visible_to;
pub use items::would_forget;
