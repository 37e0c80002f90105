//! The MCP endpoint over a socket: JSON-RPC messages of any kind, under any headers, with or without a session. Each
//! gets a response of the protocol; nothing panics, and no response is an internal error.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use engine::os::clock::SystemRandom;
use recalld_http_server::{Call, Reply, Service};
use recalld_mcp_protocol::{
    Capabilities, Client, Completing, Completion, Endpoint, Fault, Host, Input, Listing,
    NeedsInput, Outcome, Page, Settings,
};
use serde_json::{Map, Value, json};

use crate::front;
use crate::wire;

/// Protocol revisions that a request may name.
const REVISIONS: [&str; 6] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "1999-01-01"];

/// Headers with values from the input.
const FILLED: [&str; 8] = [
    "Last-Event-ID",
    "Mcp-Session-Id",
    "Mcp-Name",
    "Mcp-Method",
    "MCP-Protocol-Version",
    "Accept",
    "Content-Type",
    "Mcp-Param-Region",
];

/// A host with one tool, resource and prompt of each kind.
struct Small;

impl Host for Small {
    type Caller = ();

    type Tool = String;

    fn principal(&self, (): &()) -> String {
        "anyone".to_owned()
    }

    fn server_info(&self) -> Value {
        json!({"name": "small", "version": "1"})
    }

    fn instructions(&self) -> Option<String> {
        None
    }

    fn capabilities(&self) -> Capabilities {
        let fixed = Some(Listing { list_changed: true });
        Capabilities {
            tools: fixed,
            resources: fixed,
            subscribe: true,
            prompts: fixed,
            completions: true,
            logging: true,
        }
    }

    fn tools(&self, (): &(), cursor: Option<&str>) -> Result<Page, Fault> {
        let schema = self.mirroring_schema(&"echo".to_owned());
        Page::only(vec![json!({"name": "echo", "inputSchema": schema})], cursor)
    }

    fn resolve_tool(&self, (): &(), name: &str) -> Option<String> {
        matches!(name, "echo" | "ask").then(|| name.to_owned())
    }

    fn mirroring_schema(&self, _: &String) -> Value {
        let region = json!({"type": "string", "x-mcp-header": "Region"});
        json!({"type": "object", "properties": {"region": region}})
    }

    fn call_tool(
        &self,
        (): &(),
        name: &String,
        arguments: &Map<String, Value>,
        client: &Client<'_>,
    ) -> Result<Outcome, Fault> {
        let Input { responses, state } = client.input().clone();
        if name == "ask" && responses.is_empty() {
            let question = json!({"method": "roots/list", "params": {}});
            let requests = [("where".to_owned(), question)].into_iter().collect();
            return Ok(Outcome::NeedsInput(NeedsInput { requests, state: Some(json!(1)) }));
        }
        let text = json!([arguments, responses, state]).to_string();
        Ok(Outcome::Done(json!({"content": [{"type": "text", "text": text}]})))
    }

    fn version(&self, (): &(), uri: &str) -> Option<u64> {
        uri.starts_with("test://").then_some(1)
    }

    fn complete(
        &self,
        (): &(),
        _: Completing<'_>,
        _: &str,
        value: &str,
        _: &Value,
        _: &Client<'_>,
    ) -> Result<Completion, Fault> {
        Ok(Completion { values: vec![value.to_owned(); 3], total: None })
    }
}

struct Mcp(Endpoint<Small>);

impl Service for Mcp {
    type RouteMatch = ();

    fn resolve(&self, _: &Call) {}

    fn serve(&self, call: Call, (): (), reply: Reply) {
        self.0.serve(&call, (), reply);
    }
}

fn address() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    *ADDRESS.get_or_init(|| {
        let settings =
            Settings { call_time_max: Duration::from_secs(10), random: Arc::new(SystemRandom) };
        let endpoint = Endpoint::start(Small, settings).expect("threads");
        front::start(Arc::new(Mcp(endpoint)), None)[0]
    })
}

/// A connection that is reused from one input to the next.
fn connection() -> &'static Mutex<Option<wire::Client<TcpStream>>> {
    static CONNECTION: OnceLock<Mutex<Option<wire::Client<TcpStream>>>> = OnceLock::new();
    CONNECTION.get_or_init(Mutex::default)
}

/// The session that inputs may use and end.
fn session() -> &'static Mutex<Option<String>> {
    static SESSION: OnceLock<Mutex<Option<String>>> = OnceLock::new();
    SESSION.get_or_init(Mutex::default)
}

/// Sends a request and reads the response, only the head if it is a stream; `None` if the system has no socket left.
fn answer(bytes: &[u8]) -> Option<wire::Answer> {
    let mut kept = connection().lock().unwrap_or_else(PoisonError::into_inner);
    let mut client = match kept.take() {
        Some(client) => client,
        None => wire::Client::over("localhost", front::connect(address())?),
    };
    client.write(bytes).expect("it takes the request");
    let mut answer = client.read_head().expect("it is answered");
    if answer.header("content-type") == Some("text/event-stream") {
        return Some(answer);
    }
    client.read_body(&mut answer).expect("the answer is whole");
    if answer.header("connection") != Some("close") {
        *kept = Some(client);
    }
    Some(answer)
}

/// Maps bytes to visible ASCII, so that the input cannot add a header.
fn value(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(byte % 95 + b' ')).collect()
}

/// Runs one input. The first bytes select the method; the revision, if any; the session, if any; and the header to set.
/// The rest is a line with the header's value, and the body.
pub fn run(data: &[u8]) {
    let [method, revision, has_session, filled, rest @ ..] = data else { return };
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let (line, body) = rest.split_at(end);
    let body = body.strip_prefix(b"\n").unwrap_or_default();
    let method = ["POST", "POST", "POST", "POST", "GET", "DELETE"][usize::from(method % 6)];
    let mut fields = Vec::new();
    let mut set = |name: &str, value: String| {
        fields.retain(|(known, _): &(String, String)| known != name);
        fields.push((name.to_owned(), value));
    };
    set("Content-Type", "application/json".to_owned());
    set("Accept", "application/json, text/event-stream".to_owned());
    let read: Result<Value, _> = serde_json::from_slice(body);
    if let Some(revision) = REVISIONS.get(usize::from(revision % 8)) {
        set("MCP-Protocol-Version", (*revision).to_owned());
        if let Some(method) = read.as_ref().ok().and_then(|read| read["method"].as_str())
            && method.bytes().all(|byte| byte.is_ascii_graphic())
        {
            set("Mcp-Method", method.to_owned());
        }
    }
    let known = session().lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(session) = known.filter(|_| has_session % 2 == 1) {
        set("Mcp-Session-Id", session);
    }
    if let Some(name) = FILLED.get(usize::from(filled % 16)) {
        set(name, value(line));
    }
    let mut ask = wire::Ask::new(method, "/mcp").body(body.to_vec());
    for (name, value) in &fields {
        ask = ask.header(name, value);
    }
    let bytes = ask.bytes("localhost");
    if bytes.len() - body.len() > 16 * 1024 {
        return;
    }
    let Some(answer) = answer(&bytes) else { return };
    if let Some(begun) = answer.header("mcp-session-id") {
        *session().lock().unwrap_or_else(PoisonError::into_inner) = Some(begun.to_owned());
    }
    check(&answer, read.ok().as_ref());
}

/// Checks that the status is listed in format-spec/mcp.md, and that the body is JSON-RPC.
fn check(answer: &wire::Answer, asked: Option<&Value>) {
    let statuses = [200, 202, 204, 400, 404, 405, 406, 409, 415, 429];
    assert!(statuses.contains(&answer.status), "{} {}", answer.status, answer.text());
    if answer.body.is_empty() {
        return;
    }
    let said = answer.json();
    let all = said.as_array().map_or(std::slice::from_ref(&said), Vec::as_slice);
    for one in all {
        assert_eq!(one["jsonrpc"], "2.0", "{one}");
        assert!(one.get("result").is_some() != one.get("error").is_some(), "{one}");
        let code = one["error"]["code"].as_i64();
        assert!(code.is_none_or(|code| (-32768..=-32000).contains(&code)), "{one}");
        assert_ne!(code, Some(-32603), "a fault of ours: {one}");
    }
    let id = asked.and_then(|asked| asked.get("id"));
    let is_usable = |id: &&Value| id.is_string() || id.is_i64() || id.is_u64();
    if let Some(id) = id.filter(is_usable)
        && said.is_object()
    {
        assert!(said["id"] == *id || said["id"].is_null(), "{id}: {said}");
    }
}
