//! The HTTP server over a socket: any bytes, whole or in two pieces, get HTTP responses or a closed connection, and the
//! same responses wherever the bytes are cut.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use recalld_http_server::{Call, Reply, Response, Service};

use crate::front::{self, ask, was_given_up, without_names};

/// Responds with the length of the body, so that framing is visible in the response.
pub(super) struct Count;

impl Service for Count {
    type RouteMatch = ();

    fn resolve(&self, _: &Call) {}

    fn serve(&self, call: Call, (): (), reply: Reply) {
        reply.send(Response::json(200, call.request.body.len().to_string().into_bytes()));
    }
}

fn address() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    *ADDRESS.get_or_init(|| front::start(Arc::new(Count), None)[0])
}

/// Runs one input. The first byte selects the cut.
pub fn run(data: &[u8]) {
    let Some((&cut, bytes)) = data.split_first() else { return };
    let cut = usize::from(cut) * bytes.len() / 256;
    let Some(whole) = ask(address(), &[bytes]) else { return };
    assert!(whole.is_empty() || whole.starts_with(b"HTTP/1."), "{whole:?}");
    let (first, second) = bytes.split_at(cut);
    let Some(cut) = ask(address(), &[first, second]) else { return };
    if was_given_up(&whole) || was_given_up(&cut) {
        return;
    }
    let (whole, cut) = (without_names(&whole), without_names(&cut));
    // A reset can lose the end of a response, but never change the bytes before.
    assert!(whole.starts_with(&cut) || cut.starts_with(&whole), "{whole:?} {cut:?}");
}
