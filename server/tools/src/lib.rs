//! MCP tools of the service, one module per family.
#![forbid(unsafe_code)]

mod agent_state;
mod artifacts;
mod bench;
pub mod brief;
mod catalog;
mod command;
mod continuity;
pub mod docstore;
mod graph;
pub mod ingest;
pub mod instructions;
pub mod items;
pub mod limits;
pub mod recall;
mod startup;
pub mod status;
mod tenant;
mod verify;
mod work;

pub use catalog::{CATALOG, may_wait};
pub use items::would_forget;

limit_table::limits! {
    pub const LIMITS = [
        agent_state, artifacts, bench, command, continuity, docstore, graph, ingest, items, limits,
        recall, verify, work,
    ];
}
