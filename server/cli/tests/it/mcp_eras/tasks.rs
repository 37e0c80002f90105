//! Tasks, a protocol extension that is not supported.

use serde_json::json;

use super::{message, modern, service, session};

#[test]
fn tasks_are_not_offered_and_a_client_can_tell() {
    let session = session();
    let begin = json!({
        "protocolVersion": "2025-11-25", "capabilities": {"tasks": {}},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let begun = service().ask(&message("initialize", &begin)).json();
    let found = service().ask(&modern("server/discover", json!({}))).json();
    for capabilities in [&begun["result"]["capabilities"], &found["result"]["capabilities"]] {
        assert!(capabilities["tools"].is_object(), "{capabilities}");
        assert!(capabilities.get("tasks").is_none(), "{capabilities}");
        assert!(capabilities.get("extensions").is_none(), "{capabilities}");
    }
    let listed = session.result("tools/list", &json!({}));
    let mut tools = listed["tools"].as_array().unwrap().iter();
    assert!(tools.all(|tool| tool.get("execution").is_none()));
    for method in ["tasks/get", "tasks/list", "tasks/result", "tasks/cancel"] {
        let asked = session.request(method, &json!({"taskId": "1"}));
        assert_eq!(asked["error"]["code"], -32601, "{method}: {asked}");
        let asked = service().ask(&modern(method, json!({"taskId": "1"})));
        assert_eq!((asked.status, &asked.json()["error"]["code"]), (404, &json!(-32601)));
    }
    let params = json!({"name": "recall_stats", "arguments": {}, "task": {"ttl": 60_000}});
    let called = session.result("tools/call", &params);
    assert_eq!(called["isError"], false, "{called}");
    assert!(called.get("task").is_none(), "{called}");
}
