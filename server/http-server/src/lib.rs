//! The HTTP/1.1 server: a few threads own the sockets, each its own, and a bounded pool runs the requests.
//!
//! Knows bytes, deadlines and requests; must not know tools, tenants or stores. Flow of one request: `event_loop` reads
//! bytes into a `conn` (a state machine without a socket), which parses them with `http`, `gathering` and `chunked`
//! into a [`Request`]. The [`Service`] answers the request through its [`Reply`] on a worker of the `pool`. The
//! response returns by the `mailbox`, `render` encodes the bytes, and the loop writes them.
#![forbid(unsafe_code)]

mod buffers;
mod chunked;
mod config;
mod conn;
mod cookies;
mod counters;
mod event_loop;
mod expiry;
mod gathering;
mod http;
mod identity;
pub mod limits;
mod line;
mod live;
#[cfg(any(test, feature = "test-util"))]
pub mod loose;
mod mailbox;
mod message;
pub mod origin;
pub mod own_page;
mod places;
mod pool;
pub mod refusal;
mod render;
mod reply;
mod server;
mod shared;
mod slots;
pub mod sse;
mod tally;
mod timers;
mod tls;

pub use config::{Limits, Listen, ListenerId, NetConfig, Places};
pub use cookies::{SentTwice, cookie};
pub use counters::{Counter, Counters, Depth, Gauge, Refused};
pub use expiry::certificate_ends;
pub use identity::{Identity, IdentityError};
pub use message::{Head, Headers, Method, Request, Response, Version};
pub use reply::{Admission, Answered, Call, Gone, Reply, Service, StreamSender};
pub use server::{BindError, Drained, Inherited, RunError, Server, ShutdownHandle};

limit_table::limits! {
    pub const LIMITS = [limits];
}
