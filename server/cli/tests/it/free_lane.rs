//! The free plan: three tools, writes after the address is confirmed, and a quota whose errors name its reset. Also the
//! errors of a credential with fewer scopes than its plan.

use std::time::{Duration, Instant};

use recalld_auth::Prefix;
use recalld_cli::app;
use recalld_common::cancel::CancellationToken;
use recalld_metastore::Kind;
use recalld_policy::rate::key_of;
use recalld_policy::{Caller, Metered};
use recalld_tool_framework::{ServiceError, ToolContext};
use recalld_tools::CATALOG;
use serde_json::{Map, Value, json};
use support_server::house::{House, SCOPES, api, call, entries, given, mcp, tools};
use support_server::settings::settings;
use support_wire::mcp_client;
use support_wire::service::{Service, scratch};
use support_wire::wire::{self, Answer, Ask};

/// Confirms the email address of a workspace.
fn verify(house: &House, slug: &str) {
    let secret = house.control.set_email(slug, "ada@example.org", &Prefix::default()).unwrap();
    house.control.verify_email(secret.expose().as_bytes()).unwrap();
}

/// Returns true if the time is the start of a month.
fn is_beginning_of_a_month(time: &str) -> bool {
    time.get(7..) == Some("-01T00:00:00Z")
}

#[test]
fn a_free_workspace_has_three_tools_and_writes_once_its_address_is_confirmed() {
    let house = House::new();
    house.tenant("new-lane", "free");
    house.tenant("old-lane", "free");
    verify(&house, "old-lane");
    let new = house.bearer("new-lane", Kind::User, &SCOPES);
    let old = house.bearer("old-lane", Kind::User, &SCOPES);
    let (service, _scratch) = house.serve(&[]);
    for bearer in [&new, &old] {
        assert_eq!(tools(&service, bearer), ["brain_recall", "brain_remember", "tenant_info"]);
    }
    let info = given(&service, &new, "tenant_info", &json!({}));
    let said =
        [&info["workspace"], &info["plan"], &info["email_verified"], &info["writes_enabled"]];
    assert_eq!(said, [&json!("new-lane"), &json!("free"), &json!(false), &json!(false)], "{info}");
    assert_eq!(info["families"], json!(["recall", "items", "tenant"]), "{info}");
    assert_eq!(info["scopes"], json!(SCOPES), "{info}");
    assert_eq!(info["rate"], json!({"per_second": 20, "burst": 60}), "{info}");
    assert_eq!(
        (&info["quota"]["limit"], &info["quota"]["used"]),
        (&json!(1000), &json!(0)),
        "{info}"
    );
    let resets_at = info["quota"]["resets_at"].as_str().unwrap();
    assert!(is_beginning_of_a_month(resets_at), "{info}");

    let refused = call(&service, &new, "brain_remember", &json!({"text": "A note."})).json();
    let (result, meta) = (&refused["result"], &refused["result"]["_meta"]);
    assert_eq!(
        (&result["isError"], &meta["recalld/reason"]),
        (&json!(true), &json!("email_not_verified"))
    );
    let why = result["content"][0]["text"].as_str().unwrap();
    assert!(why.contains("follow the link in the mail"), "{why}");
    given(&service, &new, "brain_recall", &json!({"query": "A note?"}));

    given(&service, &old, "brain_remember", &json!({"text": "The lamp is green."}));
    let info = given(&service, &old, "tenant_info", &json!({}));
    assert_eq!((&info["email_verified"], &info["writes_enabled"]), (&json!(true), &json!(true)));
    assert_eq!(info["quota"]["used"], 1, "its write, and not yet this call: {info}");
    let found =
        given(&service, &old, "brain_recall", &json!({"query": "What colour is the lamp?"}));
    assert!(found["items"].to_string().contains("green"), "{found}");
    // Other tools are unknown, whichever route calls them.
    for tool in ["retrieval_arbitrate_tool", "recall_stats", "ingest_paths_tool", "no_such_tool"] {
        let answer = call(&service, &old, tool, &json!({"query": "x"}));
        assert_eq!(
            (answer.status, answer.json()["error"]["code"].clone()),
            (200, json!(-32602)),
            "{tool}"
        );
    }
    // The operator's own workspace has no limits.
    let own = mcp_client::McpClient::open(&service).call("tenant_info", &json!({}));
    assert_eq!((&own["workspace"], &own["plan"]), (&json!("local"), &json!("operator")));
    assert!(own.get("quota").is_none() && own.get("rate").is_none(), "{own}");
}

#[test]
fn a_quota_that_is_used_up_says_when_there_is_more() {
    let house = House::new();
    let bearer = house.tenant("acme", "free");
    house.control.set_quota("acme", Some(2)).unwrap();
    let other = house.tenant("globex", "team");
    house.control.set_quota("globex", Some(0)).unwrap();
    let (service, _scratch) = house.serve(&[]);
    for _ in 0..2 {
        given(&service, &bearer, "brain_recall", &json!({"query": "anything?"}));
    }
    let refused = call(&service, &bearer, "brain_recall", &json!({"query": "anything?"})).json();
    let (result, meta) = (&refused["result"], &refused["result"]["_meta"]);
    assert_eq!(
        (&result["isError"], &meta["recalld/reason"]),
        (&json!(true), &json!("quota_exceeded"))
    );
    let why = result["content"][0]["text"].as_str().unwrap();
    let until = why.split(' ').find(|word| word.ends_with('Z')).unwrap_or_default();
    assert!(is_beginning_of_a_month(until), "{why}");
    let asked = Ask::post("/recall", &json!({"query": "anything?"}));
    let answer = api(&service, service.hosted(), &bearer, asked);
    assert_eq!(answer.status, 429, "{}", answer.text());
    // A resource over the quota is not reported as missing.
    let read = mcp(&other, "resources/read", &json!({"uri": "memory://brief/today"}));
    let read = wire::ask(service.hosted(), &read).json();
    assert_eq!(read["error"]["data"]["reason"], "quota_exceeded", "{read}");
    assert!(read["error"]["message"].as_str().unwrap().contains(until), "{read}");
}

#[test]
fn without_a_reservation_nothing_runs() {
    let scratch = scratch();
    let of = settings(&scratch.path().join("data"), None, Duration::from_secs(60));
    let parts = app::start(&of, &mut recalld_embedding::model::Silent).unwrap().parts;
    parts.tenants.make("acme").unwrap();
    let workspace = parts.tenants.open("acme").unwrap();
    let metered = Metered { bucket: key_of(b"acme"), calls_per_month: Some(10), may_write: true };
    let caller = Caller { metered: Some(metered), ..Caller::local_operator("acme") };
    let cancel = CancellationToken::new();
    let context = ToolContext {
        services: parts.tool_services(),
        workspace: &workspace,
        caller: &caller,
        cancel: &cancel,
        deadline: Instant::now() + Duration::from_secs(60),
        progress: None,
    };
    // From here on, quota reservations fail.
    parts.meter.close(parts.clock.now()).unwrap();
    for (tool, arguments) in [
        ("brain_remember", json!({"text": "It would be free of charge."})),
        ("brain_recall", json!({"query": "anything?"})),
    ] {
        let tool = CATALOG.find(&caller, tool).unwrap();
        let arguments: &Map<String, Value> = arguments.as_object().unwrap();
        let refused = tool.call(&context, arguments).unwrap_err();
        assert!(matches!(refused.error, ServiceError::Unmetered(_)), "{refused}");
        assert_eq!(refused.error.reason(), "metering_unavailable");
        assert!(refused.receipt.is_some(), "it has its entry all the same");
    }
    assert_eq!(workspace.store.snapshot().row_counts().unwrap().items, 0);
}

fn challenge(answer: &Answer) -> &str {
    answer.header("www-authenticate").unwrap_or_default()
}

/// Calls a tool in the protocol version of stateless requests.
fn called_alone(service: &Service, bearer: &str, tool: &str) -> Answer {
    const META: &str = "io.modelcontextprotocol/";
    let params = json!({
        "name": tool, "arguments": {"text": "x"},
        "_meta": {
            format!("{META}protocolVersion"): "2026-07-28", format!("{META}clientCapabilities"): {},
        },
    });
    let ask = mcp(bearer, "tools/call", &params)
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", tool);
    wire::ask(service.hosted(), &ask)
}

#[test]
fn a_scope_that_is_missing_is_asked_for_and_a_tool_beyond_the_plan_is_not_there() {
    let house = House::new();
    house.tenant("acme", "team");
    let reader = house.bearer("acme", Kind::Bearer, &["brain:proxy"]);
    let (service, _scratch) = house.serve(&[]);
    let (tool, arguments) = ("brain_remember", json!({"text": "x"}));
    assert!(!tools(&service, &reader).contains(&tool.to_owned()));
    for answer in [call(&service, &reader, tool, &arguments), called_alone(&service, &reader, tool)]
    {
        assert_eq!(answer.status, 403, "{}", answer.text());
        let body = answer.json();
        assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &json!(1)), "{body}");
        assert_eq!(body["error"]["data"]["reason"], "insufficient_scope", "{body}");
        let said = challenge(&answer);
        assert!(said.starts_with("Bearer error=\"insufficient_scope\""), "{said}");
        // The challenge lists all needed scopes, including those already granted.
        assert!(said.contains("scope=\"brain:proxy memory:write\""), "{said}");
        let at = format!("http://{}/.well-known/oauth-protected-resource/mcp", service.hosted());
        assert!(said.contains(&format!("resource_metadata=\"{at}\"")), "{said}");
    }
    // If one call of a batch lacks a scope, no call is executed.
    let one = |id: u64, name: &str, arguments: &Value| {
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let batch = json!([one(1, "brain_recall", &json!({"query": "x"})), one(2, tool, &arguments)]);
    let ask = mcp_client::ask(&batch).header("Authorization", &format!("Bearer {reader}"));
    let answer = wire::ask(service.hosted(), &ask);
    assert_eq!((answer.status, challenge(&answer).is_empty()), (403, false), "{}", answer.text());
    assert!(entries(service.data(), "acme", "brain_recall").is_empty());
    // A tool outside the plan and an unknown tool get the same error.
    for tool in ["brain_benchmark_recall", "no_such_tool"] {
        let answer = call(&service, &reader, tool, &json!({}));
        assert_eq!((answer.status, challenge(&answer)), (200, ""), "{}", answer.text());
        assert_eq!(answer.json()["error"]["code"], -32602, "{tool}: {}", answer.text());
    }
    // Each denial is in the ledger.
    let refused = entries(service.data(), "acme", "tools/call");
    assert_eq!(refused.len(), 5, "{refused:?}");
    assert!(refused.iter().all(|entry| entry["rule"] == "fixed/not-entitled"), "{refused:?}");
}
