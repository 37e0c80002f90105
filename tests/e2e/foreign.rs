//! Import of exports of other programs: each format intact, damaged, repeated, and changed.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use support_wire::kept::{assert_fails, erase};
use support_wire::service::{run, run_json, scratch, write};

/// Imports a file and returns the report.
fn import(data: &Path, path: &Path, more: &[&str]) -> Value {
    let arguments = [&["import", path.to_str().unwrap()], more].concat();
    run_json(data, &arguments)
}

/// All exported lines of this type.
fn lines(data: &Path, kind: &str) -> Vec<Value> {
    let output = run(data, &["export"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["type"] == kind).collect()
}

fn item<'a>(items: &'a [Value], title: &str) -> &'a Value {
    items
        .iter()
        .find(|item| item["title"] == title)
        .unwrap_or_else(|| panic!("no {title}: {items:#?}"))
}

/// Edges as (title, relation, title).
fn edges(data: &Path) -> Vec<(String, String, String)> {
    let items = lines(data, "item");
    let title = |id: &Value| {
        items.iter().find(|item| item["id"] == *id).unwrap()["title"].as_str().unwrap().to_owned()
    };
    let edges = lines(data, "edge");
    let mut edges: Vec<_> = edges
        .iter()
        .map(|edge| {
            (
                title(&edge["from"]),
                edge["relation"].as_str().unwrap().to_owned(),
                title(&edge["to"]),
            )
        })
        .collect();
    edges.sort();
    edges
}

fn edge(from: &str, relation: &str, to: &str) -> (String, String, String) {
    (from.to_owned(), relation.to_owned(), to.to_owned())
}

#[test]
fn entities_and_relations_of_the_reference_server() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    // Two objects on one line, keys of older versions, an edge end that is no entity, a truncated last line.
    let text = concat!(
        r#"{"type":"entity","name":"Alice","entityType":"person","observations":["Trims the wick","Owes Bob a lamp"]}"#,
        r#"{"type":"entity","entityName":"Bob","entityType":"person","observations":["Rows"],"colour":"blue"}"#,
        "\n",
        r#"{"type":"relation","from":"Alice","to":"Bob","relationType":"works with"}"#,
        "\n",
        r#"{"type":"relation","from_id":"Bob","to_id":"Carol","relation_type":"knows"}"#,
        "\n",
        r#"{"type":"entity","name":"Alice","entityType":"person","observations":["Trims the wick","Is tall"]}"#,
        "\n",
        r#"{"type":"entity","name":"Da"#
    );
    let file = write(scratch.path(), "memory.jsonl", text);
    let dry = import(&data, &file, &["--dry-run"]);
    assert_eq!(dry["foreign"]["shape"], "mcp-memory");
    assert_eq!(lines(&data, "item").len(), 0, "a dry run writes nothing");
    let report = import(&data, &file, &[]);
    assert_eq!((&report["foreign"]["items"], &report["foreign"]["edges"]), (&json!(2), &json!(1)));
    let skipped = report["foreign"]["skipped"].as_array().unwrap();
    assert_eq!(skipped[0]["place"], "line 5");
    assert_eq!(skipped[1]["why"], "there is no `Carol`");
    let items = lines(&data, "item");
    let alice = item(&items, "Alice");
    assert_eq!(alice["text"], "Alice (person)\n- Trims the wick\n- Owes Bob a lamp\n- Is tall");
    assert_eq!(
        (&alice["kind"], &alice["source"]["uri"]),
        (&json!("entity"), &json!("mcp-memory:memory.jsonl"))
    );
    assert_eq!(
        item(&items, "Bob")["attributes"],
        json!({"colour": "blue", "entity_type": "person"})
    );
    assert_eq!(edges(&data), [edge("Alice", "works_with", "Bob")]);
    // A repeated import changes nothing; with another observation it adds a newer version.
    let again = import(&data, &file, &[]);
    assert_eq!((&again["items"], &again["edges"]), (&json!(0), &json!(0)), "{again}");
    let more = text.replace("Rows", "Rows\",\"Sings");
    let more = import(&data, &write(scratch.path(), "memory.jsonl", more), &[]);
    assert_eq!(more["items"], 1, "{more}");
    let items = lines(&data, "item");
    assert_eq!(items.len(), 3);
    assert_eq!(items[2]["supersedes"], json!([item(&items, "Bob")["id"]]));
}

/// The response of the reference server's `read_graph`: the same graph, on one line and on many, in any order.
#[test]
fn a_graph_of_the_reference_server_in_one_object() {
    let graph = json!({
        "entities": [
            {"name": "Alice", "entityType": "person", "observations": ["Trims the wick"]},
            {"name": "Bob", "entityType": "person", "observations": []},
            {"entityType": "person"},
        ],
        "relations": [{"from": "Alice", "to": "Bob", "relationType": "knows"}],
    });
    let turned =
        format!("{{\"relations\": {}, \"entities\": {}}}", graph["relations"], graph["entities"]);
    for text in [graph.to_string(), format!("\u{feff}\n{graph:#}\n"), turned] {
        let scratch = scratch();
        let data = scratch.path().join("data");
        let file = write(scratch.path(), "graph.json", &text);
        let report = import(&data, &file, &[]);
        let told = &report["foreign"];
        assert_eq!(told["shape"], "mcp-memory", "{text}");
        assert_eq!((&told["items"], &told["edges"]), (&json!(2), &json!(1)), "{text}: {told}");
        assert_eq!(told["skipped"][0]["place"], "entities 3", "{told}");
        assert_eq!(edges(&data), [edge("Alice", "knows", "Bob")]);
        let items = lines(&data, "item");
        assert_eq!(item(&items, "Alice")["text"], "Alice (person)\n- Trims the wick");
        let again = import(&data, &file, &["--from", "mcp-memory"]);
        assert_eq!((&again["items"], &again["edges"]), (&json!(0), &json!(0)), "{again}");
    }
}

#[test]
fn memories_of_mem0_with_their_history_as_chains() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let export = json!({
        "results": [
            {"id": "m1", "memory": "Likes tea", "hash": "h", "user_id": "ada", "metadata": {"room": "galley"},
             "created_at": "2025-01-01T00:00:00-08:00", "updated_at": "2025-03-01T00:00:00-08:00"},
            {"id": "m2", "memory": "Has a cat", "created_at": "2025-01-05T00:00:00Z", "updated_at": null},
            {"id": "broken"},
        ],
        "history": [
            {"id": "h2", "memory_id": "m1", "old_memory": "Likes coffee", "new_memory": "Likes tea", "event": "UPDATE",
             "created_at": "2025-01-01T08:00:00Z", "updated_at": "2025-03-01T08:00:00Z", "is_deleted": 0},
            {"id": "h1", "memory_id": "m1", "old_memory": null, "new_memory": "Likes coffee", "event": "ADD",
             "created_at": "2025-01-01T08:00:00Z", "updated_at": null, "is_deleted": 0},
            {"id": "h3", "memory_id": "m3", "old_memory": "Lives in Oban", "new_memory": null, "event": "DELETE",
             "created_at": "2025-02-01T08:00:00Z", "updated_at": null, "is_deleted": 1},
        ],
    });
    let file = write(scratch.path(), "mem0.json", serde_json::to_string_pretty(&export).unwrap());
    let report = import(&data, &file, &[]);
    assert_eq!(
        (&report["foreign"]["shape"], &report["foreign"]["items"]),
        (&json!("mem0"), &json!(4))
    );
    assert_eq!(report["foreign"]["skipped"][0]["place"], "results 3");
    let items = lines(&data, "item");
    let [coffee, tea] = ["Likes coffee", "Likes tea"].map(|title| item(&items, title));
    assert_eq!(tea["supersedes"], json!([coffee["id"]]));
    assert_eq!(coffee["recorded_at"], "2025-01-01T08:00:00.000000Z");
    assert_eq!(tea["recorded_at"], "2025-03-01T08:00:00.000000Z");
    assert_eq!(
        tea["attributes"],
        json!({"hash": "h", "metadata": {"room": "galley"}, "user_id": "ada"})
    );
    assert_eq!(item(&items, "Lives in Oban")["tombstoned"], true);
    let found = run_json(&data, &["recall", "which drink does she like?"]);
    assert_eq!(found["items"][0]["id"], tea["id"], "{found}");
    assert_eq!(import(&data, &file, &[])["items"], 0);
}

#[test]
fn memories_of_mcp_memory_service_with_what_replaces_them() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let export = json!({
        "export_metadata": {"source_machine": "m", "total_memories": 3, "include_embeddings": false},
        "memories": [
            {"content": "The lamp burns gas", "content_hash": "a", "tags": ["lamp", "fuel"], "memory_type": "fact",
             "created_at": 1_735_689_600.5, "superseded_by": "b", "metadata": {"x": 1}},
            {"content": "The lamp burns paraffin", "content_hash": "b", "tags": "lamp, fuel", "memory_type": "fact",
             "created_at": 1_738_368_000.0, "parent_id": "a"},
            {"content": "", "content_hash": "c"},
        ],
    });
    // A successor may come before the item that it supersedes.
    let mut turned = export.clone();
    turned["memories"].as_array_mut().unwrap().swap(0, 1);
    for (name, export) in [("a.json", &export), ("b.json", &turned)] {
        let data = data.join(name);
        let report = import(&data, &write(scratch.path(), name, export.to_string()), &[]);
        assert_eq!(report["foreign"]["shape"], "mcp-memory-service");
        assert_eq!(report["foreign"]["skipped"][0]["why"], "has no `content`");
        let items = lines(&data, "item");
        let [gas, paraffin] =
            ["The lamp burns gas", "The lamp burns paraffin"].map(|title| item(&items, title));
        assert_eq!(paraffin["supersedes"], json!([gas["id"]]));
        assert_eq!((&gas["kind"], &gas["tags"]), (&json!("fact"), &json!(["lamp", "fuel"])));
        assert_eq!(paraffin["tags"], json!(["lamp", "fuel"]));
        assert_eq!(gas["recorded_at"], "2025-01-01T00:00:00.500000Z");
        assert_eq!(
            edges(&data),
            [edge("The lamp burns paraffin", "derived_from", "The lamp burns gas")]
        );
    }
}

#[test]
fn a_vault_of_notes_with_observations_and_links() {
    let scratch = scratch();
    let (data, vault) = (scratch.path().join("data"), scratch.path().join("vault"));
    write(
        &vault,
        "places/Lamp Room.md",
        concat!(
            "---\ntitle: The Lamp Room\ntype: place\npermalink: places/lamp\ntags: [lamp, \"upper deck\"]\n",
            "aliases:\n  - lantern room\ncreated: 2025-02-03\nfloors: 7\n---\n# Lamp\n\n## Observations\n",
            "- [decision] Paraffin since 1901 #fuel (the tank was sold)\n- [ ] buy wicks\n\n## Relations\n",
            "- lit by [[Keeper]]\n- [[No Such Note]]\n"
        ),
    );
    write(
        &vault,
        "Keeper.md",
        "Sleeps below the [[lantern room|lamp]].\r\n\r\n```\n[[not a link]]\n```\n",
    );
    write(&vault, "empty.md", "");
    write(&vault, "bad.md", "---\n\t: [\n---\nStill a note.\n");
    write(&vault, "picture.png", [0_u8, 1, 2]);
    write(&vault, ".obsidian/workspace.md", "not a note");
    let report = import(&data, &vault, &[]);
    let foreign = &report["foreign"];
    assert_eq!((&foreign["shape"], &foreign["items"]), (&json!("vault"), &json!(5)), "{foreign}");
    let skipped: Vec<(&str, &str)> = foreign["skipped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["place"].as_str().unwrap(), it["why"].as_str().unwrap()))
        .collect();
    assert_eq!(skipped.len(), 3, "{skipped:?}");
    assert!(
        skipped.contains(&("picture.png", "is no Markdown note; recalld ingest reads other files"))
    );
    assert!(skipped.iter().any(|(place, why)| *place == "bad.md" && why.contains("front matter")));
    assert!(skipped.iter().any(|(_, why)| why.contains("`No Such Note`")));
    let items = lines(&data, "item");
    let lamp = item(&items, "The Lamp Room");
    assert_eq!(
        (&lamp["kind"], &lamp["tags"]),
        (&json!("place"), &json!(["lamp", "upper deck", "fuel"]))
    );
    assert_eq!(lamp["recorded_at"], "2025-02-03T00:00:00.000000Z");
    assert_eq!(lamp["source"]["uri"], "vault:vault/places/Lamp Room.md");
    assert_eq!(lamp["attributes"]["floors"], 7);
    let said = item(&items, "The Lamp Room: decision");
    assert_eq!(said["text"], "Paraffin since 1901 #fuel");
    assert_eq!(said["attributes"], json!({"category": "decision", "context": "the tank was sold"}));
    assert_eq!(item(&items, "empty")["text"], "empty");
    assert_eq!(
        edges(&data),
        [
            edge("Keeper", "links_to", "The Lamp Room"),
            edge("The Lamp Room", "lit_by", "Keeper"),
            edge("The Lamp Room: decision", "observation_of", "The Lamp Room"),
        ]
    );
    let again = import(&data, &vault, &[]);
    assert_eq!((&again["items"], &again["edges"]), (&json!(0), &json!(0)), "{again}");
    write(&vault, "empty.md", "No longer.\n");
    assert_eq!(import(&data, &vault, &[])["items"], 1);
}

fn node(parent: Value, children: Value, message: Value) -> Value {
    json!({"parent": parent, "children": children, "message": message})
}

fn conversations() -> Value {
    let message = |role: &str, at: f64, parts: Value| {
        json!({
            "author": {"role": role}, "create_time": at, "content": {"content_type": "text", "parts": parts}, "metadata": {},
        })
    };
    let mut hidden = message("user", 1.0, json!(["about me"]));
    hidden["metadata"]["is_visually_hidden_from_conversation"] = true.into();
    json!([{
        "title": "Wicks", "conversation_id": "c1", "create_time": 1_735_689_600.0, "current_node": "d",
        "mapping": {
            "root": node(Value::Null, json!(["h"]), Value::Null),
            "h": node(json!("root"), json!(["a"]), hidden),
            "a": node(json!("h"), json!(["b", "x"]), message("user", 1_735_689_601.0, json!(["Which wick?"]))),
            "x": node(json!("a"), json!([]), message("assistant", 1_735_689_602.0, json!(["A branch given up"]))),
            "b": node(json!("a"), json!(["d"]), message("assistant", 1_735_689_603.0,
                json!(["Flat ones.", {"content_type": "image_asset_pointer"}]))),
            "d": node(json!("b"), json!([]), message("user", 1_735_689_604.0, json!(["Thanks"]))),
        },
    }, {"title": "Empty", "mapping": {}}])
}

#[test]
fn conversations_of_chatgpt_as_a_file_a_folder_and_an_archive() {
    let scratch = scratch();
    let text = conversations().to_string();
    let file = write(scratch.path(), "conversations.json", &text);
    let folder = scratch.path().join("export");
    write(&folder, "conversations.json", &text);
    write(&folder, "user.json", "{}");
    let archive = scratch.path().join("export.zip");
    let mut zip = zip::ZipWriter::new(File::create(&archive).unwrap());
    zip.start_file("chatgpt/conversations.json", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(text.as_bytes()).unwrap();
    zip.finish().unwrap();
    for path in [&file, &folder, &archive] {
        let data = scratch.path().join("data").join(path.file_name().unwrap());
        let report = import(&data, path, &[]);
        let foreign = &report["foreign"];
        assert_eq!(
            (&foreign["shape"], &foreign["items"]),
            (&json!("chatgpt"), &json!(4)),
            "{foreign}"
        );
        assert_eq!(foreign["skipped"][0]["place"], "conversation 2");
        let items = lines(&data, "item");
        let texts: Vec<&str> = items.iter().map(|item| item["text"].as_str().unwrap()).collect();
        let whole = "Wicks\n\n3 messages, the first: Which wick?";
        assert_eq!(texts, [whole, "Which wick?", "Flat ones.\n[image_asset_pointer]", "Thanks"]);
        assert_eq!(items[1]["attributes"], json!({"role": "user", "conversation": "c1"}));
        assert_eq!(items[2]["recorded_at"], "2025-01-01T00:00:03.000000Z");
        let edges = edges(&data);
        assert_eq!(edges.iter().filter(|edge| edge.1 == "part_of").count(), 3);
        assert_eq!(edges.iter().filter(|edge| edge.1 == "follows").count(), 2);
        assert_eq!(import(&data, path, &[])["items"], 0);
    }
}

#[test]
fn a_conversation_with_a_child_that_is_not_there_is_read_to_its_last_message() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let message = |role: &str, said: &str, at: Value| {
        json!({"author": {"role": role}, "create_time": at,
               "content": {"content_type": "text", "parts": [said, {"asset_pointer": "file"}]}})
    };
    let mapping = json!({
        "root": node(Value::Null, json!(["one"]), Value::Null),
        "one": node(json!("root"), json!(["two", "gone"]), message("user", "is the gate green", json!(null))),
        "two": node(json!("one"), json!(["gone"]), message("assistant", "the gate is green", json!(5))),
    });
    let file = json!([{"title": null, "create_time": 1_700_000_000.5, "mapping": mapping}]);
    let path = write(scratch.path(), "conversations.json", file.to_string());
    let report = import(&data, &path, &[]);
    assert_eq!(report["foreign"]["shape"], "chatgpt", "{report}");
    let said: Vec<String> = lines(&data, "item")
        .iter()
        .filter(|item| item["kind"] == "message")
        .map(|item| item["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(said.len(), 2, "{said:?}");
}

#[test]
fn conversations_and_projects_of_claude() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("export"));
    let conversations = json!([{
        "uuid": "u1", "name": "Reefs", "created_at": "2025-01-01T00:00:00Z", "updated_at": "2025-01-02T00:00:00Z",
        "chat_messages": [
            {"uuid": "m1", "sender": "human", "created_at": "2025-01-01T00:00:01Z", "text": "old form", "content": [{"type": "text", "text": "Where is the reef?"}],
             "attachments": [{"file_name": "chart.txt", "extracted_content": "Reef at 57 N"}]},
            {"uuid": "m2", "sender": "assistant", "created_at": "2025-01-01T00:00:02Z", "text": "At 57 N.", "content": []},
        ],
    }, {"what": "else"}]);
    let projects = json!([{
        "uuid": "p1", "name": "Charts", "prompt_template": "Answer in metres.", "created_at": "2025-01-01T00:00:00Z",
        "docs": [{"uuid": "d1", "filename": "tides.md", "content": "High water at noon.", "created_at": "2025-01-03T00:00:00Z"}],
    }]);
    write(&folder, "conversations.json", conversations.to_string());
    write(&folder, "projects.json", projects.to_string());
    let report = import(&data, &folder, &[]);
    assert_eq!(
        (&report["foreign"]["shape"], &report["foreign"]["items"]),
        (&json!("claude"), &json!(5)),
        "{report}"
    );
    assert_eq!(report["foreign"]["skipped"][0]["place"], "entry 2");
    let items = lines(&data, "item");
    assert_eq!(
        item(&items, "user: Reefs")["text"],
        "Where is the reef?\n\n[chart.txt]\nReef at 57 N"
    );
    assert_eq!(item(&items, "assistant: Reefs")["text"], "At 57 N.");
    assert_eq!(item(&items, "Charts")["kind"], "project");
    assert_eq!(item(&items, "tides.md")["kind"], "reference");
    assert!(edges(&data).contains(&edge("tides.md", "part_of", "Charts")));
}

#[test]
fn plain_objects_of_any_keys() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let text = concat!(
        "\u{feff}",
        r#"{"id": 7, "content": "Kelp grows by the pier", "labels": ["sea"], "date": "2025-05-01", "depth": 3}"#,
        "\n",
        r#"{"fact": "Gulls nest in May", "type": "job"}"#,
        "\n\nnot json\n",
        r#"{"depth": 3}"#,
        "\n"
    );
    let file = write(scratch.path(), "facts.jsonl", text);
    let report = import(&data, &file, &[]);
    assert_eq!(
        (&report["foreign"]["shape"], &report["foreign"]["items"]),
        (&json!("plain"), &json!(2)),
        "{report}"
    );
    assert_eq!(report["foreign"]["skipped_count"], 2);
    let items = lines(&data, "item");
    let kelp = item(&items, "Kelp grows by the pier");
    assert_eq!((&kelp["tags"], &kelp["attributes"]), (&json!(["sea"]), &json!({"depth": 3})));
    assert_eq!(kelp["recorded_at"], "2025-05-01T00:00:00.000000Z");
    // A kind that the service reserves is renamed.
    assert_eq!(item(&items, "Gulls nest in May")["kind"], "job_note");
    let list = write(scratch.path(), "list.json", r#"["one thing", {"body": "another thing"}, 3]"#);
    let report = import(&data, &list, &[]);
    assert_eq!(
        (&report["foreign"]["items"], &report["foreign"]["skipped_count"]),
        (&json!(2), &json!(1))
    );
}

#[test]
fn what_is_of_another_shape_or_of_none_is_said() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let list = write(scratch.path(), "list.json", "[1, 2");
    assert_fails(&run(&data, &["import", list.to_str().unwrap()]), 2, &["list.json", "JSON"]);
    let file = write(scratch.path(), "text.txt", "Just words.\n");
    let path = file.to_str().unwrap();
    assert_fails(&run(&data, &["import", path, "--from", "chatgpt"]), 2, &["text.txt", "JSON"]);
    assert_fails(
        &run(&data, &["import", path, "--from", "evernote"]),
        2,
        &["evernote", "vault", "recalld"],
    );
    let empty = write(scratch.path(), "empty.json", "[]");
    let why = ["empty.json", "nothing in it of the shape mem0"];
    assert_fails(&run(&data, &["import", empty.to_str().unwrap(), "--from", "mem0"]), 2, &why);
    let zip = write(scratch.path(), "broken.zip", b"PK\x03\x04 and no more");
    assert_fails(&run(&data, &["import", zip.to_str().unwrap()]), 2, &["broken.zip", "archive"]);
}

#[test]
fn a_store_becomes_a_vault_and_the_vault_a_store() {
    let scratch = scratch();
    let (data, vault) = (scratch.path().join("data"), scratch.path().join("vault"));
    let first = run_json(
        &data,
        &[
            "remember",
            "The lamp burns gas.",
            "--kind",
            "decision",
            "--title",
            "Lamp/fuel?",
            "--tag",
            "lamp",
        ],
    );
    let old = first["item"]["id"].as_str().unwrap();
    run_json(
        &data,
        &[
            "remember",
            "The lamp burns paraffin.",
            "--kind",
            "decision",
            "--title",
            "Lamp/fuel?",
            "--supersedes",
            old,
        ],
    );
    run_json(&data, &["remember", "Two: of one name.", "--title", "lamp fuel"]);
    let notes = scratch.path().join("notes");
    write(&notes, "Keeper.md", "- trims [[Wick]]\n");
    write(&notes, "Wick.md", "A flat one.");
    import(&data, &notes, &[]);
    let report = run_json(&data, &["export", "--vault", vault.to_str().unwrap()]);
    assert_eq!(report, json!({"notes": 4, "links": 1, "earlier": 1}));
    let decision = std::fs::read_to_string(vault.join("decision/Lamp fuel.md")).unwrap();
    assert!(
        decision.starts_with("---\ntitle: \"Lamp/fuel?\"\ntype: \"decision\"\npermalink: \"itm_"),
        "{decision}"
    );
    assert!(
        decision.contains("\nThe lamp burns paraffin.\n")
            && decision.contains("> The lamp burns gas."),
        "{decision}"
    );
    let keeper = std::fs::read_to_string(vault.join("note/Keeper.md")).unwrap();
    assert!(keeper.contains("## Relations\n\n- trims [[Wick]]\n"), "{keeper}");
    let other = scratch.path().join("other");
    let report = import(&other, &vault, &[]);
    assert_eq!(
        (&report["foreign"]["items"], &report["foreign"]["skipped_count"]),
        (&json!(4), &json!(0)),
        "{report}"
    );
    assert_eq!(edges(&other), [edge("Keeper", "trims", "Wick")]);
    assert_eq!(item(&lines(&other, "item"), "Lamp/fuel?")["kind"], "decision");
    let again = run(&data, &["export", "--vault", vault.to_str().unwrap()]);
    assert_fails(&again, 2, &["is not empty"]);
}

#[test]
fn a_vault_shows_nothing_that_was_replaced_and_takes_every_title() {
    let scratch = scratch();
    let (data, vault) = (scratch.path().join("data"), scratch.path().join("vault"));
    let remembered = |text: &str, more: &[&str]| {
        let said = run_json(&data, &[&["remember", text], more].concat());
        said["item"]["id"].as_str().unwrap().to_owned()
    };
    let old = remembered("The lamp burns gas.", &["--title", "Fuel"]);
    let newer = remembered("The lamp burns paraffin.", &["--title", "Fuel", "--supersedes", &old]);
    remembered("A long name.", &["--title", &"\u{1f4a1}".repeat(70)]);
    erase(&data, &[&newer], &[]);
    std::fs::create_dir(&vault).unwrap();
    let report = run_json(&data, &["export", "--vault", vault.to_str().unwrap()]);
    assert_eq!(report, json!({"notes": 1, "links": 0, "earlier": 0}), "gas does not burn again");
    let kind = vault.join("note");
    assert_eq!(std::fs::metadata(&kind).unwrap().permissions().mode() & 0o777, 0o700);
    let name = std::fs::read_dir(&kind).unwrap().next().unwrap().unwrap().file_name();
    assert!(name.to_str().unwrap().starts_with(&"\u{1f4a1}".repeat(50)), "{name:?}");
}
