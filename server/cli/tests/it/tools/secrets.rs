//! Secrets in written texts: an item with a secret becomes restricted, and the report names the secret's location.

use std::fs;

use serde_json::{Value, json};
use support_server::desk::{Desk, member};

use super::texts;

/// A fake AWS access key id, split so that secret scanners ignore this file.
fn key() -> String {
    ["AKIA", "Q3EGRTZ7YN2VKWLM"].concat()
}

fn put(desk: &Desk, name: &str, text: &str) {
    fs::write(desk.files().join(name), text).unwrap();
}

fn ingest(desk: &Desk, wanted: Value) -> Value {
    let mut wanted = wanted;
    wanted["paths"] = json!([desk.files()]);
    desk.call("ingest_paths_tool", wanted)
}

/// Sections long enough for separate chunks; one contains a key on its fourth line.
fn guide() -> String {
    let filler =
        "The lamp is trimmed at dusk and polished at dawn, whatever the weather. ".repeat(12);
    format!(
        "# Guide\n\n## Lamp\n\n{filler}\n\n## Cloud\n\n{filler}\nThe key is {} for now.\n\n## Horn\n\n{filler}\n",
        key()
    )
}

/// Item and rule of each `raised` event.
fn raised(desk: &Desk) -> Vec<(String, String)> {
    let page = desk.call("sensitivity_events_tool", json!({}));
    let rows = page["events"].as_array().unwrap().clone();
    let rows = rows.into_iter().filter(|row| row["what"] == "raised");
    let word = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    rows.map(|row| (word(&row, "item_id"), word(&row, "rule"))).collect()
}

#[test]
fn a_chunk_with_a_secret_is_restricted_and_the_report_says_where() {
    let desk = Desk::new();
    put(&desk, "guide.md", &guide());
    put(&desk, "plain.md", "# Plain\n\nNothing to hide.\n");
    let tried = ingest(&desk, json!({"dry_run": true}));
    assert_eq!((&tried["secrets_count"], raised(&desk).len()), (&json!(1), 0), "{tried}");
    let report = ingest(&desk, json!({}));
    let line = guide().lines().position(|line| line.contains(&key())).unwrap() + 1;
    let path = desk.files().canonicalize().unwrap().join("guide.md");
    let row = json!({"path": path, "line": line, "kind": "aws_key"});
    assert_eq!((&report["secrets"], &report["secrets_count"]), (&json!([row]), &json!(1)));
    assert!(!report.to_string().contains(&key()), "{report}");
    assert_eq!(report["receipt"]["rule"], "secrets/aws_key");

    let events = raised(&desk);
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].1, "secrets/aws_key");
    let found = desk.call("docstore_search_tool", json!({"query": key()}));
    let chunk = texts(&found, "hits", "chunk_id")[0].to_owned();
    let item = desk.call("get_item_tool", json!({"item_id": chunk}));
    assert_eq!(item["item"]["policy"]["sensitivity"], "restricted");
    let same = |id: &str| id.rsplit('_').next().unwrap().to_owned();
    assert_eq!(same(&events[0].0), same(&chunk));
    // Ingested again, the file is unchanged and nothing is reported twice.
    let again = ingest(&desk, json!({}));
    assert_eq!((&again["unchanged"], &again["secrets_count"]), (&json!(2), &json!(0)), "{again}");
    let again = ingest(&desk, json!({"sensitivity": "internal"}));
    assert_eq!(again["unchanged"], 2, "{again}");
}

#[test]
fn who_may_not_see_the_chunk_cannot_read_the_secret_through_its_document() {
    let desk = Desk::new();
    put(&desk, "guide.md", &guide());
    ingest(&desk, json!({}));
    let ask = |tool: &str, wanted: Value| desk.call_as(&member(), tool, wanted);
    let document = ask("docstore_get_document_tool", json!({"path": "guide.md"}));
    let text = document["text"].as_str().unwrap();
    assert!(text.contains("trimmed at dusk") && !text.contains(&key()), "{text}");
    let lines = json!({"path": "guide.md", "line_start": 1, "line_end": 40});
    let why = desk.refusal_as(&member(), "docstore_get_lines_tool", lines);
    assert!(why.contains("no document was ingested"), "{why}");
    let found = ask("docstore_search_tool", json!({"query": key()}));
    assert_eq!(found["hits"], json!([]));
    let recalled = ask("retrieval_arbitrate_tool", json!({"query": "what is the key for now?"}));
    assert!(!recalled.to_string().contains(&key()), "{recalled}");
    let outline = ask("docstore_get_outline_tool", json!({"path": "guide.md"}));
    assert!(!outline.to_string().contains(&key()), "{outline}");
}

#[test]
fn a_key_that_is_cut_in_two_restricts_both_chunks() {
    let desk = Desk::new();
    let digits: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').collect();
    let digit = |at: usize| digits[at * at * 31 % 10_007 * 7 % digits.len()];
    let line = |n: usize| (0..64).map(|at| digit(n * 64 + at)).chain(['\n']).collect::<String>();
    let body: String = (0..60).map(line).collect();
    let text =
        format!("# Key\n\n-----BEGIN PRIVATE {}-----\n{body}-----END PRIVATE KEY-----\n", "KEY");
    put(&desk, "key.md", &text);
    let report = ingest(&desk, json!({}));
    assert_eq!(report["secrets"][0]["kind"], "private_key", "{report}");
    assert_eq!(report["secrets_count"], 1);
    let items = report["items"].as_u64().unwrap();
    assert!(items > 3, "{report}");
    assert_eq!(raised(&desk).len() as u64, items - 1, "all chunks");
    let read = desk.call_as(&member(), "docstore_get_document_tool", json!({"path": "key.md"}));
    assert_eq!(read["text"], "");
}

#[test]
fn a_secret_in_a_title_restricts_the_document_and_leaves_with_the_title() {
    let desk = Desk::new();
    put(&desk, "note.md", &format!("# Use {}\n\nSoon.\n", key()));
    let report = ingest(&desk, json!({}));
    assert_eq!(raised(&desk).len(), 2, "document and chunk: {report}");
    let why = desk.refusal_as(&member(), "docstore_get_document_tool", json!({"path": "note.md"}));
    assert!(why.contains("no document was ingested"), "{why}");
    // The requested sensitivity is stored separately from the raised one.
    assert_eq!(ingest(&desk, json!({"sensitivity": "internal"}))["unchanged"], 1);
    put(&desk, "note.md", "# Use the vault\n\nSoon.\n");
    assert_eq!(ingest(&desk, json!({}))["superseded"], 1);
    let read = desk.call_as(&member(), "docstore_get_document_tool", json!({"path": "note.md"}));
    assert_eq!(read["title"], "Use the vault");
}

#[test]
fn a_secret_in_a_file_name_is_not_repeated() {
    let desk = Desk::new();
    put(&desk, &format!("{}.md", key()), "# Plain\n\nNothing else.\n");
    let report = ingest(&desk, json!({}));
    assert_eq!(report["secrets"][0]["kind"], "aws_key", "{report}");
    assert!(report["secrets"][0]["path"].as_str().unwrap().ends_with("[aws_key].md"), "{report}");
    let list = desk.call_as(&member(), "docstore_manifest_tool", json!({}));
    assert_eq!(list["documents"], json!([]));
    let file = desk.files().join(format!("{}.md", key()));
    let again = json!({"paths": [file], "sensitivity": "public"});
    assert_eq!(desk.call("ingest_paths_tool", again)["items"], 2);
    let jobs = desk.call("ingest_status_tool", json!({}));
    assert!(!jobs.to_string().contains(&key()), "{jobs}");
    assert!(jobs["jobs"][0]["paths"][0].as_str().unwrap().ends_with("[aws_key].md"), "{jobs}");
    assert!(desk.told().iter().all(|(_, _, name)| !name.contains(&key())), "nor on the way");
}

#[test]
fn a_memory_with_a_secret_is_restricted_and_its_writer_told_so() {
    let desk = Desk::new();
    let text = format!("The backup runs nightly.\nIts key is {}.", key());
    let wanted = json!({"text": text, "sensitivity": "public", "idempotency_key": "once"});
    let first = desk.call_as(&member(), "brain_remember", wanted.clone());
    let row = json!({"field": "text", "line": 2, "kind": "aws_key"});
    assert_eq!(first["secrets"], json!([row]));
    assert_eq!(first["receipt"]["rule"], "secrets/aws_key");
    assert_eq!(raised(&desk).len(), 1);
    let id = first["item"]["id"].clone();
    let item = desk.call("get_item_tool", json!({"item_id": id}));
    assert_eq!(item["item"]["policy"]["sensitivity"], "restricted");
    let why = desk.refusal_as(&member(), "get_item_tool", json!({"item_id": id}));
    assert_eq!(why, "item_id: there is no such item");
    // A repeat gets the first answer and raises nothing again.
    let again = desk.call_as(&member(), "brain_remember", wanted);
    assert_eq!((&again["secrets"], &again["item"]["id"]), (&first["secrets"], &id));
    assert_eq!(raised(&desk).len(), 1);
    let plain = desk.call("brain_remember", json!({"text": "The backup runs nightly."}));
    assert_eq!(plain.get("secrets"), None);
}

#[test]
fn sensitivity_is_never_lowered_and_what_is_restricted_is_not_raised() {
    let desk = Desk::new();
    let wanted = json!({"text": format!("key {}", key()), "sensitivity": "restricted"});
    let told = desk.call("brain_remember", wanted);
    assert_eq!(told["secrets"][0]["kind"], "aws_key");
    assert_eq!(raised(&desk), []);
    let id = told["item"]["id"].clone();
    let wanted = json!({"item_id": id, "text": "the key is in the vault", "reason": "leaked"});
    let next = desk.call("supersede_item_tool", wanted);
    assert_eq!(next["item"]["policy"]["sensitivity"], "restricted");
    assert_eq!(next.get("secrets"), None);
}

#[test]
fn every_tool_that_writes_looks_for_secrets() {
    let password = "the database password is Gran1te#Lamp";
    for (tool, wanted) in [
        ("record_operator_correction_tool", json!({"wrong": "none is set", "right": password})),
        ("record_operator_correction_tool", json!({"wrong": password, "right": "ask the vault"})),
        ("capture_operator_intent_tool", json!({"intent": password})),
        (
            "record_outcome_valence_tool",
            json!({"subject": "login", "valence": 1, "note": password}),
        ),
        ("schedule_followup_tool", json!({"text": password, "due_at": "2027-01-01T00:00:00Z"})),
        ("record_task_attempt_tool", json!({"task": "log in", "approach": password})),
        (
            "agent_state_write_tool",
            json!({"agent_id": "a", "key": "k", "value": {"password": "Gran1te#Lamp"}}),
        ),
        (
            "brain_remember",
            json!({"text": "see there", "source": {"uri": format!("https://x.io/?k={}", key())}}),
        ),
        (
            "agent_state_write_tool",
            json!({"agent_id": "a", "key": "k", "value": format!("\"note\"\n{}", key())}),
        ),
        ("brain_remember", json!({"text": "see there", "tags": [key()]})),
    ] {
        let desk = Desk::new();
        let told = desk.call_as(&member(), tool, wanted.clone());
        let events = raised(&desk);
        assert!(!events.is_empty(), "{tool} {wanted}: {told}");
        let rule = told["receipt"]["rule"].as_str().unwrap();
        assert!(rule.starts_with("secrets/") && events[0].1 == rule, "{tool}: {rule}");
        let told_of = ["brain_remember", "record_operator_correction_tool"].contains(&tool);
        assert_eq!(told["secrets"].is_array(), told_of, "{tool}: {told}");
    }
}

#[test]
fn a_text_that_nothing_can_restrict_holds_no_secret() {
    let desk = Desk::new();
    let [from, to] = ["one", "two"].map(|text| desk.remember(text));
    put(&desk, "a.md", "# A\n\nWords.\n");
    ingest(&desk, json!({}));
    let link = json!({"from_id": from, "to_id": to, "relation": "near"});
    let edge = desk.call("link_items_tool", link)["edge"]["edge_id"].clone();
    let before = desk.started().parts.local.get().store.snapshot().seq();
    let said = format!("it had {}", key());
    for (tool, field, wanted) in [
        (
            "link_items_tool",
            "note",
            json!({"from_id": to, "to_id": from, "relation": "near", "note": said}),
        ),
        ("unlink_items_tool", "reason", json!({"edge_id": edge, "reason": said})),
        ("forget_item_tool", "reason", json!({"item_id": from, "reason": said})),
        ("tombstone_paths_tool", "reason", json!({"paths": ["a.md"], "reason": said})),
    ] {
        let why = desk.refusal(tool, wanted);
        assert!(why.starts_with(&format!("{field}: holds a secret (aws_key)")), "{tool}: {why}");
        assert!(!why.contains(&key()), "{tool}: {why}");
    }
    assert_eq!(
        desk.started().parts.local.get().store.snapshot().seq(),
        before,
        "nothing is written"
    );
}

#[test]
fn a_member_may_supersede_with_a_secret_and_several_kinds_make_one_rule() {
    let desk = Desk::new();
    let old = desk.call("brain_remember", json!({"text": "The key is in the vault."}));
    let text = format!("The key is {}.\npassword: Gran1te#Lamp", key());
    let wanted = json!({"item_id": old["item"]["id"], "text": text, "reason": "in a hurry"});
    let next = desk.call_as(&member(), "supersede_item_tool", wanted);
    assert_eq!(texts(&next, "secrets", "kind"), ["aws_key", "password"]);
    assert_eq!(next["receipt"]["rule"], "secrets/aws_key+password");
    assert!(!next.to_string().contains(&key()), "{next}");
}
