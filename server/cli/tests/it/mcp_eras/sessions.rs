//! Sessions: begin, end, methods that need one, and batches.

use serde_json::json;
use support_wire::mcp_client::ACCEPT;
use support_wire::service::{Service, scratch};
use support_wire::wire::{self, Ask};

use super::{Session, message, service, session};

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
    // An authenticated caller may continue the session at another listener.
    let bearer = format!("Bearer {}", service.credentials().bearer);
    let signed = || ping().header("Authorization", &bearer);
    assert_eq!(wire::ask(service.hosted(), &signed()).status, 200);
    // A page may call its own origin.
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
