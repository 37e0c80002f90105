//! MCP of the product in both eras: sessions and their streams, the per-request revision, resources,
//! prompts, completions, time bounds and cancellation.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use engine::os::clock::SystemRandom;
use engine::{Batch, Durability, TombstoneDraft};
use serde_json::{Map, Value, json};
use server::app::{self, Encoding, Settings};
use server::limits::CALL_TIME_MAX;
use server::mcp::{self, Capabilities, Endpoint, Fault, Host, Listing, Outcome, Page};
use server::mcp_host::{Product, Visitor};
use server::model::Silent;
use server::names;
use server::net::{self, Call, Limits, Listen, NetConfig, Reply, Server, ShutdownHandle};
use server::parts::{Caller, Parts};
use server::pipeline::{LOCAL, Pipeline};
use server::tools::Scope;
use tests::mcp_client::ACCEPT;
use tests::service::{Service, scratch, write};
use tests::wire::{self, Answer, Ask, Client, Events};

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

/// A handshake client at an address, with its session.
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

/// A request of the per-request revision, with what its headers must say.
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

#[test]
fn a_session_lives_from_initialize_to_delete() {
    let session = session();
    assert!(session.id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{}", session.id);
    assert_eq!(session.result("ping", &json!({})), json!({}));
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(session.send(Ask::post("/mcp", &note).header("Accept", ACCEPT)).status, 202);
    assert_eq!(session.result("logging/setLevel", &json!({"level": "error"})), json!({}));
    let wrong = session.request("logging/setLevel", &json!({"level": "loud"}));
    assert_eq!(wrong["error"]["code"], -32602);
    assert_eq!(session.send(Ask::new("DELETE", "/mcp")).status, 204);
    for ask in [message("ping", &json!({})), Ask::new("DELETE", "/mcp")] {
        let gone = session.send(ask);
        assert_eq!((gone.status, &gone.json()["error"]["code"]), (404, &json!(-32001)));
    }
    let stranger = Session { at: session.at.clone(), id: "made-up".to_owned() };
    assert_eq!(stranger.send(message("ping", &json!({}))).status, 404);
}

#[test]
fn what_needs_a_session_says_so_and_the_rest_needs_none() {
    let service = service();
    for (method, params) in [
        ("logging/setLevel", json!({"level": "info"})),
        ("resources/subscribe", json!({"uri": "memory://brief/today"})),
        ("resources/unsubscribe", json!({"uri": "memory://brief/today"})),
    ] {
        let answer = service.ask(&message(method, &params));
        assert_eq!(answer.status, 400, "{method}");
        assert_eq!(answer.json()["error"]["data"]["reason"], "session_required", "{method}");
    }
    for method in ["ping", "tools/list", "resources/list", "prompts/list"] {
        let answer = service.ask(&message(method, &json!({})));
        assert!(answer.json()["result"].is_object(), "{method}: {}", answer.text());
    }
}

#[test]
fn a_session_is_no_credential() {
    let scratch = scratch();
    let service = Service::start(&scratch.path().join("data"), &["--hosted", "127.0.0.1:0"]);
    let session = Session::begin(service.local(), "2025-11-25");
    let ping = || session.signed(message("ping", &json!({})));
    assert_eq!(wire::ask(service.hosted(), &ping()).status, 401);
    // The same caller may go on elsewhere.
    let bearer = format!("Bearer {}", service.credentials().bearer);
    let signed = || ping().header("Authorization", &bearer);
    assert_eq!(wire::ask(service.hosted(), &signed()).status, 200);
    // A page may ask where it comes from itself.
    let own = format!("http://{}", service.hosted());
    for (origin, status) in [(own.as_str(), 200), ("https://evil.example", 403), ("null", 403)] {
        let answer = wire::ask(service.hosted(), &signed().header("Origin", origin));
        assert_eq!(answer.status, status, "{origin}: {}", answer.text());
    }
}

#[test]
fn batches_are_for_one_revision() {
    let ping = json!({"jsonrpc": "2.0", "id": 0, "method": "ping"});
    let batch = Ask::post("/mcp", &json!([ping, ping])).header("Accept", ACCEPT);
    for (revision, status) in
        [("2024-11-05", 400), ("2025-03-26", 200), ("2025-06-18", 400), ("2025-11-25", 400)]
    {
        let session = Session::begin(service().local(), revision);
        let mut other = ping.clone();
        other["id"] = json!("0");
        let both = Ask::post("/mcp", &json!([ping, other])).header("Accept", ACCEPT);
        assert_eq!(session.send(both).status, status, "{revision}");
    }
    let without = service().ask(&batch.header("MCP-Protocol-Version", "2025-06-18"));
    assert_eq!(without.status, 400);
}

#[test]
fn followed_items_are_told_of_and_a_lost_stream_is_taken_up_again() {
    let session = session();
    let first = remember("The north buoy is green.", None);
    let uri = format!("memory://item/{first}");
    let mut stream = session.stream(None);
    let second = session.send(Ask::get("/mcp").header("Accept", "text/event-stream"));
    assert_eq!(second.status, 409, "one at a time");
    assert_eq!(session.result("resources/subscribe", &json!({"uri": uri})), json!({}));
    let next = remember("The north buoy is red.", Some(&first));
    let told = stream.next_event().unwrap().1;
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"], json!({"uri": uri}));
    let seen = stream.last_id().unwrap().to_owned();
    drop(stream);
    // What comes while nobody listens is kept.
    let other = format!("memory://item/{next}");
    session.result("resources/subscribe", &json!({"uri": other}));
    remember("The north buoy is gone.", Some(&next));
    let mut again = session.stream(Some(&seen));
    // Superseding the second changes nothing about the first.
    assert_eq!(again.next_event().unwrap().1["params"], json!({"uri": other}));
    let seen = again.last_id().unwrap().to_owned();
    drop(again);
    // Nobody is sent anything twice, or told another thing under the same id.
    let lasting = remember("The north buoy is back.", None);
    let mut anew = session.stream(None);
    let lasting_uri = json!({"uri": format!("memory://item/{lasting}")});
    session.result("resources/subscribe", &lasting_uri);
    remember("The north buoy is blue.", Some(&lasting));
    assert_eq!(anew.next_event().unwrap().1["params"], lasting_uri);
    assert_ne!(anew.last_id().unwrap(), seen);
    session.result("resources/unsubscribe", &json!({"uri": other}));
    let unknown = Ask::get("/mcp").header("Accept", "text/event-stream");
    assert_eq!(session.send(unknown.header("Last-Event-ID", "77-1")).status, 400);
    let nobody = json!({"uri": "memory://item/itm_00000000000000000000000000"});
    assert_eq!(session.request("resources/subscribe", &nobody)["error"]["code"], -32002);
}

#[test]
fn only_the_newest_revision_is_given_an_event_without_data() {
    for (revision, primes) in [("2025-06-18", false), ("2025-11-25", true)] {
        let session = Session::begin(service().local(), revision);
        let params =
            json!({"name": "recall_stats", "arguments": {}, "_meta": {"progressToken": 1}});
        let answer = session.send(message("tools/call", &params)).text();
        assert_eq!(answer.contains("id: 1-0\nretry: 1000\ndata: \n\n"), primes, "{answer}");
        assert!(answer.contains("id: 1-1\nevent: message\n"), "{answer}");
    }
}

#[test]
fn memories_are_resources() {
    let session = session();
    let listed = session.result("resources/list", &json!({}));
    assert_eq!(listed["resources"][0]["uri"], "memory://brief/today");
    let templates = session.result("resources/templates/list", &json!({}));
    assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 2);
    let id = remember("The south buoy is white.", None);
    let uri = format!("memory://item/{id}");
    let read = session.result("resources/read", &json!({"uri": uri}));
    let content = &read["contents"][0];
    assert_eq!((&content["uri"], &content["mimeType"]), (&json!(uri), &json!("application/json")));
    let item: Value = serde_json::from_str(content["text"].as_str().unwrap()).unwrap();
    assert_eq!(item["text"], "The south buoy is white.");
    assert_eq!(read["_meta"]["recalld/receipt"]["decision"], "allow", "{read}");
    let document = json!({"name": "docstore_get_document_tool", "arguments": {"path": "kelp.md"}});
    let document = session.result("tools/call", &document);
    let id = document["structuredContent"]["document_id"].as_str().unwrap();
    let read = session.result("resources/read", &json!({"uri": format!("memory://document/{id}")}));
    assert_eq!(read["contents"][0]["text"], "# Kelp\n\nKelp grows by the pier.\n");
    let brief = session.result("resources/read", &json!({"uri": "memory://brief/today"}));
    let text = brief["contents"][0]["text"].as_str().unwrap();
    assert!(text.contains("The south buoy is white.") && text.contains("Kelp"), "{text}");
    for uri in ["memory://item/itm_00000000000000000000000000", "memory://else", "x", ""] {
        let missing = session.request("resources/read", &json!({"uri": uri}));
        assert_eq!(missing["error"]["code"], -32002, "{missing}");
    }
    assert_eq!(session.request("resources/read", &json!({}))["error"]["code"], -32602);
}

#[test]
fn prompts_and_their_completions() {
    let session = session();
    let listed = session.result("prompts/list", &json!({}));
    let names: Vec<&Value> =
        listed["prompts"].as_array().unwrap().iter().map(|prompt| &prompt["name"]).collect();
    assert_eq!(names, ["consult-memory-first", "record-a-decision", "daily-brief"]);
    let arguments = json!({"question": "why paraffin?"});
    let params = json!({"name": "consult-memory-first", "arguments": arguments});
    let prompt = session.result("prompts/get", &params);
    let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("why paraffin?") && text.contains("retrieval_arbitrate_tool"), "{text}");
    let brief = session.result("prompts/get", &json!({"name": "daily-brief"}));
    assert_eq!(brief["messages"][1]["content"]["resource"]["uri"], "memory://brief/today");
    for wrong in [json!({"name": "no-such"}), json!({"name": "consult-memory-first"}), json!({})] {
        assert_eq!(session.request("prompts/get", &wrong)["error"]["code"], -32602, "{wrong}");
    }
    let id = remember("The east buoy has a bell.", None);
    let complete = |reference: Value, argument: &str, value: &str| {
        let argument = json!({"name": argument, "value": value});
        session.result("completion/complete", &json!({"ref": reference, "argument": argument}))
    };
    let decision = json!({"type": "ref/prompt", "name": "record-a-decision"});
    let found = complete(decision, "supersedes", &id);
    assert_eq!(found["completion"], json!({"values": [id], "total": 1, "hasMore": false}));
    let template = json!({"type": "ref/resource", "uri": "memory://document/{id}"});
    let entries = || ledger_entries(service().local());
    let before = entries();
    let found = complete(template, "id", "doc_");
    assert_eq!(found["completion"]["values"].as_array().unwrap().len(), 1, "{found}");
    assert!(entries() > before, "what is told is in the ledger");
}

#[test]
fn each_request_of_the_newest_revision_stands_alone() {
    let service = service();
    let discovered = service.ask(&modern("server/discover", json!({})));
    let result = &discovered.json()["result"];
    assert_eq!(result["supportedVersions"], json!([MODERN]));
    assert_eq!(result["capabilities"]["resources"]["subscribe"], true);
    assert!(discovered.header("mcp-session-id").is_none());
    for (method, params) in [
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "recall_stats"})),
        ("tools/call", json!({"name": "retrieval_arbitrate_tool", "arguments": {"quary": "x"}})),
        ("resources/list", json!({})),
        ("resources/read", json!({"uri": "memory://brief/today"})),
        ("prompts/get", json!({"name": "daily-brief"})),
    ] {
        let answer = service.ask(&modern(method, params));
        let result = &answer.json()["result"];
        assert_eq!(answer.status, 200, "{method}");
        assert_eq!(result["resultType"], "complete", "{method}: {result}");
        assert_eq!(result["_meta"][format!("{META}serverInfo")]["name"], "recalld", "{method}");
        let is_kept = method.ends_with("/list") || method == "resources/read";
        assert_eq!(result["ttlMs"].is_u64(), is_kept, "{method}: {result}");
    }
}

#[test]
fn the_newest_revision_refuses_by_status_and_code() {
    let service = service();
    let list = || modern("tools/list", json!({}));
    let meta = |version: &str| {
        let mut meta = json!({});
        meta[format!("{META}protocolVersion")] = version.into();
        meta[format!("{META}clientCapabilities")] = json!({});
        json!({"_meta": meta})
    };
    let named = |ask: Ask, version: &str| ask.header("MCP-Protocol-Version", version);
    let list_header = |ask: Ask| ask.header("Mcp-Method", "tools/list");
    for (what, ask, status, code) in [
        ("no envelope", named(message("tools/list", &json!({})), MODERN), 400, -32602),
        ("no method header", named(message("tools/list", &meta(MODERN)), MODERN), 400, -32020),
        ("no version header", list_header(message("tools/list", &meta(MODERN))), 400, -32020),
        ("two of them", list().header("Mcp-Method", "tools/list"), 400, -32020),
        (
            "a version of its own",
            list_header(named(message("tools/list", &meta("1999-01-01")), "1999-01-01")),
            400,
            -32022,
        ),
        (
            "another name",
            named(
                message("tools/call", &{
                    let mut params = meta(MODERN);
                    params["name"] = json!("recall_stats");
                    params
                }),
                MODERN,
            )
            .header("Mcp-Method", "tools/call")
            .header("Mcp-Name", "other"),
            400,
            -32020,
        ),
        ("initialize", modern("initialize", json!({})), 404, -32601),
        ("ping", modern("ping", json!({})), 404, -32601),
        ("subscribe", modern("resources/subscribe", json!({"x": "y"})), 404, -32601),
        ("unknown", modern("no/such", json!({})), 404, -32601),
        ("unknown tool", modern("tools/call", json!({"name": "no_such"})), 200, -32602),
        ("no resource", modern("resources/read", json!({"uri": "memory://x"})), 200, -32602),
        (
            "bad state",
            { modern("tools/call", json!({"name": "recall_stats", "requestState": "AAAA"})) },
            200,
            -32602,
        ),
    ] {
        let answer = service.ask(&ask);
        let body = answer.json();
        assert_eq!((answer.status, &body["error"]["code"]), (status, &json!(code)), "{what}");
        assert_eq!(body["id"], 0, "{what}: an id of 0 is echoed");
    }
    for method in ["GET", "DELETE"] {
        let answer = service.ask(&named(Ask::new(method, "/mcp"), MODERN));
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{method}");
    }
    let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}});
    assert_eq!(service.ask(&named(Ask::post("/mcp", &note), MODERN)).status, 202);
}

#[test]
fn a_listening_stream_begins_with_what_was_agreed() {
    let first = remember("The west buoy is black.", None);
    let uri = format!("memory://item/{first}");
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": [uri]});
    let ask = modern("subscriptions/listen", json!({"notifications": wanted}));
    let mut stream = service().connect().follow(&ask);
    let agreed = stream.next_event().unwrap().1;
    assert_eq!(agreed["method"], "notifications/subscriptions/acknowledged");
    let params = &agreed["params"];
    assert_eq!(params["notifications"], json!({"resourceSubscriptions": [uri]}));
    assert_eq!(params["_meta"][format!("{META}subscriptionId")], 0);
    remember("The west buoy is yellow.", Some(&first));
    let told = stream.next_event().unwrap().1;
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"]["uri"], json!(uri));
    assert_eq!(told["params"]["_meta"][format!("{META}subscriptionId")], 0);
}

#[test]
fn the_end_of_the_server_ends_a_listening_stream_with_its_result() {
    let scratch = scratch();
    let service = Service::start(&scratch.path().join("data"), &[]);
    let wanted = json!({"resourceSubscriptions": ["memory://brief/today"]});
    let ask = modern("subscriptions/listen", json!({"notifications": wanted}));
    let mut stream = service.connect().follow(&ask);
    assert_eq!(stream.next_event().unwrap().1["params"]["notifications"], wanted);
    assert!(service.terminate().success());
    let last = stream.next_event().unwrap().1;
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(0), &json!("complete")));
    assert!(stream.next_event().is_err(), "then it ends");
}

/// Entries of the ledger, as the page of metrics counts them.
fn ledger_entries(at: &str) -> u64 {
    let page = wire::ask(at, &Ask::get("/metrics")).text();
    let line = page.lines().find_map(|line| line.strip_prefix("recalld_ledger_entries "));
    line.unwrap().parse().unwrap()
}

#[test]
fn a_brief_names_nothing_that_is_gone() {
    let scratch = scratch();
    let inside = Inside::start(&scratch.path().join("data"), CALL_TIME_MAX);
    let remember = |text: &str, supersedes: Option<&str>| {
        let arguments = json!({"text": text, "supersedes": supersedes});
        let params = json!({"name": "brain_remember", "arguments": arguments});
        let stored = wire::ask(&inside.at, &message("tools/call", &params)).json();
        stored["result"]["structuredContent"]["item"]["id"].as_str().unwrap().to_owned()
    };
    let read = |uri: &str| {
        let read = wire::ask(&inside.at, &message("resources/read", &json!({"uri": uri}))).json();
        read["result"]["contents"][0]["text"].as_str().unwrap().to_owned()
    };
    let old = remember("The vault is under the stairs.", None);
    let new = remember("The vault is in the attic.", Some(&old));
    let uri = format!("memory://item/{new}");
    assert!(read("memory://brief/today").contains("Superseded today: 1\n\n- The vault is under"));
    assert!(read(&uri).contains(&old));
    let target = names::parse_item(&old).unwrap().0;
    let stone = TombstoneDraft { target, by: "test".to_owned(), ..TombstoneDraft::default() };
    let batch = Batch { tombstones: vec![stone], ..Batch::default() };
    inside.parts.workspace.store.write(batch).unwrap();
    let brief = read("memory://brief/today");
    assert!(!brief.contains("under the stairs") && brief.contains("in the attic"), "{brief}");
    assert!(brief.contains("Superseded today: 0"), "{brief}");
    assert!(!read(&uri).contains(&old), "no other item names it either");
}

/// A service of this process, whose turns a test can hold.
struct Inside {
    parts: Arc<Parts>,
    at: String,
    handle: ShutdownHandle,
    thread: Option<JoinHandle<()>>,
}

impl Inside {
    fn start(data: &Path, call_time_max: Duration) -> Self {
        let settings = Settings {
            data: data.to_owned(),
            model: None,
            encoding: Encoding { threads: 1, ..Encoding::detect() },
            call_time_max,
            durability: Durability::Sync,
        };
        let parts = app::start(&settings, &mut Silent).unwrap().parts;
        Self::serve(parts, |parts, port| {
            Arc::new(Pipeline::new(Arc::clone(parts), &[port]).unwrap())
        })
    }

    /// Another service of the same parts, whose callers are all this one.
    fn beside_for(&self, caller: Caller) -> Self {
        Self::serve(Arc::clone(&self.parts), |parts, _| {
            let random = Arc::clone(&parts.random);
            let settings = mcp::Settings { call_time_max: CALL_TIME_MAX, random };
            let endpoint = Endpoint::start(Product::new(Arc::clone(parts)), settings).unwrap();
            Arc::new(For { endpoint, caller })
        })
    }

    fn serve(
        parts: Arc<Parts>,
        service: impl FnOnce(&Arc<Parts>, u16) -> Arc<dyn net::Service>,
    ) -> Self {
        let address: SocketAddr = ([127, 0, 0, 1], 0).into();
        let server = Server::bind(NetConfig {
            listeners: vec![Listen { id: LOCAL, address }],
            workers: 2,
            limits: Limits::default(),
            wall_clock: SystemTime::now,
        })
        .unwrap();
        let at = server.addresses().unwrap()[0].1;
        let handle = server.handle();
        let service = service(&parts, at.port());
        let thread = Some(thread::spawn(move || {
            server.run(service).unwrap();
        }));
        Self { parts, at: at.to_string(), handle, thread }
    }
}

/// An endpoint for one caller.
struct For {
    endpoint: Endpoint<Product>,
    caller: Caller,
}

impl net::Service for For {
    fn serve(&self, call: Call, reply: Reply) {
        let visitor = Visitor::of(self.caller.clone(), call.request.query()).unwrap();
        self.endpoint.serve(&call, visitor, reply);
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.handle.drain();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn ingest() -> Value {
    json!({"name": "ingest_paths_tool", "arguments": {"paths": ["x"], "dry_run": true}})
}

#[test]
fn a_call_past_its_time_is_answered_while_its_work_still_waits() {
    let scratch = scratch();
    let limit = Duration::from_millis(300);
    let inside = Inside::start(&scratch.path().join("data"), limit);
    let turn = inside.parts.workspace.ingesting.take(&|| false).unwrap();
    // More of them than there are workers, in both eras; others are answered all the while.
    let answers: Vec<Answer> = thread::scope(|scope| {
        let late = |at: usize| {
            let modern_one = modern("tools/call", ingest());
            let ask =
                if at.is_multiple_of(2) { message("tools/call", &ingest()) } else { modern_one };
            let to = inside.at.clone();
            scope.spawn(move || wire::ask(&to, &ask))
        };
        let calls: Vec<_> = (0..6).map(late).collect();
        assert_eq!(wire::ask(&inside.at, &message("ping", &json!({}))).status, 200);
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    for answer in answers {
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"]), (200, &json!(-32001)), "{error}");
        assert_eq!(error["data"]["limit_ms"], 300);
        assert_eq!(error["message"], "Request timed out");
    }
    drop(turn);
    // What was called off let go of its turn in the queue: the next one has it.
    assert!(inside.parts.workspace.ingesting.take(&|| false).is_ok());
}

#[test]
fn a_notification_calls_a_request_off() {
    let scratch = scratch();
    let inside = Inside::start(&scratch.path().join("data"), CALL_TIME_MAX);
    let turn = inside.parts.workspace.ingesting.take(&|| false).unwrap();
    let session = Session::begin(&inside.at, "2025-11-25");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| session.send(message("tools/call", &ingest())));
        let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 0, "reason": "test"}});
        // The request may be on its way still; calling off what is not there changes nothing.
        while !waiting.is_finished() {
            assert_eq!(session.send(Ask::post("/mcp", &note)).status, 202);
        }
        let answer = waiting.join().unwrap();
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{}", answer.text());
    });
    drop(turn);
    assert_eq!(session.result("ping", &json!({})), json!({}));
}

#[test]
fn the_end_of_a_session_calls_its_requests_off() {
    let scratch = scratch();
    let inside = Inside::start(&scratch.path().join("data"), CALL_TIME_MAX);
    let _turn = inside.parts.workspace.ingesting.take(&|| false).unwrap();
    let session = Session::begin(&inside.at, "2025-11-25");
    let mut params = ingest();
    params["_meta"] = json!({"progressToken": "p"});
    let ask = session.signed(message("tools/call", &params));
    let mut stream = Client::open(&session.at).unwrap().follow(&ask);
    assert_eq!(session.send(Ask::new("DELETE", "/mcp")).status, 204);
    assert!(stream.next_event().is_err(), "it ends without an answer");
}

/// What a guest of these scopes sees of a restricted memory that is there.
fn seen_of_restricted(scopes: &'static [Scope], look: impl FnOnce(&str, &str)) {
    let scratch = scratch();
    let operators = Inside::start(&scratch.path().join("data"), CALL_TIME_MAX);
    let text = "The safe is behind the clock.";
    let arguments = json!({"text": text, "sensitivity": "restricted", "tags": ["safe"]});
    let params = json!({"name": "brain_remember", "arguments": arguments});
    let stored = wire::ask(&operators.at, &message("tools/call", &params)).json();
    let id = stored["result"]["structuredContent"]["item"]["id"].as_str().unwrap();
    let caller = Caller {
        workspace: "local".to_owned(),
        principal: "guest".to_owned(),
        plan: "team".to_owned(),
        scopes,
    };
    look(&operators.beside_for(caller).at, id);
}

#[test]
fn what_policy_denies_is_no_resource() {
    seen_of_restricted(&[Scope::TenantRead], |at, id| {
        let uri = json!({"uri": format!("memory://item/{id}")});
        let read = wire::ask(at, &message("resources/read", &uri)).json();
        assert_eq!(read["error"]["code"], -32002, "{read}");
        let session = Session::begin(at, "2025-11-25");
        assert_eq!(session.request("resources/subscribe", &uri)["error"]["code"], -32002);
        let brief = session.result("resources/read", &json!({"uri": "memory://brief/today"}));
        assert!(!brief.to_string().contains("behind the clock"), "{brief}");
        assert!(brief.to_string().contains("1 more withheld by policy"), "{brief}");
        let reference = json!({"type": "ref/prompt", "name": "daily-brief"});
        let argument = json!({"name": "focus", "value": "sa"});
        let params = json!({"ref": reference, "argument": argument});
        let found = session.result("completion/complete", &params);
        assert_eq!(found["completion"]["values"], json!([]));
    });
}

#[test]
fn without_the_scope_there_are_no_resources() {
    seen_of_restricted(&[Scope::BrainProxy], |at, _| {
        let listed = wire::ask(at, &message("resources/list", &json!({}))).json();
        assert_eq!(listed["result"]["resources"], json!([]));
        let uri = json!({"uri": "memory://brief/today"});
        let read = wire::ask(at, &message("resources/read", &uri)).json();
        assert_eq!(read["error"]["code"], -32002, "{read}");
        let brief = wire::ask(at, &message("prompts/get", &json!({"name": "daily-brief"}))).json();
        assert_eq!(brief["result"]["messages"].as_array().unwrap().len(), 1, "{brief}");
    });
}

/// A host of these tests: its tools wait until they are called off or let go, but for one that only
/// heeds the latter, and one that panics. Those of a worker wait on a worker, the others on threads of
/// their own.
struct Waiting {
    /// Told of a tool that begins, and, when it ends, whether it was called off.
    told: Mutex<Sender<(String, Option<bool>)>>,
    let_go: Arc<AtomicBool>,
}

impl Host for Waiting {
    type Caller = ();

    fn principal(&self, (): &()) -> String {
        "anyone".to_owned()
    }

    fn server_info(&self) -> Value {
        json!({"name": "waiting", "version": "1"})
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

    fn has_tool(&self, (): &(), _: &str) -> bool {
        true
    }

    fn waits(&self, tool: &str) -> bool {
        !tool.starts_with("worker")
    }

    fn call_tool(
        &self,
        (): &(),
        name: &str,
        _: &Map<String, Value>,
        client: &mcp::Client<'_>,
    ) -> Result<Outcome, Fault> {
        assert!(!name.ends_with("panic"), "this tool panics on purpose");
        let tell = |what| self.told.lock().unwrap().send((name.to_owned(), what)).unwrap();
        tell(None);
        let is_deaf = name == "deaf";
        while (is_deaf || !client.is_over()) && !self.let_go.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        tell(Some(client.cancel().is_raised()));
        Ok(Outcome::Done(json!({"content": []})))
    }
}

struct Bare(Endpoint<Waiting>);

impl net::Service for Bare {
    fn serve(&self, call: Call, reply: Reply) {
        self.0.serve(&call, (), reply);
    }
}

/// A running server of that host, with workers for two calls.
struct Bench {
    at: String,
    tells: Receiver<(String, Option<bool>)>,
    let_go: Arc<AtomicBool>,
    handle: ShutdownHandle,
    thread: Option<JoinHandle<()>>,
}

impl Bench {
    fn start(call_time_max: Duration) -> Self {
        let (told, tells) = mpsc::channel();
        let let_go = Arc::new(AtomicBool::new(false));
        let host = Waiting { told: Mutex::new(told), let_go: Arc::clone(&let_go) };
        let settings = mcp::Settings { call_time_max, random: Arc::new(SystemRandom) };
        let endpoint = Endpoint::start(host, settings).unwrap();
        let server = Server::bind(NetConfig {
            listeners: vec![Listen { id: LOCAL, address: ([127, 0, 0, 1], 0).into() }],
            workers: 2,
            limits: Limits::default(),
            wall_clock: SystemTime::now,
        })
        .unwrap();
        let at = server.addresses().unwrap()[0].1.to_string();
        let handle = server.handle();
        let thread = Some(thread::spawn(move || {
            server.run(Arc::new(Bare(endpoint))).unwrap();
        }));
        Self { at, tells, let_go, handle, thread }
    }

    fn told(&self) -> (String, Option<bool>) {
        self.tells.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    fn let_go(&self) {
        self.let_go.store(true, Ordering::SeqCst);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.let_go();
        self.handle.drain();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[test]
fn leaving_cancels_where_nobody_can_come_again() {
    let bench = Bench::start(CALL_TIME_MAX);
    let follow = |ask: &Ask| Client::open(&bench.at).unwrap().follow(ask);
    let streamed = |name: &str| json!({"name": name, "_meta": {"progressToken": 1}});
    let session = Session::begin(&bench.at, "2025-11-25");
    let old = follow(&session.signed(message("tools/call", &streamed("old"))));
    assert_eq!(bench.told(), ("old".to_owned(), None));
    // Without a session nobody could come again for the answer.
    let plain = follow(&message("tools/call", &streamed("plain")));
    assert_eq!(bench.told(), ("plain".to_owned(), None));
    drop(plain);
    assert_eq!(bench.told(), ("plain".to_owned(), Some(true)));
    let new = follow(&modern("tools/call", streamed("new")));
    assert_eq!(bench.told(), ("new".to_owned(), None));
    // The older one leaves first, so whatever that does is done when the newer one's leaving shows.
    drop(old);
    drop(new);
    assert_eq!(bench.told(), ("new".to_owned(), Some(true)));
    bench.let_go();
    assert_eq!(bench.told(), ("old".to_owned(), Some(false)));
}

#[test]
fn work_that_hears_nothing_is_answered_for_when_its_time_is_over() {
    let bench = Bench::start(Duration::from_millis(100));
    for ask in [
        message("tools/call", &json!({"name": "deaf"})),
        modern("tools/call", json!({"name": "deaf"})),
    ] {
        let answer = wire::ask(&bench.at, &ask);
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (200, &json!(-32001)));
        assert_eq!(answer.json()["error"]["data"]["limit_ms"], 100);
        assert_eq!(bench.told(), ("deaf".to_owned(), None), "it began, and goes on");
    }
    bench.let_go();
    assert_eq!(bench.told(), ("deaf".to_owned(), Some(true)), "it was called off");
}

#[test]
fn a_panic_is_answered_and_the_next_call_too() {
    let bench = Bench::start(CALL_TIME_MAX);
    for ask in [
        message("tools/call", &json!({"name": "panic"})),
        modern("tools/call", json!({"name": "panic"})),
    ] {
        let answer = wire::ask(&bench.at, &ask);
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (200, &json!(-32603)));
    }
    let streamed = |name: &str| json!({"name": name, "_meta": {"progressToken": 1}});
    for ask in [
        message("tools/call", &streamed("panic")),
        modern("tools/call", streamed("panic")),
        message("tools/call", &streamed("worker-panic")),
    ] {
        let mut stream = Client::open(&bench.at).unwrap().follow(&ask);
        assert_eq!(stream.next_event().unwrap().1["error"]["code"], -32603);
        let end = stream.next_event().unwrap_err().to_string();
        assert_eq!(end, "the stream ended", "in good order: the answer was read");
    }
}

/// A batch of tool calls, whose ids are their places.
fn batch(session: &Session, tools: &[&str]) -> Ask {
    let call = |(id, name): (usize, &&str)| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}});
    let calls: Vec<Value> = tools.iter().enumerate().map(call).collect();
    session.signed(Ask::post("/mcp", &json!(calls)).header("Accept", ACCEPT))
}

#[test]
fn the_calls_of_a_batch_share_one_time_bound() {
    let bench = Bench::start(Duration::from_millis(200));
    let session = Session::begin(&bench.at, "2025-03-26");
    let answer = wire::ask(&bench.at, &batch(&session, &["worker-1", "worker-2", "worker-3"]));
    let codes: Vec<Value> =
        answer.json().as_array().unwrap().iter().map(|one| one["error"]["code"].clone()).collect();
    assert_eq!(codes, [-32001, -32001, -32001]);
    assert_eq!(bench.told(), ("worker-1".to_owned(), None));
    assert_eq!(bench.told().0, "worker-1");
    assert!(bench.tells.try_recv().is_err(), "the others never began");
}

#[test]
fn a_call_of_a_batch_can_be_called_off_before_its_turn() {
    let bench = Bench::start(CALL_TIME_MAX);
    let session = Session::begin(&bench.at, "2025-03-26");
    let asked = batch(&session, &["worker-1", "worker-2"]);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| wire::ask(&bench.at, &asked));
        assert_eq!(bench.told(), ("worker-1".to_owned(), None));
        let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 1}});
        assert_eq!(session.send(Ask::post("/mcp", &note)).status, 202);
        bench.let_go();
        let answer = waiting.join().unwrap().json();
        let ids: Vec<&Value> = answer.as_array().unwrap().iter().map(|one| &one["id"]).collect();
        assert_eq!(ids, [0]);
    });
    assert_eq!(bench.told().0, "worker-1");
    assert!(bench.tells.try_recv().is_err(), "the other never began");
}

#[test]
fn a_lost_answer_is_taken_up_again_and_its_request_goes_on() {
    let bench = Bench::start(CALL_TIME_MAX);
    let session = Session::begin(&bench.at, "2025-11-25");
    let params = json!({"name": "slow", "_meta": {"progressToken": 1}});
    let ask = session.signed(message("tools/call", &params));
    let lost = Client::open(&bench.at).unwrap().follow(&ask);
    assert_eq!(bench.told(), ("slow".to_owned(), None));
    drop(lost);
    let mut again = session.stream(Some("1-0"));
    bench.let_go();
    assert_eq!(again.next_event().unwrap().1["result"]["content"], json!([]));
    assert_eq!(again.last_id(), Some("1-1"));
    assert!(again.next_event().is_err(), "it has ended");
}

#[test]
fn a_drain_lets_an_answer_come_to_its_end() {
    let params = json!({"name": "slow", "_meta": {"progressToken": 1}});
    for has_session in [true, false] {
        let bench = Bench::start(CALL_TIME_MAX);
        let (ask, mut own) = if has_session {
            let session = Session::begin(&bench.at, "2025-11-25");
            (session.signed(message("tools/call", &params)), Some(session.stream(None)))
        } else {
            (modern("tools/call", params.clone()), None)
        };
        let mut stream = Client::open(&bench.at).unwrap().follow(&ask);
        assert_eq!(bench.told(), ("slow".to_owned(), None));
        bench.handle.drain();
        if let Some(own) = &mut own {
            assert!(own.next_event().is_err(), "what is only listened to ends at once");
        }
        bench.let_go();
        assert_eq!(stream.next_event().unwrap().1["result"]["content"], json!([]));
        assert_eq!(bench.told(), ("slow".to_owned(), Some(false)));
    }
}
