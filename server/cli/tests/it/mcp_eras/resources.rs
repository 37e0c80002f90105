//! Resources, prompts and completions under policy.

use engine::{Batch, TombstoneDraft};
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_policy::Caller;
use recalld_policy::limits::CALL_TIME_MAX;
use serde_json::{Value, json};
use support_wire::service::scratch;
use support_wire::wire;

use super::inside::Inside;
use super::{Session, ledger_entries, message, remember, service, session};

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
    inside.parts.local.get().store.write(batch).unwrap();
    let brief = read("memory://brief/today");
    assert!(!brief.contains("under the stairs") && brief.contains("in the attic"), "{brief}");
    assert!(brief.contains("Superseded today: 0"), "{brief}");
    assert!(!read(&uri).contains(&old), "no other item names it either");
}

/// Runs `look` as a guest with these scopes, in a store with a restricted memory.
fn seen_of_restricted(scopes: &[Scope], look: impl FnOnce(&str, &str)) {
    let scratch = scratch();
    let operators = Inside::start(&scratch.path().join("data"), CALL_TIME_MAX);
    let text = "The safe is behind the clock.";
    let arguments = json!({"text": text, "sensitivity": "restricted", "tags": ["safe"]});
    let params = json!({"name": "brain_remember", "arguments": arguments});
    let stored = wire::ask(&operators.at, &message("tools/call", &params)).json();
    let id = stored["result"]["structuredContent"]["item"]["id"].as_str().unwrap();
    let caller = Caller {
        principal: "guest".to_owned(),
        plan: "team".to_owned(),
        scopes: scopes.to_vec(),
        ..Caller::local_operator("local")
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
        assert!(!brief.to_string().contains("withheld"), "how much it was is not theirs: {brief}");
        let reference = json!({"type": "ref/prompt", "name": "daily-brief"});
        let argument = json!({"name": "focus", "value": "sa"});
        let params = json!({"ref": reference, "argument": argument});
        let found = session.result("completion/complete", &params);
        assert_eq!(found["completion"]["values"], json!([]));
    });
}

#[test]
fn who_reads_the_ledger_is_told_how_much_a_brief_withholds() {
    seen_of_restricted(&[Scope::TenantRead, Scope::AuditRead], |at, _| {
        let uri = json!({"uri": "memory://brief/today"});
        let read = wire::ask(at, &message("resources/read", &uri)).json();
        assert!(read.to_string().contains("1 more withheld by policy"), "{read}");
        assert!(!read.to_string().contains("behind the clock"), "{read}");
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
