//! Settings for identity, policy and audit: each takes effect as configured.

use std::fs;
use std::path::Path;
use std::time::Duration;

use recalld_audit::AuditSync;
use recalld_audit::{Trace, hash_call};
use recalld_cli::app;
use recalld_config::Config;
use recalld_metastore::Kind;
use serde_json::{Value, json};
use support_server::house::{House, SCOPES, api, call, entries, given, mcp};
use support_server::settings::settings;
use support_wire::kept::assert_fails;
use support_wire::mcp_client;
use support_wire::service::{Service, run, scratch};
use support_wire::wire::{self, Answer, Ask};

const ASSERT: [&str; 3] = ["tenant:read", "brain:proxy", "identity:assert"];

/// A recall with this turn identity in `_meta`.
fn asked_for(service: &Service, bearer: &str, identity: &Value) -> Answer {
    let params = json!({
        "name": "brain_recall", "arguments": {"query": "anything?"},
        "_meta": {"recalld/turn-identity": identity},
    });
    wire::ask(service.hosted(), &mcp(bearer, "tools/call", &params))
}

/// As [`asked_for`], in the protocol version of stateless requests.
fn asked_alone(service: &Service, bearer: &str, identity: &Value) -> Answer {
    const META: &str = "io.modelcontextprotocol/";
    let params = json!({
        "name": "brain_recall", "arguments": {"query": "anything?"},
        "_meta": {
            "recalld/turn-identity": identity, format!("{META}protocolVersion"): "2026-07-28",
            format!("{META}clientCapabilities"): {},
        },
    });
    let ask = mcp(bearer, "tools/call", &params)
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", "brain_recall");
    wire::ask(service.hosted(), &ask)
}

/// The machine-readable reason of a rejected call.
fn reason(answer: &Answer) -> Value {
    let body = answer.json();
    assert_eq!(body["result"]["isError"], true, "{body}");
    let receipt = &body["result"]["_meta"]["recalld/receipt"];
    assert_eq!(
        (&receipt["decision"], &receipt["rule"]),
        (&json!("deny"), &json!("fixed/not-identified"))
    );
    body["result"]["_meta"]["recalld/reason"].clone()
}

fn principals(service: &Service, workspace: &str, tool: &str) -> Vec<String> {
    let entries = entries(service.data(), workspace, tool);
    entries.iter().map(|entry| entry["principal"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn identities_are_recorded_where_that_is_set() {
    let house = House::new();
    let plain = house.tenant("acme", "team");
    let service_key = house.issue("acme", Kind::Bearer, Some("gateway"), &ASSERT);
    let (service, _scratch) = house.serve_with("[identity]\nenforcement = \"record\"\n");
    let ok =
        |answer: Answer| assert_eq!(answer.json()["result"]["isError"], false, "{}", answer.text());
    ok(asked_for(&service, &service_key, &json!("eve@example.com")));
    ok(asked_alone(&service, &service_key, &json!("ida@example.com")));
    ok(call(&service, &service_key, "brain_recall", &json!({"query": "anything?"})));
    // Without the scope `identity:assert`, the identity in `_meta` is ignored.
    ok(asked_for(&service, &plain, &json!("eve@example.com")));
    for wrong in [json!(7), json!(""), json!("eve and ida"), json!("x".repeat(129))] {
        let refused = asked_for(&service, &service_key, &wrong);
        assert_eq!(reason(&refused), "invalid_identity", "{wrong}");
    }
    let recorded = principals(&service, "acme", "brain_recall");
    let by_gateway = "user:gateway";
    let wanted = [
        "eve@example.com by user:gateway",
        "ida@example.com by user:gateway",
        by_gateway,
        "user:ada",
        by_gateway,
        by_gateway,
        by_gateway,
        by_gateway,
    ];
    assert_eq!(recorded, wanted);
    // Reading a resource records the identity, too.
    let params = json!({
        "uri": "memory://brief/today", "_meta": {"recalld/turn-identity": "eve@example.com"},
    });
    wire::ask(service.hosted(), &mcp(&service_key, "resources/read", &params));
    assert_eq!(principals(&service, "acme", "resources/read"), ["eve@example.com by user:gateway"]);
}

#[test]
fn a_call_for_nobody_is_refused_where_an_identity_is_required() {
    let house = House::new();
    let named = house.tenant("acme", "team");
    let nameless = house.issue("acme", Kind::Bearer, None, &SCOPES);
    let gateway = house.issue("acme", Kind::Bearer, None, &ASSERT);
    let (service, _scratch) = house.serve_with("[identity]\nenforcement = \"require\"\n");
    given(&service, &named, "brain_recall", &json!({"query": "anything?"}));
    for (what, refused) in [
        ("a key without a name", call(&service, &nameless, "brain_recall", &json!({"query": "x"}))),
        ("an assertion without the scope", asked_for(&service, &nameless, &json!("eve"))),
        (
            "a gateway that says nobody",
            call(&service, &gateway, "brain_recall", &json!({"query": "x"})),
        ),
        ("the same, per request", asked_alone(&service, &nameless, &json!("eve"))),
        ("a write", call(&service, &nameless, "brain_remember", &json!({"text": "x"}))),
    ] {
        assert_eq!(reason(&refused), "identity_required", "{what}");
    }
    assert_eq!(asked_for(&service, &gateway, &json!("eve")).json()["result"]["isError"], false);
    // The HTTP API has no field for an asserted identity.
    for at in [service.hosted(), service.local()] {
        assert_eq!(api(&service, at, &named, Ask::get("/stats")).status, 200);
        let refused = api(&service, at, &nameless, Ask::get("/stats"));
        assert_eq!(refused.status, 403, "{}", refused.text());
        assert!(refused.text().contains("for whom"), "{}", refused.text());
    }
    // A resource that requires an identity is not reported as missing.
    let read = mcp(&nameless, "resources/read", &json!({"uri": "memory://brief/today"}));
    let read = wire::ask(service.hosted(), &read).json();
    assert_eq!(read["error"]["data"]["reason"], "identity_required", "{read}");
    // The operator counts as identified only at the local listener.
    let operators = service.credentials().bearer.clone();
    assert_eq!(api(&service, service.local(), &operators, Ask::get("/stats")).status, 200);
    assert_eq!(api(&service, service.hosted(), &operators, Ask::get("/stats")).status, 403);
    let local = mcp_client::McpClient::open(&service).call("recall_stats", &json!({}));
    assert_eq!(local["receipt"]["decision"], "allow");
    // Methods that are not governed require no identity.
    let list = wire::ask(service.hosted(), &mcp(&nameless, "tools/list", &json!({})));
    assert_eq!(list.status, 200);
    // A rejected call is not metered, and is recorded as denied.
    let refused = entries(service.data(), "acme", "brain_remember");
    assert_eq!(
        (&refused[0]["decision"], &refused[0]["outcome"]),
        (&json!("deny"), &json!("refused"))
    );
}

#[test]
fn a_policy_file_holds_for_every_workspace() {
    let house = House::new();
    let acme = house.tenant("acme", "team");
    let rules = house.scratch.path().join("rules.toml");
    fs::write(
        &rules,
        "[[rule]]\nname = \"acme/notes\"\nkind = \"note\"\nup_to = \"restricted\"\n\
         actions = [\"read\", \"write\"]\nverdict = \"allow\"\n\
         [[rule]]\nname = \"acme/no-secrets\"\nkind = \"note\"\ngate = \"secret\"\n\
         actions = [\"read\"]\nverdict = \"deny\"\n",
    )
    .unwrap();
    // A relative path is resolved from the folder of the settings file.
    let (service, _scratch) = house.serve_with("[policy]\nfile = \"rules.toml\"\n");
    let remember = |text: &str, fields: Value| {
        let mut arguments = json!({"text": text});
        arguments.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        given(&service, &acme, "brain_remember", &arguments)
    };
    let open = remember("The lamp is green.", json!({"sensitivity": "restricted"}));
    assert_eq!(open["receipt"]["decision"], "allow", "the initial rules open no restricted item");
    let unread = remember("The lamp is blue at night.", json!({"gates": ["secret"]}));
    assert!(
        !unread["item"].to_string().contains("blue"),
        "who may not read it is told its id: {unread}"
    );
    let found =
        given(&service, &acme, "brain_recall", &json!({"query": "which colour has the lamp?"}));
    let told = found["items"].to_string();
    assert!(told.contains("green") && !told.contains("blue"), "{found}");
    // No rule allows other kinds.
    let other =
        call(&service, &acme, "brain_remember", &json!({"text": "x", "kind": "fact"})).json();
    assert_eq!(other["result"]["isError"], true, "{other}");
    // Policy applies to the operator's own workspace, too.
    let mut local = mcp_client::McpClient::open(&service);
    let text = json!({"text": "The operator's lamp is red.", "gates": ["secret"]});
    local.call("brain_remember", &text);
    let found = local.call("brain_recall", &json!({"query": "which colour has the lamp?"}));
    assert!(!found["items"].to_string().contains("red"), "{found}");
}

#[test]
fn a_broken_policy_file_is_said_with_its_place_and_nothing_starts() {
    let scratch = scratch();
    let file = scratch.path().join("settings.toml");
    fs::write(&file, "[policy]\nfile = \"rules.toml\"\n").unwrap();
    let serve = |rules: Option<&str>| {
        let path = scratch.path().join("rules.toml");
        let _none_yet = fs::remove_file(&path);
        if let Some(rules) = rules {
            fs::write(&path, rules).unwrap();
        }
        let data = scratch.path().join("data");
        run(&data, &["serve", "--local", "127.0.0.1:0", "--config", file.to_str().unwrap()])
    };
    let rule = "[[rule]]\nname = \"a\"\nactions = [\"read\"]\n";
    for (rules, words) in [
        (None, &["rules.toml", "policy check"][..]),
        (Some("[[rule]"), &["rules.toml", "line 1"]),
        (
            Some(&format!("{rule}verdict = \"maybe\"\n")),
            &["rule[0]", "verdict", "allow, redact, deny"],
        ),
        (Some(&format!("{rule}verdict = \"deny\"\nplan = \"gold\"\n")), &["rule[0] \"a\".plan"]),
    ] {
        assert_fails(&serve(rules), 3, words);
    }
}

#[test]
fn entries_of_reads_are_on_disk_before_the_answer_where_that_is_set() {
    let scratch = scratch();
    let config = Config { audit_sync: AuditSync::Always, ..Config::default() };
    let of = settings(&scratch.path().join("data"), None, Duration::from_secs(60));
    let started =
        app::start(&app::Settings { config, ..of }, &mut recalld_embedding::model::Silent).unwrap();
    let parts = started.parts;
    parts.tenants.make("acme").unwrap();
    let acme = parts.tenants.open("acme").unwrap();
    let local = parts.local.get();
    for audit in [&local.audit, &acme.audit] {
        for _ in 0..10 {
            audit.record(&read_of("user:ada"), false).unwrap();
            assert_eq!(
                audit.progress().1,
                None,
                "an answer would leave before its entry is on disk"
            );
        }
    }
}

/// The audit entry of a read call.
fn read_of(principal: &str) -> Trace {
    Trace {
        tool: "brain_recall",
        principal: principal.to_owned(),
        arguments: hash_call("brain_recall", &json!({})),
        decision: engine::ledger::Decision::Allow,
        rule: "scope".to_owned(),
        touched: Vec::new(),
        outcome: engine::ledger::Outcome::Done,
    }
}

/// The program rejects invalid settings and names their key.
#[test]
fn what_means_nothing_is_refused_with_its_key() {
    let scratch = scratch();
    let file = scratch.path().join("settings.toml");
    for (text, words) in [
        ("[identity]\nenforcement = \"strict\"\n", &["identity.enforcement", "require"][..]),
        ("[audit]\nsync = true\n", &["audit.sync", "batched"]),
    ] {
        fs::write(&file, text).unwrap();
        let data: &Path = &scratch.path().join("data");
        let arguments = ["serve", "--local", "127.0.0.1:0", "--config", file.to_str().unwrap()];
        assert_fails(&run(data, &arguments), 2, words);
    }
}
