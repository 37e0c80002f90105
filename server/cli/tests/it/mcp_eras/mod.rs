//! MCP of the service in both protocol styles. This module has the client helpers; the tests are in its submodules.

mod bench;
mod bounds;
mod following;
mod inside;
mod per_request;
mod resources;
mod sessions;
mod tasks;
mod waiting;
mod withheld;

use std::sync::OnceLock;

use serde_json::{Value, json};
use support_wire::mcp_client::ACCEPT;
use support_wire::service::{Service, scratch, write};
use support_wire::wire::{self, Answer, Ask, Client, Events};

const MODERN: &str = "2026-07-28";
const META: &str = "io.modelcontextprotocol/";

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let scratch = scratch();
        let folder = scratch.path().join("notes");
        write(&folder, "kelp.md", "# Kelp\n\nKelp grows by the pier.\n");
        Service::start_shared(scratch, &["--ingest", folder.to_str().unwrap()])
    })
}

/// A session-style client at an address, with its session id.
struct Session {
    at: String,
    id: String,
}

impl Session {
    fn begin(at: &str, revision: &str) -> Self {
        let params = json!({
            "protocolVersion": revision, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = wire::ask(at, &message("initialize", &params));
        assert_eq!(answer.json()["result"]["protocolVersion"], revision, "{}", answer.text());
        let id = answer.header("mcp-session-id").unwrap().to_owned();
        Self { at: at.to_owned(), id }
    }

    fn signed(&self, ask: Ask) -> Ask {
        ask.header("Mcp-Session-Id", &self.id)
    }

    fn send(&self, ask: Ask) -> Answer {
        wire::ask(&self.at, &self.signed(ask))
    }

    fn request(&self, method: &str, params: &Value) -> Value {
        let answer = self.send(message(method, params));
        assert_eq!(answer.status, 200, "{method}: {}", answer.text());
        answer.json()
    }

    fn result(&self, method: &str, params: &Value) -> Value {
        let mut answer = self.request(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    fn stream(&self, last: Option<&str>) -> Events {
        let mut ask = Ask::get("/mcp").header("Accept", "text/event-stream");
        if let Some(last) = last {
            ask = ask.header("Last-Event-ID", last);
        }
        Client::open(&self.at).unwrap().follow(&self.signed(ask))
    }
}

fn message(method: &str, params: &Value) -> Ask {
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": params});
    Ask::post("/mcp", &body).header("Accept", ACCEPT)
}

fn session() -> Session {
    Session::begin(service().local(), "2025-11-25")
}

fn remember(text: &str, supersedes: Option<&str>) -> String {
    let arguments = json!({"text": text, "supersedes": supersedes});
    let params = json!({"name": "brain_remember", "arguments": arguments});
    let answer = service().ask(&message("tools/call", &params)).json();
    answer["result"]["structuredContent"]["item"]["id"].as_str().unwrap().to_owned()
}

/// A stateless-style request with its required headers.
fn modern(method: &str, mut params: Value) -> Ask {
    params["_meta"][format!("{META}protocolVersion")] = MODERN.into();
    params["_meta"][format!("{META}clientCapabilities")] = json!({});
    let name = params["name"].as_str().or(params["uri"].as_str()).map(str::to_owned);
    let ask = message(method, &params)
        .header("MCP-Protocol-Version", MODERN)
        .header("Mcp-Method", method);
    match name {
        Some(name) => ask.header("Mcp-Name", &name),
        None => ask,
    }
}

/// The number of ledger entries, from the metrics page.
fn ledger_entries(at: &str) -> u64 {
    let page = wire::ask(at, &Ask::get("/metrics")).text();
    let line = page.lines().find_map(|line| line.strip_prefix("recalld_ledger_entries "));
    line.unwrap().parse().unwrap()
}
