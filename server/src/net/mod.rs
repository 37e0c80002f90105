//! The HTTP/1.1 front end: a few threads own the sockets, each its own, and a bounded pool does the work.
//!
//! Knows bytes, deadlines and calls; must not know tools, tenants or stores. The flow of one call:
//! `event_loop` reads bytes into a `conn` (a state machine without a socket), which parses them by
//! `http`, `gathering` and `chunked` into a [`Request`]; the [`Service`] answers it through its [`Reply`] on a
//! worker of the `pool`; the answer comes back by the `mailbox`, `render` turns it into bytes, and
//! the loop writes them.

mod buffers;
mod chunked;
mod config;
mod conn;
mod cookies;
mod counters;
mod date;
mod event_loop;
mod expiry;
mod gathering;
mod http;
mod identity;
mod line;
mod live;
#[cfg(test)]
pub(crate) mod loose;
mod mailbox;
mod message;
mod network;
mod places;
mod pool;
mod render;
mod reply;
mod request_id;
mod server;
mod shared;
mod slots;
pub mod sse;
mod tally;
mod target;
mod timers;
mod tls;

pub use crate::cancel::Cancel;
pub use config::{Limits, Listen, ListenerId, NetConfig, Places};
pub use cookies::{SentTwice, cookie};
pub use counters::{Counter, Counters, Depth, Gauge, Refused};
pub use expiry::certificate_ends;
pub use identity::{Identity, IdentityError};
pub use message::{Head, Headers, Method, Request, Response, Version};
pub use network::{Network, NoNetwork};
pub use reply::{Admission, Answered, Call, Gone, Reply, Service, StreamSender};
pub use request_id::RequestId;
pub use server::{BindError, Drained, Inherited, RunError, Server, ShutdownHandle};
pub use target::{PercentError, percent_decode};
