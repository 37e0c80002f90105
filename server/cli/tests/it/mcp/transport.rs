//! The transport: messages, ids, headers, batches.

use recalld_mcp_protocol::limits::PING_BYTES_MAX;
use serde_json::{Value, json};
use support_wire::mcp_client;
use support_wire::wire::Ask;

use super::{RECALL, client, request, shared};

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
        // The event loop answers the small ping; a worker answers the large one.
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
