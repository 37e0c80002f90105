//! The responses of both peers, shared so that neither does more work than the other.
//!
//! `GET /health` returns a fixed text from the command line. `POST /mcp` parses a JSON-RPC message, checks its method
//! and responds to a `ping`; any other message is answered 400.

use std::env;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

use serde_json::{Value, json};

/// Arguments of a peer: `PORT HEALTH`.
pub struct Start {
    /// Loopback address to listen on.
    pub address: SocketAddr,
    /// The body of `GET /health`.
    pub health: &'static str,
    /// Worker threads: one per core.
    pub threads: usize,
}

impl Start {
    /// Parses the arguments of the process.
    ///
    /// # Errors
    /// The arguments are not a port and a body, or the number of cores is unknown.
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

/// Returns the response to a message, or `None` unless the message is a `ping` with an id.
pub fn pong(message: &Value) -> Option<Vec<u8>> {
    let id = message.get("id")?;
    if message["jsonrpc"] != "2.0" || message["method"] != "ping" {
        return None;
    }
    Some(json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string().into_bytes())
}
