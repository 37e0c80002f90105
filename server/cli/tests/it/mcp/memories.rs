//! Memories: supersession and repeated calls.

use std::collections::HashSet;
use std::thread;

use serde_json::{Value, json};

use super::{RECALL, REMEMBER, client, shared};

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
