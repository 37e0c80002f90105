//! A minimal service for benchmarks: `/quick` is answered on the event loop, every other path by a worker. Start `cargo
//! run --release -p recalld-http-server --example net_hello`, then for instance `wrk -t1 -c64 -d5
//! http://127.0.0.1:8799/`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use recalld_http_server::limits::WORKERS_MIN;
use recalld_http_server::{
    Call, Limits, Listen, ListenerId, NetConfig, Reply, Response, Server, Service,
};

struct Hello;

fn hello() -> Response {
    Response::json(200, b"{\"status\": \"ok\"}".to_vec())
}

impl Service for Hello {
    type RouteMatch = ();

    fn resolve(&self, _: &Call) {}

    fn serve(&self, _: Call, (): (), reply: Reply) {
        reply.send(hello());
    }

    fn quick(&self, call: &Call, (): &()) -> Option<Response> {
        (call.request.path() == "/quick").then(hello)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = SocketAddr::from(([127, 0, 0, 1], 8799));
    let config = NetConfig {
        listeners: vec![Listen { id: ListenerId(0), address }],
        workers: std::thread::available_parallelism()?.get().max(WORKERS_MIN),
        limits: Limits::default(),
        wall_clock: SystemTime::now,
    };
    let server = Server::bind(config)?;
    eprintln!("listening on {address}");
    server.run(Arc::new(Hello))?;
    Ok(())
}
