//! MCP over Streamable HTTP: every published revision on one path.
//!
//! A protocol library that handles messages, sessions, streams and time limits, and knows neither tools nor stores. A
//! [`Host`] provides the features of the server. `endpoint` accepts a POST and determines its protocol style (`era`).
//! `handshake` and `per_request` implement the two protocol styles and create a `work` for each request. Its `line`
//! answers by one JSON response or a stream. A `flight` completes each request once, by the first of response, time
//! limit and cancellation.
#![forbid(unsafe_code)]

mod abilities;
mod client;
mod endpoint;
mod era;
mod events;
mod fault;
mod flight;
mod handshake;
mod headers;
mod host;
pub mod limits;
mod line;
mod listens;
mod log_level;
mod message;
mod per_request;
mod rounds;
mod seal;
mod session;
mod sessions;
mod shared;
mod timer;
mod work;

pub use client::{AskError, Client};
pub use endpoint::{Body, Endpoint, Figures, Settings, names_session};
pub use era::{HANDSHAKE_LATEST, HANDSHAKE_REVISIONS, MODERN_REVISIONS};
pub use fault::Fault;
pub use host::{Capabilities, Completing, Completion, Followed, Host, List, Listing, Page};
pub use log_level::Level;
pub use rounds::{Input, NeedsInput, Outcome};
pub use shared::{Changes, refusal};

limit_table::limits! {
    pub const LIMITS = [limits];
}
