//! `recall_staleness_check_tool`: the freshness of recalled items.

use std::fs;
use std::sync::Arc;

use engine::Sensitivity;
use recalld_fs_util::roots::Roots;
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member, operator};
use support_wire::service::write;

use super::texts;

const CHECK: &str = "recall_staleness_check_tool";

/// The freshness of one item.
fn check(desk: &Desk, id: &str) -> Value {
    let answer = desk.call(CHECK, json!({"item_ids": [id]}));
    assert_eq!((&answer["items"][0]["id"], &answer["truncated"]), (&json!(id), &json!(false)));
    answer["items"][0].clone()
}

fn status(desk: &Desk, id: &str) -> String {
    check(desk, id)["status"].as_str().unwrap().to_owned()
}

fn remember(desk: &Desk, item: Value) -> String {
    desk.call("brain_remember", item)["item"]["id"].as_str().unwrap().to_owned()
}

/// The grounding token of an item, as returned to a caller.
fn token(desk: &Desk, id: &str) -> String {
    let one = desk.call("fetch", json!({"id": id}));
    one["metadata"]["grounding_token"].as_str().unwrap().to_owned()
}

#[test]
fn an_item_is_fresh_until_something_happens_to_it() {
    let desk = Desk::new();
    let old = desk.remember("The lamp burns rape oil.");
    let last = desk.remember("The lamp has a spare lens.");
    let spent =
        remember(&desk, json!({"text": "The pier is shut.", "valid_to": "2026-01-20T00:00:00Z"}));
    let coming =
        remember(&desk, json!({"text": "The pier opens.", "valid_from": "2026-03-01T00:00:00Z"}));
    for id in [&old, &last, &spent, &coming] {
        assert_eq!(status(&desk, id), "fresh");
    }
    assert_eq!(check(&desk, &coming)["now"], json!({"valid_from": "2026-03-01T00:00:00Z"}));
    let new = json!({"item_id": old, "text": "It burns paraffin.", "reason": "cleaner"});
    let new = desk.call("supersede_item_tool", new)["item"]["id"].clone();
    let row = check(&desk, &old);
    assert_eq!(
        (&row["status"], &row["now"]),
        (&json!("superseded"), &json!({"superseded_by": new}))
    );
    desk.set_time("2026-01-20T00:00:00Z");
    assert_eq!(status(&desk, &spent), "expired");
    desk.call("forget_item_tool", json!({"item_id": last, "reason": "wrong"}));
    let row = check(&desk, &last);
    assert_eq!((&row["status"], &row["now"]["reason"]), (&json!("tombstoned"), &json!("wrong")));
    let erase = json!({"item_id": spent, "reason": "private", "mode": "erase"});
    desk.call("forget_item_tool", erase);
    assert_eq!(status(&desk, &spent), "tombstoned");
    assert_eq!(status(&desk, "itm_0000000000000000000000zzzz"), "unknown");
}

#[test]
fn files_are_compared_with_what_was_read_of_them() {
    let desk = Desk::new();
    // Long enough for one chunk per section.
    let lines = |word: &str| (0..60).map(|n| format!("{word} {n} is kept.\n")).collect::<String>();
    let (wicks, horns) = (lines("Wick"), lines("Horn"));
    let text =
        format!("# Lamp\n\nTrim it at dusk.\n{wicks}\n# Horn\n\nTwo blasts a minute.\n{horns}");
    write(&desk.files(), "guide.md", &text);
    desk.call("ingest_paths_tool", json!({"paths": [desk.files()]}));
    let manifest = desk.call("docstore_manifest_tool", json!({}));
    let document = texts(&manifest, "documents", "document_id")[0].to_owned();
    let hits = desk.call("docstore_search_tool", json!({"query": "blasts"}));
    let horn = hits["hits"][0]["chunk_id"].as_str().unwrap().to_owned();
    let hits = desk.call("docstore_search_tool", json!({"query": "dusk"}));
    let lamp = hits["hits"][0]["chunk_id"].as_str().unwrap().to_owned();
    for id in [&document, &horn, &lamp] {
        assert_eq!(status(&desk, id), "fresh");
    }
    write(
        &desk.files(),
        "guide.md",
        text.replace("at dusk", "at dawn").replace("# Lamp", "# The\n# Lamp"),
    );
    let answer = desk.call(CHECK, json!({"item_ids": [document, horn, lamp]}));
    assert_eq!(texts(&answer, "items", "status"), ["source_changed"; 3]);
    assert_eq!(
        texts(&answer, "items", "id"),
        [&*document, &*horn, &*lamp],
        "ids as they were given"
    );
    let now = &answer["items"][1]["now"];
    assert_eq!((&now["line_start"], &now["line_end"]), (&json!(66), &json!(128)), "{now}");
    assert_eq!(answer["items"][2]["now"].get("line_start"), None, "its text is not there any more");
    // Another prefix names the same item, and the answer repeats the given id.
    let other = horn.replace("chk_", "itm_");
    assert_eq!(status(&desk, &other), "source_changed");
    fs::remove_file(desk.files().join("guide.md")).unwrap();
    assert_eq!(status(&desk, &horn), "source_missing");
    write(&desk.files(), "guide.md", &text);
    assert_eq!(status(&desk, &horn), "fresh", "it came back as it was");
    *desk.started().parts.local.get().roots.write().unwrap() = Arc::new(Roots::open(&[]).unwrap());
    let row = check(&desk, &horn);
    assert_eq!(row["status"], "unknown", "nobody can look");
    assert!(row["why"].as_str().unwrap().contains("no folder that is open"), "{row}");
}

#[test]
fn pictures_are_compared_with_their_words_and_long_files_without_being_read() {
    let desk = Desk::new();
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x01\x08\x02\0\0\0\x99\xd0\x2e\x92";
    fs::write(desk.files().join("lamp.png"), png).unwrap();
    write(&desk.files(), "lamp.png.txt", "The lamp of Gull Rock.\n");
    write(&desk.files(), "log.md", "# Log\n\nCalm sea.\n");
    desk.call("ingest_paths_tool", json!({"paths": [desk.files()]}));
    let manifest = desk.call("docstore_manifest_tool", json!({}));
    let ids = texts(&manifest, "documents", "document_id");
    let [lamp, log] = ids[..] else { panic!("{manifest}") };
    assert_eq!((status(&desk, lamp), status(&desk, log)), ("fresh".into(), "fresh".into()));
    write(&desk.files(), "lamp.png.txt", "The lamp of Cat Rock.\n");
    let row = check(&desk, lamp);
    assert_eq!(row["status"], "source_changed", "{row}");
    assert_eq!(row["why"], "the words beside its picture changed");
    let swept = desk.call("tombstone_reconcile_sweep_tool", json!({}));
    assert_eq!(texts(&swept, "changed", "document_id"), [lamp], "the sweep says the same");
    let long = fs::File::create(desk.files().join("log.md")).unwrap();
    long.set_len(1 << 40).unwrap();
    let row = check(&desk, log);
    assert_eq!(
        (&row["status"], row["now"].get("file_sha256")),
        (&json!("source_changed"), None),
        "{row}"
    );
}

#[test]
fn tokens_lead_to_their_items_and_bad_ones_are_unknown() {
    let desk = Desk::new();
    let old = desk.remember("The lamp burns rape oil.");
    let token = token(&desk, &old);
    let one =
        |token: &str| desk.call(CHECK, json!({"grounding_tokens": [token]}))["items"][0].clone();
    let row = one(&token);
    assert_eq!((&row["id"], &row["status"]), (&json!(old), &json!("fresh")));
    assert_eq!(row["grounding_token"], token);
    let new = json!({"item_id": old, "text": "It burns paraffin.", "reason": "cleaner"});
    desk.call("supersede_item_tool", new);
    assert_eq!(one(&token)["status"], "superseded");
    let forged =
        token.replace(&token[100..104], if &token[100..104] == "AAAA" { "BBBB" } else { "AAAA" });
    for bad in ["x", &forged] {
        let row = one(bad);
        assert_eq!((&row["status"], row.get("id")), (&json!("unknown"), None), "{row}");
        assert!(row["why"].as_str().unwrap().contains("token"), "{row}");
    }
}

#[test]
fn all_that_is_old_and_stands_comes_in_pages() {
    let desk = Desk::new();
    let mut ids = Vec::new();
    for day in 1..=25 {
        desk.set_time(&format!("2026-01-{day:02}T00:00:00Z"));
        let mut item = json!({"text": format!("Log of day {day}.")});
        if day == 3 {
            item["valid_to"] = json!("2026-01-04T00:00:00Z");
        }
        ids.push(remember(&desk, item));
    }
    let new = json!({"item_id": ids[1], "text": "Log of day two.", "reason": "spelt"});
    desk.call("supersede_item_tool", new);
    ids.remove(1);
    desk.set_time("2026-02-01T00:00:00Z");
    let mut cursor = Value::Null;
    let (mut listed, mut statuses) = (Vec::new(), Vec::new());
    for page in 1.. {
        assert!(page < 5, "it comes to an end");
        let answer = desk.call(CHECK, json!({"older_than_days": 9, "cursor": cursor}));
        listed.extend(texts(&answer, "items", "id").into_iter().map(str::to_owned));
        statuses.extend(texts(&answer, "items", "status").into_iter().map(str::to_owned));
        assert_eq!(answer["truncated"], answer.get("next_cursor").is_some());
        match answer.get("next_cursor") {
            Some(next) => cursor = next.clone(),
            None => break,
        }
    }
    assert_eq!(
        listed,
        ids[..22],
        "the oldest first, up to the 23rd; what was superseded stands no more"
    );
    assert_eq!((&*statuses[0], &*statuses[1]), ("fresh", "expired"));
    assert!(
        desk.call(CHECK, json!({"older_than_days": 300}))["items"].as_array().unwrap().is_empty()
    );
}

#[test]
fn exactly_one_way_of_asking_is_taken() {
    let desk = Desk::new();
    let id = desk.remember("one");
    for wanted in [json!({}), json!({"item_ids": [id], "older_than_days": 3})] {
        let why = desk.refusal(CHECK, wanted);
        assert!(why.starts_with("item_ids: give item_ids, grounding_tokens or"), "{why}");
    }
    let cursor = "x".to_owned();
    let why = desk.refusal(CHECK, json!({"item_ids": [id], "cursor": cursor}));
    assert!(why.starts_with("cursor: goes on with older_than_days alone"), "{why}");
    let why = desk.refusal(CHECK, json!({"item_ids": [id, "7"]}));
    assert!(why.starts_with("item_ids: member 1 not an id"), "{why}");
}

#[test]
fn what_policy_denies_is_unknown_and_what_it_redacts_tells_no_text() {
    let desk = Desk::new();
    let secret = desk.remember_as("The safe opens with 4711.", Sensitivity::Restricted);
    let veiled = remember(&desk, json!({"text": "Bought in secret.", "gates": [VEILED]}));
    let taken = token(&desk, &veiled);
    let none = "itm_0000000000000000000000zzzz";
    let answer = desk.call_as(&member(), CHECK, json!({"item_ids": [secret, none, veiled]}));
    assert_eq!(texts(&answer, "items", "status"), ["unknown", "unknown", "fresh"]);
    assert_eq!(answer["items"][0]["why"], answer["items"][1]["why"]);
    let effects: Vec<_> =
        desk.entry(&answer["receipt"]).touched.iter().map(|one| one.effect.word()).collect();
    assert_eq!(effects, ["withheld", "redacted"], "the ledger knows");
    let tokens = json!({"grounding_tokens": [token(&desk, &secret)]});
    let answer = desk.call_as(&member(), CHECK, tokens);
    assert_eq!(answer["items"][0].get("id"), None, "a token of somebody else tells no id");
    let answer = desk.call_as(&member(), CHECK, json!({"grounding_tokens": [taken]}));
    assert_eq!(
        answer["items"][0]["status"], "unknown",
        "it is of the text that is redacted for them"
    );
    desk.call("forget_item_tool", json!({"item_id": veiled, "reason": "the reason is secret"}));
    let answer = desk.call_as(&member(), CHECK, json!({"item_ids": [veiled]}));
    assert_eq!(answer["items"][0]["now"]["reason"], "[redacted by policy]");
    let old = desk.call_as(&member(), CHECK, json!({"older_than_days": 1}));
    assert!(old["items"].as_array().unwrap().is_empty());
    desk.set_time("2026-03-01T00:00:00Z");
    let old = |caller: recalld_policy::Caller| {
        desk.call_as(&caller, CHECK, json!({"older_than_days": 1}))["items"].clone()
    };
    assert_eq!(old(operator()).as_array().unwrap().len(), 1);
    assert_eq!(old(member()), json!([]), "nothing is counted of what is denied");
}
