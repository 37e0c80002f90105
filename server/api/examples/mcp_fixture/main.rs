//! Serves the MCP library with the tools, resources and prompts that the conformance suite requires, and without the
//! product: `cargo run -p recalld-api --example mcp_fixture -- --local 127.0.0.1:0`. Prints one line, `ready
//! http://ADDRESS/mcp`, and serves until killed. Loopback only, without credentials.

mod asking;
mod plain;
mod prompts;
mod resources;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use engine::os::clock::SystemRandom;
use recalld_api::pipeline::check_local;
use recalld_http_server::limits::WORKERS_MIN;
use recalld_http_server::{
    Call, Limits, Listen, ListenerId, Method, NetConfig, Reply, Response, Server, Service,
};
use recalld_mcp_protocol::{
    Capabilities, Client, Completing, Completion, Endpoint, Fault, Host, List, Listing, Outcome,
    Page, Settings,
};
use recalld_policy::limits::CALL_TIME_MAX;
use serde_json::{Map, Value, json};

type Run = fn(&Fixture, &Map<String, Value>, &Client<'_>) -> Result<Outcome, Fault>;

struct Tool {
    name: &'static str,
    about: &'static str,
    schema: fn() -> Value,
    /// True if the tool waits, for its client or for time to pass.
    waits: bool,
    run: Run,
}

/// The host of the fixtures.
#[derive(Default)]
struct Fixture {
    /// Callback for a changed list.
    changed: OnceLock<Box<dyn Fn(List) + Send + Sync>>,
    /// True while the temporary tool is listed; the next field is for the temporary prompt.
    tool_is_there: AtomicBool,
    prompt_is_there: AtomicBool,
}

impl Fixture {
    /// Adds or removes the temporary tool or prompt.
    fn toggle(&self, list: List) {
        let flag = match list {
            List::Tools => &self.tool_is_there,
            _ => &self.prompt_is_there,
        };
        flag.fetch_xor(true, Ordering::SeqCst);
        if let Some(changed) = self.changed.get() {
            changed(list);
        }
    }
}

fn tools() -> impl Iterator<Item = &'static Tool> {
    plain::TOOLS.iter().chain(asking::TOOLS)
}

/// The schema of a tool without arguments.
fn nothing() -> Value {
    json!({"type": "object", "properties": {}})
}

/// Builds a result of one text.
fn said(text: impl Into<String>) -> Outcome {
    Outcome::Done(json!({"content": [{"type": "text", "text": text.into()}]}))
}

impl Host for Fixture {
    type Caller = ();

    type Tool = &'static Tool;

    fn principal(&self, (): &()) -> String {
        "anyone".to_owned()
    }

    fn server_info(&self) -> Value {
        json!({"name": "mcp_fixture", "title": "Conformance fixtures", "version": "1.0.0"})
    }

    fn instructions(&self) -> Option<String> {
        Some("Fixtures of a conformance suite; nothing here is of use.".to_owned())
    }

    fn capabilities(&self) -> Capabilities {
        let changing = Some(Listing { list_changed: true });
        Capabilities {
            tools: changing,
            resources: Some(Listing { list_changed: false }),
            subscribe: true,
            prompts: changing,
            completions: true,
            logging: true,
        }
    }

    fn tools(&self, (): &(), cursor: Option<&str>) -> Result<Page, Fault> {
        let shown = |name: &str, about: &str, schema: Value| {
            let mut tool = json!({"name": name, "description": about});
            tool["inputSchema"] = schema;
            tool
        };
        let mut listed: Vec<Value> =
            tools().map(|tool| shown(tool.name, tool.about, (tool.schema)())).collect();
        if self.tool_is_there.load(Ordering::SeqCst) {
            listed.push(shown("test_coming_and_going", "Is not always there.", nothing()));
        }
        Page::only(listed, cursor)
    }

    fn resolve_tool(&self, (): &(), name: &str) -> Option<&'static Tool> {
        tools().find(|tool| tool.name == name)
    }

    fn mirroring_schema(&self, tool: &&'static Tool) -> Value {
        (tool.schema)()
    }

    fn may_wait(&self, tool: &&'static Tool) -> bool {
        tool.waits
    }

    fn call_tool(
        &self,
        (): &(),
        tool: &&'static Tool,
        arguments: &Map<String, Value>,
        client: &Client<'_>,
    ) -> Result<Outcome, Fault> {
        (tool.run)(self, arguments, client)
    }

    fn resources(&self, (): &(), cursor: Option<&str>) -> Result<Page, Fault> {
        Page::only(resources::listed(), cursor)
    }

    fn templates(&self, (): &(), cursor: Option<&str>) -> Result<Page, Fault> {
        Page::only(resources::templates(), cursor)
    }

    fn read(&self, (): &(), uri: &str, _: &Client<'_>) -> Result<Outcome, Fault> {
        resources::read(uri).map(Outcome::Done).ok_or_else(|| Fault::resource_not_found(uri))
    }

    fn version(&self, (): &(), uri: &str) -> Option<u64> {
        resources::read(uri).map(|_| 1)
    }

    fn prompts(&self, (): &(), cursor: Option<&str>) -> Result<Page, Fault> {
        Page::only(prompts::listed(self.prompt_is_there.load(Ordering::SeqCst)), cursor)
    }

    fn prompt(
        &self,
        (): &(),
        name: &str,
        arguments: &Map<String, Value>,
        client: &Client<'_>,
    ) -> Result<Outcome, Fault> {
        prompts::get(name, arguments, client)
    }

    fn complete(
        &self,
        (): &(),
        of: Completing<'_>,
        _: &str,
        value: &str,
        _: &Value,
        _: &Client<'_>,
    ) -> Result<Completion, Fault> {
        if let Completing::Prompt(name) = of
            && name != "test_prompt_with_arguments"
        {
            return Ok(Completion::default());
        }
        let words = ["paris", "park", "party", "test", "testing"];
        let fitting = words.iter().filter(|word| word.starts_with(value));
        Ok(Completion { values: fitting.map(|word| (*word).to_owned()).collect(), total: None })
    }
}

/// The endpoint behind the checks of a local listener.
struct Local {
    endpoint: Arc<Endpoint<Fixture>>,
    port: u16,
}

impl Service for Local {
    type RouteMatch = ();

    fn resolve(&self, _: &Call) {}

    fn serve(&self, call: Call, (): (), reply: Reply) {
        if let Err(refusal) = check_local(&call, &[self.port], None) {
            return reply.send(refusal.into());
        }
        if call.request.path() != "/mcp" {
            return reply.send(Response::empty(404));
        }
        if call.request.method == Method::Head {
            return reply.send(Response::empty(405));
        }
        self.endpoint.serve(&call, (), reply);
    }
}

fn address() -> Result<SocketAddr, String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = match &arguments[..] {
        [] => "127.0.0.1:0",
        [flag, address] if flag == "--local" => address,
        _ => return Err("usage: mcp_fixture [--local ADDRESS]".to_owned()),
    };
    let address: SocketAddr = text.parse().map_err(|error| format!("{text}: {error}"))?;
    let is_local = address.ip().is_loopback();
    is_local.then_some(address).ok_or_else(|| format!("{text}: a loopback address is wanted"))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listen = Listen { id: ListenerId(0), address: address()? };
    let server = Server::bind(NetConfig {
        listeners: vec![listen],
        workers: WORKERS_MIN,
        limits: Limits::default(),
        wall_clock: SystemTime::now,
    })?;
    let settings = Settings { call_time_max: CALL_TIME_MAX, random: Arc::new(SystemRandom) };
    let endpoint = Arc::new(Endpoint::start(Fixture::default(), settings)?);
    let weak = Arc::downgrade(&endpoint);
    let told = endpoint.host().changed.set(Box::new(move |list| {
        if let Some(endpoint) = weak.upgrade() {
            endpoint.list_changed(list);
        }
    }));
    assert!(told.is_ok(), "it is set here alone");
    let local = server.addresses()?.first().map(|(_, address)| *address).ok_or("no address")?;
    println!("ready http://{local}/mcp");
    server.run(Arc::new(Local { endpoint, port: local.port() }))?;
    Ok(())
}
