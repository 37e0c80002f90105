//! MCP of the real program without sessions: the transport's rules and the five tools.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

use engine::os::clock::{Random, SystemRandom};
use serde_json::{Value, json};
use server::auth::{Credentials, Prefix, Verifier};
use server::govern::{check, tenant_hash};
use server::limits::PING_BYTES_MAX;
use server::tools::Tool;
use sha2::{Digest, Sha256};
use tests::documents;
use tests::mcp_client::{self, McpClient};
use tests::schema::{assert_conforms, rows};
use tests::service::{Service, scratch, write};
use tests::wire::Ask;

const RECALL: &str = "retrieval_arbitrate_tool";
const REMEMBER: &str = "brain_remember";
const INGEST: &str = "ingest_paths_tool";
const DOCUMENT: &str = "docstore_get_document_tool";
const STATS: &str = "recall_stats";
const TOOLS: [&str; 5] = [RECALL, DOCUMENT, REMEMBER, STATS, INGEST];

struct Shared {
    service: Service,
    folder: std::path::PathBuf,
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let scratch = scratch();
        let folder = scratch.path().canonicalize().unwrap().join("documents");
        documents::write_all(&folder);
        write(&folder, "codes.txt", documents::code_book());
        let service = Service::start_shared(scratch, &["--ingest", folder.to_str().unwrap()]);
        Shared { service, folder }
    })
}

fn client() -> McpClient {
    McpClient::open(&shared().service)
}

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

fn tool_call(tool: &str, arguments: &Value) -> Value {
    request("tools/call", &json!({"name": tool, "arguments": arguments}))
}

fn listed() -> Vec<Value> {
    client().request("tools/list", &json!({}))["result"]["tools"].as_array().unwrap().clone()
}

#[test]
fn initialize_echoes_known_revisions_and_offers_the_latest_otherwise() {
    let mut mcp = client();
    let mut initialize = |revision: &str| {
        let info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": info});
        mcp.request("initialize", &params)["result"].clone()
    };
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let result = initialize(revision);
        assert_eq!(result["protocolVersion"], revision);
        assert_eq!(result["serverInfo"]["name"], "recalld");
        assert!(result["serverInfo"]["version"].is_string());
        assert!(result["capabilities"]["tools"].is_object());
        assert!(result["instructions"].as_str().unwrap().contains(RECALL));
    }
    for revision in ["2030-01-01", "", "nonsense"] {
        assert_eq!(initialize(revision)["protocolVersion"], "2025-11-25", "{revision}");
    }
    let faulty = client().request("initialize", &json!({}));
    assert_eq!(faulty["error"]["code"], -32602);
}

#[test]
fn notifications_and_responses_are_taken_silently() {
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/unheard-of", "params": {}}),
        json!({"jsonrpc": "2.0", "id": 3, "result": {}}),
        json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}]),
    ] {
        let answer = client().send(&message);
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{message}");
    }
}

#[test]
fn ping_is_answered_for_any_kind_of_id() {
    for id in [json!(0), json!(-1), json!("text"), json!("")] {
        let answer = client().send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        assert_eq!(answer.json(), json!({"jsonrpc": "2.0", "id": id, "result": {}}));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        // The small one is answered on the event loop, the large one by a worker.
        let meta = json!({"_meta": {"padding": "x".repeat(PING_BYTES_MAX)}});
        let large = json!({"jsonrpc": "2.0", "id": id, "method": "ping", "params": meta});
        assert_eq!(client().send(&large).body, answer.body);
    }
    for id in [json!(null), json!(1.5), json!([]), json!({})] {
        let answer = client().send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        assert_eq!(answer.json()["error"]["code"], -32600, "{id}");
    }
}

#[test]
fn the_catalog_is_the_committed_one() {
    let tools = listed();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, TOOLS);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/tools.json");
    let now = serde_json::to_string_pretty(&tools).unwrap() + "\n";
    if std::env::var_os("RECALLD_TEST_BLESS").is_some() {
        fs::write(&path, &now).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == now,
        "the catalog differs from golden/tools.json; if that is meant, \
        run this test with RECALLD_TEST_BLESS=1 and commit the file"
    );
}

#[test]
fn the_list_is_one_page_and_as_long_as_the_profile_has_it() {
    let cursor = client().request("tools/list", &json!({"cursor": "x"}));
    assert_eq!(cursor["error"]["code"], -32602);
    let service = &shared().service;
    let list = |path: &str| service.ask(&Ask::post(path, &request("tools/list", &json!({}))));
    let names = |path: &str| -> Vec<String> {
        let answer = list(path).json();
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("/mcp?profile=full"), TOOLS);
    let core: Vec<&str> = rows().filter(|row| row.core).map(|row| row.name).collect();
    assert!(core.contains(&RECALL) && !core.contains(&STATS));
    assert_eq!(names("/mcp?profile=core"), core);
    let stats = service.ask(&Ask::post("/mcp?profile=core", &tool_call(STATS, &json!({}))));
    assert_eq!(stats.json()["result"]["isError"], false, "a profile shortens the list only");
    for path in ["/mcp?profile=daily", "/mcp?profile=core&profile=core"] {
        let unknown = list(path);
        let error = &unknown.json()["error"];
        assert_eq!((unknown.status, &error["data"]["reason"]), (400, &json!("unknown_profile")));
        assert!(error["message"].as_str().unwrap().contains("full, core"), "{error}");
    }
}

/// A call of each tool. What a row gives as its example works here, where `README.md` was ingested.
fn examples() -> Vec<(&'static str, Value)> {
    let folder = shared().folder.to_str().unwrap();
    let example = |row: &'static Tool| match row.name {
        // Many files, for many notes of progress.
        INGEST => (INGEST, json!({"paths": [folder], "dry_run": true})),
        name => (name, serde_json::from_str(row.example).unwrap()),
    };
    rows().map(example).collect()
}

/// The arguments, and what of them was no text as a string of JSON.
fn quoted(arguments: &Value) -> Value {
    let quoted = |value: &Value| match value {
        Value::String(_) => value.clone(),
        other => json!(other.to_string()),
    };
    let fields = arguments.as_object().unwrap().iter();
    fields.map(|(name, value)| (name.clone(), quoted(value))).collect()
}

#[test]
fn every_tool_understands_arguments_that_come_as_strings_of_json() {
    let mut mcp = client();
    for (tool, arguments) in examples() {
        mcp.call(tool, &quoted(&arguments));
        mcp.call(tool, &json!(arguments.to_string()));
        mcp.call(tool, &json!(quoted(&arguments).to_string()));
    }
    let wide = json!({
        "text": "Skuas keep to the north cliff.", "tags": "[\"birds\", \"cliff\"]",
        "source": "{\"uri\": \"https://example.org/birds\"}",
    });
    let item = mcp.call(REMEMBER, &wide)["item"].clone();
    assert_eq!(item["tags"], json!(["birds", "cliff"]));
    assert_eq!(item["source"]["uri"], "https://example.org/birds");
}

#[test]
fn every_misspelt_name_is_answered_with_the_nearest() {
    let mut mcp = client();
    for row in rows() {
        let fields = (row.shape)();
        for field in &fields {
            let misspelt = format!("{}x", field.name);
            let why = mcp.refusal(row.name, &json!({misspelt.as_str(): 1}));
            let told = format!("`{misspelt}` is not an argument; did you mean `{}`?", field.name);
            assert!(why.contains(&told), "{}: {why}", row.name);
        }
        let why = mcp.refusal(row.name, &json!({"entirely_different": 1}));
        let told = if fields.is_empty() { "takes no arguments" } else { "; it takes " };
        assert!(why.contains(told), "{}: {why}", row.name);
        let mut shorter = row.name.to_owned();
        shorter.remove(2);
        for misspelt in [shorter, row.name.to_uppercase()] {
            let answer = mcp.request("tools/call", &json!({"name": misspelt}));
            let error = &answer["error"];
            let told = format!("Unknown tool: {misspelt}; did you mean `{}`?", row.name);
            assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!(told)));
        }
    }
}

#[test]
fn all_five_tools_answer_as_json_and_as_a_stream() {
    let service = &shared().service;
    for (tool, arguments) in examples() {
        let message = tool_call(tool, &arguments);
        let json = client().send(&message);
        assert_eq!(json.header("content-type"), Some("application/json"), "{tool}");
        let ask = Ask::post("/mcp", &message).header("Accept", "text/event-stream");
        let streamed = service.ask(&ask);
        assert_eq!(streamed.status, 200, "{tool}: {}", streamed.text());
        let events = streamed.events();
        assert_eq!(events.len(), 1, "{tool}: only the answer: {events:?}");
        for answer in [json.json(), events[0].clone()] {
            assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)));
            let result = &answer["result"];
            assert_eq!(result["isError"], false, "{tool}: {answer}");
            assert_eq!(result["content"][0]["type"], "text");
            assert!(!result["content"][0]["text"].as_str().unwrap().is_empty(), "{tool}");
            assert_conforms(tool, &result["structuredContent"]);
        }
    }
}

#[test]
fn progress_is_notified_before_the_result() {
    let service = &shared().service;
    for (tool, arguments) in examples() {
        let mut message = tool_call(tool, &arguments);
        message["params"]["_meta"] = json!({"progressToken": "token-1"});
        let answer = service.ask(&mcp_client::ask(&message));
        let mut events = answer.events();
        let last = events.pop().unwrap();
        assert_eq!((&last["id"], &last["result"]["isError"]), (&json!(7), &json!(false)), "{last}");
        for event in &events {
            assert_eq!(event["method"], "notifications/progress");
            assert_eq!(event["params"]["progressToken"], "token-1");
            assert!(event.get("id").is_none());
        }
        let steps: Vec<u64> =
            events.iter().map(|event| event["params"]["progress"].as_u64().unwrap()).collect();
        assert!(steps.is_sorted_by(|a, b| a < b), "progress must increase: {tool} {steps:?}");
        if tool == INGEST {
            assert!(events.len() > 5, "{tool}: {} notifications", events.len());
        }
    }
}

#[test]
fn every_answer_has_a_receipt_and_they_are_numbered_in_order() {
    let mut mcp = client();
    let mut last = 0;
    let mut ids = HashSet::new();
    for (tool, arguments) in examples() {
        let receipt = mcp.call(tool, &arguments)["receipt"].clone();
        assert!(receipt["receipt_id"].as_str().unwrap().starts_with("rcp_"), "{receipt}");
        assert!(ids.insert(receipt["receipt_id"].clone()), "{receipt} was given before");
        let seq = receipt["seq"].as_u64().unwrap();
        assert!(seq > last, "{seq} after {last}");
        last = seq;
        assert_eq!(receipt["decision"], "allow");
        assert!(receipt["rule"].is_string());
        assert!(receipt["at"].as_str().unwrap().ends_with('Z'));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn answers_are_grounded() {
    let prefix = Prefix::new("recalld").unwrap();
    let data = shared().service.data();
    let (credentials, _) =
        Credentials::open_or_create(data, &prefix, &mut |bytes| SystemRandom.fill(bytes)).unwrap();
    let verifier = Verifier::new(&[credentials.signer().public()]).unwrap();
    let answer = client().call(RECALL, &json!({"query": "Why paraffin and not electricity?"}));
    let items = answer["items"].as_array().unwrap();
    assert!(!items.is_empty() && items.len() <= 8);
    assert!(items[0]["text"].as_str().unwrap().contains("undersea cable"), "{}", items[0]);
    for item in items {
        let text = item["text"].as_str().unwrap();
        let sha256: [u8; 32] = Sha256::digest(text).into();
        assert_eq!(item["content_sha256"], hex(&sha256), "{item}");
        let token = item["grounding_token"].as_str().unwrap();
        let said = check(token, &verifier, &tenant_hash("local")).unwrap();
        assert!(said.is_of(&sha256));
        let id = server::names::parse_item(item["id"].as_str().unwrap()).unwrap();
        assert_eq!(said.item, id.0.to_le_bytes());
        assert!(check(token, &verifier, &tenant_hash("other")).is_err());
        for name in ["kind", "title", "status", "sensitivity"] {
            assert!(item[name].is_string(), "{name} of {item}");
        }
        assert!(item["provenance"]["recorded_at"].is_string(), "{item}");
        assert!(item["source"]["uri"].is_string() || item["kind"] == "note", "{item}");
    }
    assert_eq!(answer["conflicts"], json!([]));
    let routing = &answer["routing"];
    let bounds = &routing["bounds"];
    for name in ["limit", "candidate_limit", "neighbor_limit", "max_bytes", "deadline_ms"] {
        assert!(bounds[name].as_u64().unwrap() > 0, "{name} of {bounds}");
    }
    let lanes: Vec<&str> = routing["lanes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lane| lane["lane"].as_str().unwrap())
        .collect();
    assert_eq!(lanes, ["words", "meaning", "graph"]);
    assert_eq!(routing["withheld"], 0);
}

#[test]
fn the_router_keeps_its_bounds() {
    let mut mcp = client();
    for name in ["limit", "candidate_limit"] {
        let why = mcp.refusal(RECALL, &json!({"query": "lamp", name: 50}));
        assert!(why.starts_with(name) && why.contains("\"limit\":8"), "{why}");
    }
    let long = mcp.refusal(RECALL, &json!({"query": "x".repeat(4097)}));
    assert!(long.contains("query") && long.contains("4096"), "{long}");
}

#[test]
fn faulty_calls_are_told_what_is_wrong() {
    let mut mcp = client();
    let why = mcp.refusal(RECALL, &json!({"quary": "lamp"}));
    assert!(why.contains("quary") && why.contains("did you mean `query`"), "{why}");
    let why = mcp.refusal(RECALL, &json!({}));
    assert!(why.starts_with("query") && why.contains("missing"), "{why}");
    assert!(mcp.refusal(DOCUMENT, &json!({})).contains("document_id or path"));
    assert!(mcp.refusal(DOCUMENT, &json!({"path": "nowhere.md"})).contains("nowhere.md"));
    let unknown = mcp.request("tools/call", &json!({"name": "nothing_tool", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("nothing_tool"));
    let none = mcp.request("tools/call", &json!({"name": STATS}));
    assert_eq!(none["result"]["isError"], false, "missing arguments are none: {none}");
    let list = mcp.request("tools/call", &json!({"name": STATS, "arguments": [1]}));
    assert_eq!(list["error"]["code"], -32602);
    let method = mcp.request("no/such/method", &json!({}));
    assert_eq!(method["error"]["code"], -32601);
}

#[test]
fn the_transport_keeps_its_rules() {
    let service = &shared().service;
    let ping = request("ping", &json!({}));
    let with = |kind: &str, accept: Option<&str>, body: &str| {
        let mut ask = Ask::new("POST", "/mcp").header("Content-Type", kind);
        if let Some(accept) = accept {
            ask = ask.header("Accept", accept);
        }
        service.ask(&ask.body(body.as_bytes().to_vec()))
    };
    let json = "application/json";
    let ping = ping.to_string();
    assert_eq!(with("text/plain", None, &ping).status, 415);
    assert_eq!(with(json, Some("text/html"), &ping).status, 406);
    assert_eq!(with("application/json; charset=utf-8", None, &ping).status, 200);
    for accept in ["*/*", "application/*", json, mcp_client::ACCEPT] {
        let answer = with(json, Some(accept), &ping);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(json)), "{accept}");
    }
    let broken = with(json, None, "{\"jsonrpc\": ");
    assert_eq!((broken.status, &broken.json()["error"]["code"]), (400, &json!(-32700)));
    assert_eq!(broken.json()["id"], Value::Null);
    for body in ["5", "\"x\"", "{\"id\":1,\"method\":\"ping\"}", "{\"jsonrpc\":\"2.0\",\"id\":1}"] {
        assert_eq!(with(json, None, body).json()["error"]["code"], -32600, "{body}");
    }
    let version = Ask::post("/mcp", &request("ping", &json!({})));
    let good = version.clone().header("MCP-Protocol-Version", "2025-03-26");
    assert_eq!(service.ask(&good).status, 200);
    assert_eq!(service.ask(&version.header("MCP-Protocol-Version", "1999-01-01")).status, 400);
    for method in ["GET", "DELETE"] {
        let answer = service.ask(&Ask::new(method, "/mcp").header("Accept", "text/event-stream"));
        assert_eq!(answer.status, 400, "{method} takes a session");
        assert_eq!(answer.json()["error"]["data"]["reason"], "session_required", "{method}");
    }
    for method in ["HEAD", "PUT"] {
        assert_eq!(service.ask(&Ask::new(method, "/mcp")).status, 405, "{method}");
    }
}

#[test]
fn batches_are_answered_together() {
    let mut mcp = client();
    let ping = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let answer = mcp.send(&json!([ping(1), note, 5, ping(2)])).json();
    let answers = answer.as_array().unwrap();
    assert_eq!(answers.len(), 3, "{answer}");
    assert_eq!((&answers[0]["id"], &answers[2]["id"]), (&json!(1), &json!(2)));
    assert_eq!(answers[1]["error"]["code"], -32600);
    let empty = mcp.send(&json!([]));
    assert_eq!((empty.status, &empty.json()["error"]["code"]), (400, &json!(-32600)));
    let many = mcp.send(&json!(vec![ping(1); 65]));
    assert_eq!(many.status, 400);
    let params = json!({"protocolVersion": "2025-03-26"});
    let batched = mcp.send(&json!([request("initialize", &params), ping(1)])).json();
    assert_eq!(batched[0]["error"]["code"], -32600, "{batched}");
    assert_eq!(batched[1]["result"], json!({}));
}

/// The lines of a file, as evidence names them.
fn lines(evidence: &Value) -> String {
    let file = fs::read_to_string(evidence["path"].as_str().unwrap()).unwrap();
    let line = |name: &str| usize::try_from(evidence[name].as_u64().unwrap()).unwrap();
    let lines: Vec<&str> = file.lines().collect();
    lines[line("line_start") - 1..line("line_end")].join("\n")
}

#[test]
fn evidence_comes_exactly_when_a_place_is_asked_for() {
    let mut mcp = client();
    let mut items = |query: &str| {
        let answer = mcp.call(RECALL, &json!({"query": query}));
        answer["items"].as_array().unwrap().clone()
    };
    for query in
        ["where is the spiral staircase mentioned?", "tide_height", "what is in src/lamp.py"]
    {
        let found = items(query);
        for item in &found {
            let evidence = &item["map_evidence"];
            if item["kind"] != "chunk" {
                continue;
            }
            assert_eq!(evidence["file"], "unchanged", "{item}");
            let file = fs::read(evidence["path"].as_str().unwrap()).unwrap();
            assert_eq!(evidence["file_sha256"], hex(&Sha256::digest(&file)));
            assert!(evidence["verified_at"].as_str().unwrap().ends_with('Z'));
            if !evidence["path"].as_str().unwrap().ends_with(".html") {
                let text = item["text"].as_str().unwrap().trim();
                let there = lines(evidence);
                assert!(there.contains(text), "{evidence}: {there:?} has no {text:?}");
            }
        }
        assert!(found.iter().any(|item| item["map_evidence"].is_object()), "{query}");
    }
    for query in ["why paraffin?", "how often does the fog horn sound?"] {
        assert!(items(query).iter().all(|item| item.get("map_evidence").is_none()), "{query}");
    }
}

#[test]
fn evidence_notices_that_a_file_changed() {
    let shared = shared();
    let text = "# Puffins\n\nThe puffin colony lives above the west gully.\n";
    let path = write(&shared.folder, "puffins.md", text);
    let mut mcp = client();
    mcp.call(INGEST, &json!({"paths": [path]}));
    let mut evidence = || {
        let query = json!({"query": "where is the puffin colony in the west gully?"});
        let answer = mcp.call(RECALL, &query);
        let item = answer["items"].as_array().unwrap().iter().find(|item| item["kind"] == "chunk");
        item.unwrap()["map_evidence"].clone()
    };
    assert_eq!(evidence()["file"], "unchanged");
    write(&shared.folder, "puffins.md", format!("A new line.\n\n{text}"));
    let moved = evidence();
    assert_eq!(moved["file"], "moved");
    assert!(lines(&moved).contains("west gully"), "{moved}");
    write(&shared.folder, "puffins.md", text.replace("west", "east"));
    assert_eq!(evidence()["file"], "changed");
    fs::remove_file(&path).unwrap();
    assert_eq!(evidence()["file"], "missing");
}

#[test]
fn a_document_comes_back_byte_for_byte() {
    let folder = &shared().folder;
    let mut mcp = client();
    for name in [
        "README.md",
        "decisions.md",
        "reference/signals.rst",
        "src/tides.rs",
        "src/lamp.py",
        "stores.txt",
    ] {
        let document = mcp.call(DOCUMENT, &json!({"path": name}));
        let file = fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(document["text"], file, "{name}");
        assert_eq!(document["path"], json!(folder.join(name)));
        assert_eq!(document["bytes"], file.len());
        assert_eq!(document["content_sha256"], hex(&Sha256::digest(&file)));
        assert_eq!((&document["offset"], &document["truncated"]), (&json!(0), &json!(false)));
        let by_id = mcp.call(DOCUMENT, &json!({"document_id": document["document_id"]}));
        assert_eq!(by_id["text"], document["text"]);
    }
    let visitors = mcp.call(DOCUMENT, &json!({"path": folder.join("visitors.html")}));
    assert_eq!(visitors["title"], "Visiting Skerry Point");
    assert!(visitors["text"].as_str().unwrap().contains("floods & must not"), "{visitors}");
}

#[test]
fn a_long_document_is_read_in_pieces() {
    let mut mcp = client();
    let (mut text, mut offset, mut pieces) = (String::new(), json!(0), 0);
    loop {
        let piece = mcp.call(DOCUMENT, &json!({"path": "codes.txt", "offset": offset}));
        assert_eq!(piece["offset"], offset);
        assert!(piece["text"].as_str().unwrap().len() <= 64 << 10);
        text.push_str(piece["text"].as_str().unwrap());
        pieces += 1;
        if piece["truncated"] == false {
            assert!(piece.get("next_offset").is_none());
            break;
        }
        offset = piece["next_offset"].clone();
    }
    assert!(pieces > 1);
    assert_eq!(text, documents::code_book());
    let beyond = mcp.refusal(DOCUMENT, &json!({"path": "codes.txt", "offset": text.len() + 1}));
    assert!(beyond.starts_with("offset"), "{beyond}");
}

#[test]
fn a_memory_replaces_another_and_is_recalled_first() {
    let mut mcp = client();
    let old = "The lens is wound every nineteen minutes, says keeper Aoife.";
    let new = "The lens is wound every twenty-three minutes, says keeper Aoife.";
    let first = mcp.call(
        REMEMBER,
        &json!({"text": old, "kind": "fact", "tags": ["lens"],
        "source": {"uri": "https://example.org/log", "title": "Log"}}),
    );
    let item = &first["item"];
    assert_eq!(
        (&item["text"], &item["kind"], &item["tags"]),
        (&json!(old), &json!("fact"), &json!(["lens"]))
    );
    assert_eq!(item["source"]["uri"], "https://example.org/log");
    assert_eq!(item["provenance"]["via"], REMEMBER);
    let twin = mcp.call(REMEMBER, &json!({"text": new}));
    let duplicates = twin["possible_duplicates"].as_array().unwrap();
    assert!(duplicates.iter().any(|one| one["id"] == item["id"]), "{twin}");
    assert!(duplicates[0]["score"].as_f64().unwrap() >= 0.92);
    let replacing = mcp.call(REMEMBER, &json!({"text": new, "supersedes": item["id"]}));
    assert_eq!(replacing["item"]["supersedes"], json!([item["id"]]));
    let answer = mcp.call(RECALL, &json!({"query": "lens wound every nineteen minutes Aoife"}));
    let ids: Vec<&Value> =
        answer["items"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
    let at = |id: &Value| ids.iter().position(|other| *other == id);
    let (now, before) = (at(&replacing["item"]["id"]).unwrap(), at(&item["id"]).unwrap());
    assert!(now < before, "{now} {before}");
    assert_eq!(answer["items"][before]["status"], "superseded");
    assert_eq!(answer["items"][before]["superseded_by"], replacing["item"]["id"]);
    let nobody = json!({"text": "x", "supersedes": "itm_00000000000000000000000000"});
    assert!(mcp.refusal(REMEMBER, &nobody).contains("supersedes"));
    assert!(mcp.refusal(REMEMBER, &json!({"text": "x", "kind": "chunk"})).starts_with("kind"));
}

#[test]
fn a_repeated_key_gives_the_first_answer() {
    let mut mcp = client();
    let arguments = json!({"text": "Eiders nest in the boathouse.", "idempotency_key": "eider-1"});
    let first = mcp.call(REMEMBER, &arguments)["item"]["id"].clone();
    assert_eq!(mcp.call(REMEMBER, &arguments)["item"]["id"], first);
    let other = json!({"text": "Eiders left.", "idempotency_key": "eider-1"});
    let why = mcp.refusal(REMEMBER, &other);
    assert!(why.starts_with("idempotency_key") && why.contains("other arguments"), "{why}");
    let at_once = json!({"text": "Terns nest on the helipad.", "idempotency_key": "tern-1"});
    let ids: HashSet<String> = thread::scope(|scope| {
        let call = || client().call(REMEMBER, &at_once)["item"]["id"].as_str().unwrap().to_owned();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(call)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 1, "{ids:?}");
    let body = json!({"query": "Terns nest on the helipad", "limit": 50});
    let seeds = shared().service.post("/recall", &body);
    let same = |seed: &&Value| seed["text"] == "Terns nest on the helipad.";
    assert_eq!(seeds.as_array().unwrap().iter().filter(same).count(), 1);
}

#[test]
fn files_outside_the_roots_are_out_of_reach() {
    let folder = &shared().folder;
    let elsewhere = scratch();
    let secret =
        write(elsewhere.path(), "secret.md", "# Secret\n\nThe treasure lies under rock nine.\n");
    symlink(&secret, folder.join("innocent.md")).unwrap();
    symlink(elsewhere.path(), folder.join("innocent")).unwrap();
    let mut mcp = client();
    for path in [
        secret.to_str().unwrap().to_owned(),
        format!("{}/../{}", folder.display(), secret.display()),
        "../secret.md".to_owned(),
        "/etc/passwd".to_owned(),
        "/".to_owned(),
        "innocent.md".to_owned(),
        "innocent/secret.md".to_owned(),
        folder.join("innocent.md").display().to_string(),
    ] {
        let why = mcp.refusal(INGEST, &json!({"paths": [path]}));
        assert!(why.starts_with("paths"), "{path}: {why}");
    }
    let report = mcp.call(INGEST, &json!({"paths": [folder], "include": ["*innocent*"]}));
    assert_eq!(report["items"], 0, "{report}");
    let query = json!({"query": "treasure under rock nine", "limit": 50});
    let seeds = shared().service.post("/recall", &query).to_string();
    assert!(!seeds.contains("treasure"), "{seeds}");
}

#[test]
fn a_dry_run_writes_nothing() {
    let path =
        write(&shared().folder, "dry/dolphins.md", "# Dolphins\n\nA pod of nine dolphins.\n");
    let mut mcp = client();
    let report = mcp.call(INGEST, &json!({"paths": ["dry"], "dry_run": true}));
    assert_eq!((&report["files"], &report["items"]), (&json!(1), &json!(2)), "{report}");
    assert_eq!((&report["job_id"], &report["dry_run"]), (&Value::Null, &json!(true)));
    assert!(mcp.refusal(DOCUMENT, &json!({"path": path})).contains("no document"));
    let real = mcp.call(INGEST, &json!({"paths": ["dry"]}));
    assert_eq!(real["items"], 2);
    assert!(real["job_id"].as_str().unwrap().starts_with("job_"));
}
