//! What both peers answer, so that neither does more than the other.
//!
//! `GET /health` is a fixed text, given when they start. `POST /mcp` reads a message of JSON-RPC, looks at
//! its method and makes the answer to a `ping`; anything else is answered 400.

use std::env;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

use serde_json::{Value, json};

/// How a peer is started: `PORT HEALTH`.
pub struct Start {
    /// Where it listens, on this machine alone.
    pub address: SocketAddr,
    /// The body of `GET /health`.
    pub health: &'static str,
    /// As many threads as there are cores.
    pub threads: usize,
}

impl Start {
    /// Of the process's arguments.
    ///
    /// # Errors
    /// They are not a port and a body, or the number of cores is not to be had.
    pub fn from_arguments() -> io::Result<Start> {
        let mut arguments = env::args().skip(1);
        let port = arguments.next().and_then(|text| text.parse().ok());
        let (Some(port), Some(health)) = (port, arguments.next()) else {
            return Err(io::Error::other("wanted: PORT HEALTH, a port and the body of /health"));
        };
        let threads = thread::available_parallelism()?.get();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Start { address, health: health.leak(), threads })
    }
}

/// The answer to a message; `None` for all but a `ping` with an id.
pub fn pong(message: &Value) -> Option<Vec<u8>> {
    let id = message.get("id")?;
    if message["jsonrpc"] != "2.0" || message["method"] != "ping" {
        return None;
    }
    Some(json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string().into_bytes())
}
