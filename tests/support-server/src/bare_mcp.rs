//! An MCP server of nothing but tools, on a port of its own: what a test of calls needs of a host, and no
//! more. Knows nothing of the product's.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use engine::os::clock::SystemRandom;
use recalld_api::listeners::LOCAL;
use recalld_http_server::{Call, Limits, Listen, NetConfig, Reply, Server, ShutdownHandle};
use recalld_mcp_protocol::{Capabilities, Client, Endpoint, Fault, Host, Listing, Outcome, Page};
use serde_json::{Map, Value, json};

/// What its tools do. Any name is one of a tool.
pub trait Tools: Send + Sync + 'static {
    /// Whether a call of this tool waits on a thread of its own.
    fn waits(&self, _tool: &str) -> bool {
        false
    }

    /// Runs a tool.
    fn call_tool(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
        client: &Client<'_>,
    ) -> Result<Outcome, Fault>;
}

struct Bare<T>(T);

impl<T: Tools> Host for Bare<T> {
    type Caller = ();

    type Tool = String;

    fn principal(&self, (): &()) -> String {
        "anyone".to_owned()
    }

    fn server_info(&self) -> Value {
        json!({"name": "bare", "version": "1"})
    }

    fn instructions(&self) -> Option<String> {
        None
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { tools: Some(Listing::default()), ..Capabilities::default() }
    }

    fn tools(&self, (): &(), cursor: Option<&str>) -> Result<Page, Fault> {
        Page::only(Vec::new(), cursor)
    }

    fn resolve_tool(&self, (): &(), name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    fn may_wait(&self, tool: &String) -> bool {
        self.0.waits(tool)
    }

    fn call_tool(
        &self,
        (): &(),
        name: &String,
        arguments: &Map<String, Value>,
        client: &Client<'_>,
    ) -> Result<Outcome, Fault> {
        self.0.call_tool(name, arguments, client)
    }
}

struct Served<T: Tools>(Endpoint<Bare<T>>);

impl<T: Tools> recalld_http_server::Service for Served<T> {
    type RouteMatch = ();

    fn resolve(&self, _: &Call) {}

    fn serve(&self, call: Call, (): (), reply: Reply) {
        self.0.serve(&call, (), reply);
    }
}

/// A running server. Dropped, it drains and ends.
pub struct BareMcp {
    /// Where it listens.
    pub at: String,
    handle: ShutdownHandle,
    thread: Option<JoinHandle<()>>,
}

impl BareMcp {
    /// Serves these tools.
    pub fn start(tools: impl Tools, workers: usize, call_time_max: Duration) -> Self {
        let settings =
            recalld_mcp_protocol::Settings { call_time_max, random: Arc::new(SystemRandom) };
        let endpoint = Endpoint::start(Bare(tools), settings).expect("threads");
        let server = Server::bind(NetConfig {
            listeners: vec![Listen { id: LOCAL, address: ([127, 0, 0, 1], 0).into() }],
            workers,
            limits: Limits::default(),
            wall_clock: SystemTime::now,
        })
        .expect("a free port");
        let at = server.addresses().expect("a listener has an address")[0].1.to_string();
        let handle = server.handle();
        let thread = thread::spawn(move || {
            server.run(Arc::new(Served(endpoint))).expect("it serves until it is drained");
        });
        Self { at, handle, thread: Some(thread) }
    }

    /// Lets nothing new begin.
    pub fn drain(&self) {
        self.handle.drain();
    }

    /// Ends it, and comes back when all that was under way is done.
    pub fn end(&mut self) {
        self.drain();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ended well");
        }
    }
}

impl Drop for BareMcp {
    fn drop(&mut self) {
        self.end();
    }
}
