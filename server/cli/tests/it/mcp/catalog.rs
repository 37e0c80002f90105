//! The tool catalog, and variants of arguments that clients send.

use std::fs;
use support_wire::tree::workspace;

use serde_json::{Value, json};
use support_server::schema::rows;
use support_wire::wire::Ask;

use super::{
    DOCUMENT, RECALL, REMEMBER, STATS, alone, client, examples, listed, request, sampled_client,
    shared, tool_call, tools,
};

#[test]
fn the_catalog_is_the_committed_one() {
    let tools = listed();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, self::tools());
    let path = workspace().join("tests/golden/tools.json");
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
    assert_eq!(names("/mcp?profile=full"), tools());
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

/// Replaces every argument that is not a string by its JSON text.
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
    let _turn = alone();
    let mut mcp = sampled_client();
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
