//! Interfaces of a running service: routes, the HTTP API, MCP, the console and the operator's routes.
//!
//! [`app_state::AppState`] owns all components of the service. The crates below receive only the components that they
//! use.
#![forbid(unsafe_code)]

pub mod app_state;
pub mod console;
pub mod forwarded;
mod guesses;
pub mod limits;
pub mod listeners;
pub mod mcp_host;
pub mod operator;
pub mod pipeline;
pub mod rest;
mod service_error;

limit_table::limits! {
    pub const LIMITS = [console, forwarded, limits];
}
