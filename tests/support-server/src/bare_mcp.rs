//! An MCP server with tools only, on a port of its own: the minimal host for tests of calls, independent of the
//! product's server.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use engine::os::clock::SystemRandom;
use recalld_api::listeners::LOCAL;
use recalld_http_server::{Call, Limits, Listen, NetConfig, Reply, Server, ShutdownHandle};
use recalld_mcp_protocol::{Capabilities, Client, Endpoint, Fault, Host, Listing, Outcome, Page};
use serde_json::{Map, Value, json};

/// The server's tools. Any name is a tool.
pub trait Tools: Send + Sync + 'static {
    /// Returns true if a call of this tool waits on a thread of its own.
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

/// A running server. Dropping it drains and ends it.
pub struct BareMcp {
    /// Address of the server.
    pub at: String,
    handle: ShutdownHandle,
    thread: Option<JoinHandle<()>>,
}

impl BareMcp {
    /// Starts a server with these tools.
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

    /// Rejects new calls from now on.
    pub fn drain(&self) {
        self.handle.drain();
    }

    /// Ends the server, and returns when all calls are done.
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
