//! Records written by tools: each has its provenance, is recalled, belongs to a chain, and is exported. The tests run
//! the example of every write tool.

use std::collections::BTreeSet;

use engine::{ItemId, ItemView, Record, Status};
use recalld_common::names;
use recalld_tool_framework::{Change, Tool};
use serde_json::{Map, Value, json};
use support_server::desk::{Desk, NOW, operator};
use support_server::sample_catalog;
use support_server::schema::rows;
use support_wire::service::write;

use super::texts;

/// Kind of the hidden items with stored answers for repeated calls.
const ANSWERS: &str = "idempotency";

/// Arguments that cause a write if the example is a dry run.
fn arguments(desk: &Desk, row: &Tool) -> Map<String, Value> {
    let folder = desk.files();
    let wanted = match row.name {
        "ingest_paths_tool" => {
            write(&folder, "tides.md", "# Tides\n\nHigh water at Gull Rock is at noon.\n");
            json!({"paths": [folder]})
        }
        "tombstone_reconcile_sweep_tool" => {
            write(&folder, "kept.md", "# Kept\n\nThis one stays.\n");
            desk.call("ingest_paths_tool", json!({"paths": [folder]}));
            std::fs::remove_file(folder.join("README.md")).unwrap();
            json!({"dry_run": false})
        }
        // The sample's artifact already has its hash, so another hash is a change.
        "reconcile_artifact_id_tool" => {
            json!({"artifact_id": "art_00000000000000000000000009", "content_sha256": "ab".repeat(32)})
        }
        _ => serde_json::from_str(row.example).unwrap(),
    };
    wanted.as_object().unwrap().clone()
}

/// An item's text, or its title if the text is empty.
fn said<'i>(item: &ItemView<'i>) -> &'i str {
    if item.text.is_empty() { item.title } else { item.text }
}

/// The records of a call.
#[derive(Default)]
struct Written {
    /// Id, kind, text or title, author and tool, and whether the item is searchable.
    items: Vec<(ItemId, String, String, [String; 2], bool)>,
    /// Id and author.
    edges: Vec<(String, String)>,
    /// Tombstone target, author and reason.
    hidden: Vec<(u128, String, String)>,
}

/// Records written after a commit.
fn written_since(desk: &Desk, seq: u64) -> Written {
    let snapshot = desk.started().parts.local.get().store.snapshot();
    let mut written = Written::default();
    for record in snapshot.records() {
        match record.unwrap() {
            Record::Item(item, _) if item.seq > seq && item.kind != ANSWERS => {
                written.items.push((
                    item.id,
                    item.kind.to_owned(),
                    said(&item).to_owned(),
                    [item.recorded_by.to_owned(), item.via.to_owned()],
                    item.searchable,
                ));
            }
            Record::Edge(edge, _) if edge.seq > seq => {
                written.edges.push((names::edge(edge.id), edge.recorded_by.to_owned()));
            }
            Record::Tombstone(stone) if stone.seq > seq => {
                written.hidden.push((stone.target, stone.by.to_owned(), stone.reason.to_owned()));
            }
            _ => {}
        }
    }
    written
}

/// All lines of an export by the tool.
fn exported(desk: &Desk) -> Vec<Value> {
    let (mut lines, mut wanted) = (Vec::new(), json!({}));
    loop {
        let page = desk.call("export_memory_tool", wanted.clone());
        let texts = page["lines"].as_array().unwrap().iter();
        lines.extend(
            texts.map(|line| serde_json::from_str::<Value>(line.as_str().unwrap()).unwrap()),
        );
        let Some(cursor) = page.get("next_cursor") else { return lines };
        wanted["cursor"] = cursor.clone();
    }
}

/// The items recalled for these words.
fn recalled(desk: &Desk, said: &str) -> Vec<Value> {
    let query: String = said.chars().take(300).collect();
    let wanted = json!({"query": query, "compact": false});
    let found = desk.call("retrieval_arbitrate_tool", wanted);
    found["items"].as_array().unwrap().clone()
}

fn is(found: &Value, id: ItemId) -> bool {
    names::parse_item(found["id"].as_str().unwrap()).unwrap() == id
}

/// Returns true if recall finds the item by its own words, or another item with the same text.
fn is_recalled(desk: &Desk, id: ItemId, said: &str) -> bool {
    let says_so =
        |item: &Value| item["text"].as_str().is_some_and(|text| text.trim() == said.trim());
    recalled(desk, said).iter().any(|found| is(found, id) || says_so(found))
}

#[test]
fn what_any_tool_writes_has_its_provenance_is_recalled_chained_and_exported() {
    for row in rows().filter(|row| row.change != Change::Nothing) {
        let desk = sample_catalog::desk();
        let wanted = arguments(&desk, row);
        let before = desk.started().parts.local.get().store.snapshot().seq();
        desk.call(row.name, Value::Object(wanted));
        let written = written_since(&desk, before);
        let is_nothing = written.items.is_empty() && written.edges.is_empty();
        assert!(!is_nothing || !written.hidden.is_empty(), "{} wrote nothing", row.name);
        let lines = exported(&desk);
        let has = |of: &str, id: &str| {
            lines.iter().any(|line| line["type"] == of && line["id"].as_str() == Some(id))
        };
        for (id, kind, text, provenance, is_searchable) in written.items {
            let name = names::item(&kind, id);
            let what = format!("{}: {kind} {name}", row.name);
            // A command's write is recorded under the tool that it calls.
            let via = if row.name == "brain_command" { "brain_remember" } else { row.name };
            assert_eq!(provenance, ["operator", via], "{what}");
            assert!(has("item", &name), "{what} is not exported");
            let item = desk.call("get_item_tool", json!({"item_id": name}));
            assert_eq!(item["item"]["provenance"]["by"], "operator", "{what}: {item}");
            assert!(item["item"]["provenance"]["recorded_at"].is_string(), "{what}: {item}");
            let chain = desk.call("supersession_chain_tool", json!({"item_id": name}));
            assert!(texts(&chain, "chain", "id").contains(&&*name), "{what}: {chain}");
            assert!(
                !is_searchable || is_recalled(&desk, id, &text),
                "{what} is not recalled: {text}"
            );
        }
        for (id, by) in written.edges {
            assert_eq!(by, "operator", "{}: {id}", row.name);
            assert!(has("edge", &id), "{}: {id} is not exported", row.name);
        }
        let mut hidden = BTreeSet::new();
        for (target, by, reason) in written.hidden {
            assert_eq!(by, "operator", "{}", row.name);
            assert!(!reason.is_empty(), "{}", row.name);
            hidden.insert(target);
        }
        let snapshot = desk.started().parts.local.get().store.snapshot();
        let stones = lines.iter().filter(|line| line["type"] == "tombstone").count();
        assert!(stones >= hidden.len(), "{}: {stones} of {} are exported", row.name, hidden.len());
        for id in hidden {
            let Some(place) = snapshot.find(ItemId(id)).unwrap() else { continue };
            assert_eq!(snapshot.status(place).unwrap(), Status::Tombstoned, "{}", row.name);
            let item = snapshot.item(place).unwrap();
            let found = recalled(&desk, said(&item));
            assert!(!found.iter().any(|found| is(found, item.id)), "{} is recalled", item.title);
        }
    }
}

#[test]
fn moves_are_supersessions_and_the_old_state_stays_in_the_chain() {
    for (tool, wanted, old) in [
        (
            "complete_followup_tool",
            json!({"followup_id": "fup_00000000000000000000000008"}),
            "fup_00000000000000000000000008",
        ),
        (
            "update_task_attempt_status_tool",
            json!({"attempt_id": "tsk_00000000000000000000000007", "status": "succeeded"}),
            "tsk_00000000000000000000000007",
        ),
        (
            "reconcile_artifact_id_tool",
            json!({"artifact_id": "art_00000000000000000000000009", "content_sha256": "ab".repeat(32)}),
            "art_00000000000000000000000009",
        ),
        (
            "agent_state_write_tool",
            json!({"agent_id": "sample", "key": "plan", "value": {"step": 2}}),
            "itm_0000000000000000000000000c",
        ),
        (
            "supersede_item_tool",
            json!({"item_id": "itm_00000000000000000000000003", "text": "Tom keeps it.", "reason": "Ada left"}),
            "itm_00000000000000000000000003",
        ),
        (
            "brain_remember",
            json!({"text": "Tom keeps it.", "supersedes": "itm_00000000000000000000000003"}),
            "itm_00000000000000000000000003",
        ),
        (
            "record_operator_correction_tool",
            json!({"wrong": "Ada", "right": "Tom keeps it.", "item_id": "itm_00000000000000000000000003"}),
            "itm_00000000000000000000000003",
        ),
    ] {
        let desk = sample_catalog::desk();
        desk.call(tool, wanted);
        let chain = desk.call("supersession_chain_tool", json!({"item_id": old}));
        assert_eq!(texts(&chain, "chain", "status"), ["superseded", "current"], "{tool}: {chain}");
        assert_eq!(texts(&chain, "chain", "id")[0], old, "{tool}");
        let item = desk.call("get_item_tool", json!({"item_id": old}));
        assert_eq!(item["item"]["status"], "superseded", "{tool}: what was said stays");
        let then = json!({"item_id": old, "as_of": NOW});
        let then = desk.call_as(&operator(), "get_item_tool", then);
        assert!(then["item"]["id"].is_string(), "{tool}");
    }
}
