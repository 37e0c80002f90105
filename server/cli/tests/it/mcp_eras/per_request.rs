//! The stateless protocol style: accepted and rejected requests.

use serde_json::json;
use support_wire::wire::Ask;

use super::{META, MODERN, message, modern, service};

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
