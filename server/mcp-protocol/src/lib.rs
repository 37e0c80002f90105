//! MCP over Streamable HTTP: every published revision on one path.
//!
//! A protocol library: it knows messages, sessions, streams and time bounds, and neither tools nor
//! stores. What a server offers comes from a [`Host`]. `endpoint` takes a POST and asks `era` whose
//! it is; `handshake` and `per_request` keep the rules of the two eras and make a `work` of each
//! request, which is answered by its `line`: one JSON answer, or a stream. A `flight` settles each
//! request once, whatever comes first of answer, time bound and cancellation.
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
