//! In-process nodes whose leader directory is set by a test, and a scripted leader.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use recalld_api::listeners::{HOSTED, LOCAL};
use recalld_api::pipeline::Pipeline;
use recalld_cli::app;
use recalld_cluster::{Cluster, Peer, Relay, Taken, Trust, Where, Whereabouts};
use recalld_common::cancel::CancellationToken;
use recalld_common::wrong_node::WrongNode;
use recalld_embedding::model;
use recalld_http_server::{Limits, Listen, NetConfig, Server, ShutdownHandle};
use serde_json::{Value, json};
use support_server::settings::settings;
use support_wire::mcp_client;
use support_wire::service::{self, scratch};
use support_wire::tiny_model::Tiny;
use support_wire::wire::{self, Answer, Ask, Client};
use tempfile::TempDir;

use crate::cluster::unsure::Silent;

/// The staleness bound of the nodes.
pub(crate) const STALE_MAX: Duration = Duration::from_secs(30);

/// A leader directory that reports the location set by a test, for every workspace.
pub(crate) struct Told {
    place: Mutex<Where>,
    taken: Mutex<Taken>,
    wrong_node: Option<WrongNode>,
    /// Number of attempts to acquire the lease.
    pub(crate) takes: AtomicUsize,
}

impl Told {
    pub(crate) fn new(place: Where, wrong_node: Option<WrongNode>) -> Arc<Self> {
        let (place, taken) = (Mutex::new(place), Mutex::new(Taken::NotNow("not now".to_owned())));
        Arc::new(Self { place, taken, wrong_node, takes: AtomicUsize::new(0) })
    }

    pub(crate) fn says(&self, place: Where) {
        *self.place.lock().unwrap() = place;
    }

    /// Sets the result of acquiring the lease.
    pub(crate) fn gives(&self, taken: Taken) {
        *self.taken.lock().unwrap() = taken;
    }
}

impl Whereabouts for Told {
    fn of(&self, _: &str) -> Where {
        self.place.lock().unwrap().clone()
    }

    fn take(&self, _: &str, _: &CancellationToken) -> Taken {
        self.takes.fetch_add(1, Ordering::SeqCst);
        let taken = self.taken.lock().unwrap().clone();
        if taken == Taken::Here {
            self.says(Where::Here);
        }
        taken
    }

    fn stale_max(&self) -> Duration {
        STALE_MAX
    }

    fn wrong_node(&self) -> Option<WrongNode> {
        self.wrong_node
    }
}

/// A peer at this address.
pub(crate) fn peer(address: &str) -> Peer {
    Peer { node: "b".to_owned(), url: Some(format!("http://{address}")) }
}

/// The location of a workspace followed here with this staleness and led by the node at `writer`.
pub(crate) fn follows(age: Duration, writer: Option<&str>) -> Where {
    Where::Follows { age: Some(age), writer: writer.map(peer) }
}

/// An in-process service with both listeners.
pub(crate) struct Node {
    pub(crate) local: String,
    pub(crate) hosted: String,
    bearer: String,
    gateway: [(&'static str, String); 2],
    handle: ShutdownHandle,
    thread: Option<JoinHandle<()>>,
    scratch: TempDir,
}

impl Node {
    /// Starts a node with a leader directory, or alone, and with the credentials of another node if `like` is given.
    pub(crate) fn start(told: Option<&Arc<Told>>, like: Option<&Self>) -> Self {
        Self::made(told, like, None)
    }

    /// Starts a single node whose store is replicated to `far`.
    pub(crate) fn carried(far: &Arc<Silent>) -> Self {
        Self::made(None, None, Some(far))
    }

    fn made(told: Option<&Arc<Told>>, like: Option<&Self>, far: Option<&Arc<Silent>>) -> Self {
        let scratch = scratch();
        let data = scratch.path().join("data");
        if let Some(other) = like {
            recalld_workspace::opening::credentials(&data).unwrap();
            let file = "credentials.toml";
            fs::copy(other.data().join(file), data.join(file)).unwrap();
        }
        let address: SocketAddr = ([127, 0, 0, 1], 0).into();
        let server = Server::bind(NetConfig {
            listeners: [LOCAL, HOSTED].map(|id| Listen { id, address }).to_vec(),
            workers: 4,
            limits: Limits::default(),
            wall_clock: SystemTime::now,
        })
        .unwrap();
        let addresses = server.addresses().unwrap();
        let at = |id| addresses.iter().find(|(of, _)| *of == id).unwrap().1;
        let (local, hosted) = (at(LOCAL), at(HOSTED));
        let tiny = Tiny::new(1, 16).write(scratch.path(), "model");
        let settings = settings(&data, Some(tiny), Duration::from_secs(60));
        let mut parts = app::start(&settings, &mut model::Silent).unwrap().parts;
        if let Some(far) = far {
            far.carry(&parts);
        }
        if let Some(told) = told {
            let relay = Arc::new(Relay::new(&Trust::default()).unwrap());
            let whereabouts = Arc::clone(told) as Arc<dyn Whereabouts>;
            let own = Arc::get_mut(&mut parts).expect("nobody else has it yet");
            own.cluster = Some(Cluster::new(whereabouts, relay));
        }
        let pipeline = Arc::new(Pipeline::new(parts, &[local.port()]).unwrap());
        let handle = server.handle();
        let thread = Some(thread::spawn(move || {
            server.run(pipeline).unwrap();
        }));
        let (credentials, _) = recalld_workspace::opening::credentials(&data).unwrap();
        let shown = credentials.show();
        let gateway = [
            ("x-gateway-client-id", shown.gateway_client_id.expose().to_owned()),
            ("x-gateway-client-secret", shown.gateway_client_secret.expose().to_owned()),
        ];
        let bearer = format!("Bearer {}", shown.bearer.expose());
        let (local, hosted) = (local.to_string(), hosted.to_string());
        Self { local, hosted, bearer, gateway, handle, thread, scratch }
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// Creates a file for an operator's request.
    pub(crate) fn file(&self, name: &str, bytes: &str) -> PathBuf {
        service::write(self.scratch.path(), name, bytes)
    }

    pub(crate) fn signed(&self, ask: Ask) -> Ask {
        let [(id, is), (secret, it)] = &self.gateway;
        ask.header("Authorization", &self.bearer).header(id, is).header(secret, it)
    }

    /// Sends a request with both credentials to the hosted listener.
    pub(crate) fn ask(&self, ask: Ask) -> Answer {
        wire::ask(&self.hosted, &self.signed(ask))
    }

    /// Sends a request with both credentials to the local listener.
    pub(crate) fn ask_near(&self, ask: Ask) -> Answer {
        wire::ask(&self.local, &self.signed(ask))
    }

    /// Calls a tool over MCP at the hosted listener.
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.ask(calling(tool, arguments))
    }

    /// Opens a connection to the hosted listener.
    pub(crate) fn connect(&self) -> Client {
        Client::open(&self.hosted).unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.handle.drain();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// The JSON-RPC message of a tool call.
pub(crate) fn message(tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
}

/// The HTTP request of a tool call.
pub(crate) fn calling(tool: &str, arguments: Value) -> Ask {
    mcp_client::ask(&message(tool, arguments))
}

/// A leader that answers one request as scripted by the test.
pub(crate) struct Scripted {
    pub(crate) address: String,
    listener: TcpListener,
}

impl Scripted {
    pub(crate) fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { address: listener.local_addr().unwrap().to_string(), listener }
    }

    /// Accepts a request. Returns its head, its body and the stream for the response.
    pub(crate) fn asked(&self) -> (String, Vec<u8>, TcpStream) {
        let (mut stream, _) = self.listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
        stream.read_exact(&mut body).unwrap();
        (head, body, stream)
    }
}

pub(crate) fn begin_stream(stream: &mut TcpStream) {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
}

/// Sends one event as one HTTP chunk.
pub(crate) fn send_event(stream: &mut TcpStream, data: &Value) {
    let event = format!("event: message\ndata: {data}\n\n");
    stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).unwrap();
}
