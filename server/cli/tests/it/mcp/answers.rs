//! Common properties of all tools: answer formats, progress, receipts.

use std::collections::HashSet;

use serde_json::json;
use support_server::schema::assert_conforms;
use support_wire::mcp_client;
use support_wire::wire::Ask;

use super::{INGEST, alone, examples, sampled, sampled_client, tool_call};

#[test]
fn all_tools_answer_as_json_and_as_a_stream() {
    let service = &sampled().service;
    let _turn = alone();
    for (tool, arguments) in examples() {
        let message = tool_call(tool, &arguments);
        let json = sampled_client().send(&message);
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
    let service = &sampled().service;
    let _turn = alone();
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
    let mut mcp = sampled_client();
    let mut last = 0;
    let mut ids = HashSet::new();
    let _turn = alone();
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
