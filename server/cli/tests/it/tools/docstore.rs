//! `docstore`: ingested documents, as of their ingest.

use std::fs;

use engine::{Batch, ItemDraft, Sensitivity, SourceDraft, Span};
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member};

use super::texts;

const GUIDE: &str = "\
# Guide

How to keep the light.

## Lamp

Trim the wick at dusk. Polish the lens.

### Wicks

Wicks come from Leith by the relief boat.

## Fog horn

Two blasts a minute, whenever the island cannot be seen.
";

/// A service with files of these names and texts ingested.
fn with(files: &[(&str, &str)]) -> Desk {
    let desk = Desk::new();
    for (name, text) in files {
        put(&desk, name, text);
    }
    ingest(&desk);
    desk
}

fn put(desk: &Desk, name: &str, text: &str) {
    let path = desk.files().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn ingest(desk: &Desk) {
    desk.call("ingest_paths_tool", json!({"paths": [desk.files()]}));
}

#[test]
fn the_manifest_is_by_path_and_as_it_is_asked_for() {
    let desk =
        with(&[("b/two.txt", "two"), ("a.md", "# One\n\none\n"), ("b/code.rs", "fn x() {}\n")]);
    let names = |wanted: Value| -> Vec<String> {
        let answer = desk.call("docstore_manifest_tool", wanted);
        let root = desk.files().canonicalize().unwrap();
        let paths = texts(&answer, "documents", "path").into_iter();
        paths.map(|path| path.strip_prefix(root.to_str().unwrap()).unwrap().to_owned()).collect()
    };
    assert_eq!(names(json!({})), ["/a.md", "/b/code.rs", "/b/two.txt"]);
    assert_eq!(names(json!({"path_prefix": "b/"})), ["/b/code.rs", "/b/two.txt"]);
    assert_eq!(names(json!({"modality": "code"})), ["/b/code.rs"]);
    assert_eq!(names(json!({"status": "tombstoned"})), [""; 0]);
    put(&desk, "a.md", "# One\n\none more\n");
    ingest(&desk);
    assert_eq!(names(json!({})).len(), 3, "older versions are not active");
    assert_eq!(names(json!({"status": "all"})), ["/a.md", "/a.md", "/b/code.rs", "/b/two.txt"]);
}

#[test]
fn a_long_manifest_has_pages() {
    let files: Vec<(String, String)> =
        (0..45).map(|n| (format!("f{n:02}.txt"), format!("text {n}"))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let desk = with(&files);
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = desk.call("docstore_manifest_tool", json!({"cursor": cursor}));
        let names = texts(&page, "documents", "path").into_iter();
        seen.extend(names.map(|path| path.rsplit('/').next().unwrap().to_owned()));
        if page["truncated"] == false {
            break;
        }
        cursor = page["next_cursor"].clone();
    }
    let wanted: Vec<String> = (0..45).map(|n| format!("f{n:02}.txt")).collect();
    assert_eq!(seen, wanted);
}

#[test]
fn words_are_found_where_they_stand() {
    let desk = with(&[("guide.md", GUIDE), ("b/other.txt", "The relief boat is late.\n")]);
    let found = desk.call("docstore_search_tool", json!({"query": "relief boat"}));
    assert_eq!(found["hits"].as_array().unwrap().len(), 2);
    let beneath = desk.call("docstore_search_tool", json!({"query": "boat", "path_prefix": "b/"}));
    let hit = &beneath["hits"][0];
    assert_eq!(beneath["hits"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&hit["line_start"], &hit["snippet"]),
        (&json!(1), &json!("The relief boat is late."))
    );
    let chunk = desk.call("docstore_get_chunk_tool", json!({"chunk_id": hit["chunk_id"]}));
    assert_eq!(chunk["chunk"]["text"], "The relief boat is late.\n");
    assert_eq!(chunk["chunk"]["document_id"], hit["document_id"]);
    let none = desk.call("docstore_search_tool", json!({"query": "zeppelin"}));
    assert_eq!(none["hits"], json!([]));
}

#[test]
fn pieces_lead_to_those_before_and_after_them() {
    let long: String =
        (0..60).map(|n| format!("## Part {n}\n\n{}\n\n", "words ".repeat(60))).collect();
    let desk = with(&[("long.md", &long)]);
    let document = desk.call("docstore_get_document_tool", json!({"path": "long.md"}));
    let chunks = document["chunks"].as_u64().unwrap();
    assert!(chunks > 10, "{chunks}");
    let mut first =
        desk.call("docstore_search_tool", json!({"query": "words"}))["hits"][0]["chunk_id"].clone();
    loop {
        let chunk = desk.call("docstore_get_chunk_tool", json!({"chunk_id": first}));
        match chunk.get("before") {
            Some(before) => first = before.clone(),
            None => break,
        }
    }
    let (mut at, mut text, mut before, mut count) = (first, String::new(), Value::Null, 0);
    loop {
        let chunk = desk.call("docstore_get_chunk_tool", json!({"chunk_id": at}));
        assert_eq!(
            (&chunk["chunk"]["ordinal"], &chunk["before"]),
            (&json!(count), &before),
            "{at}"
        );
        text.push_str(chunk["chunk"]["text"].as_str().unwrap());
        (before, at, count) = (at, chunk["after"].clone(), count + 1);
        if at.is_null() {
            break;
        }
    }
    assert_eq!((text.as_str(), count), (long.as_str(), chunks));
    let not = json!({"chunk_id": document["document_id"]});
    assert!(
        desk.refusal("docstore_get_chunk_tool", not)
            .starts_with("chunk_id: is the id of a document")
    );
}

#[test]
fn lines_are_those_of_the_version_that_is_asked_for() {
    let desk = with(&[("guide.md", GUIDE)]);
    let lines = |more: Value| {
        let mut wanted = json!({"path": "guide.md", "line_start": 5, "line_end": 7});
        wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        desk.call("docstore_get_lines_tool", wanted)
    };
    let first = lines(json!({}));
    assert_eq!(first["lines"], json!(["## Lamp", "", "Trim the wick at dusk. Polish the lens."]));
    assert_eq!((&first["of_lines"], &first["lines_of"]), (&json!(15), &json!("file")));
    put(&desk, "guide.md", &GUIDE.replace("dusk", "noon"));
    ingest(&desk);
    assert_eq!(lines(json!({}))["lines"][2], "Trim the wick at noon. Polish the lens.");
    let old = lines(json!({"version": first["content_sha256"]}));
    assert_eq!(old["lines"], first["lines"]);
    let history = desk.call("docstore_get_history_tool", json!({"path": "guide.md"}));
    assert_eq!(texts(&history, "versions", "status"), ["current", "superseded"]);
    assert_eq!(history["versions"][1]["content_sha256"], first["content_sha256"]);
    assert_eq!(
        (&history["versions"][0]["version"], &history["versions"][1]["version"]),
        (&json!(2), &json!(1))
    );

    let past = lines(json!({"line_start": 15, "line_end": 99}));
    assert_eq!((past["lines"].as_array().unwrap().len(), &past["line_end"]), (1, &json!(15)));
    assert_eq!(lines(json!({"line_start": 16, "line_end": 99}))["lines"], json!([]));
    let refused = |first: u64, last: u64| {
        let wanted = json!({"path": "guide.md", "line_start": first, "line_end": last});
        desk.try_call(&support_server::desk::operator(), "docstore_get_lines_tool", wanted).err()
    };
    assert!(refused(1, 2_000).is_none());
    let why = refused(1, 2_001).unwrap().to_string();
    assert_eq!(why, "line_end: is 2001; 1 to 2000 is allowed with this line_start");
    assert!(refused(3, 2).unwrap().to_string().starts_with("line_end: is 2"));
    let version =
        json!({"path": "guide.md", "line_start": 1, "line_end": 1, "version": "0".repeat(64)});
    assert!(desk.refusal("docstore_get_lines_tool", version).starts_with("version: no version"));
    let nowhere = json!({"path": "nowhere.md", "line_start": 1, "line_end": 1});
    assert!(desk.refusal("docstore_get_lines_tool", nowhere).contains("nowhere.md"));
}

#[test]
fn an_outline_is_a_tree_of_headings_with_their_lines() {
    let desk = with(&[("guide.md", GUIDE), ("plain.txt", "no headings\n")]);
    let outline = desk.call("docstore_get_outline_tool", json!({"path": "guide.md"}));
    let leaf = |title: &str, level: u64, from: u64, to: u64| {
        let (line_start, line_end, children) = (from, to, json!([]));
        json!({
            "title": title, "level": level, "line_start": line_start, "line_end": line_end,
            "children": children,
        })
    };
    let mut lamp = leaf("Lamp", 2, 5, 12);
    lamp["children"] = json!([leaf("Wicks", 3, 9, 12)]);
    let mut guide = leaf("Guide", 1, 1, 15);
    guide["children"] = json!([lamp, leaf("Fog horn", 2, 13, 15)]);
    assert_eq!(outline["headings"], json!([guide]), "{outline}");
    assert_eq!(outline["made_from"], "headings");
    let plain = desk.call("docstore_get_outline_tool", json!({"path": "plain.txt"}));
    assert_eq!(plain["made_from"], "chunks");
    let none = desk.refusal("docstore_get_outline_tool", json!({}));
    assert_eq!(none, "document_id: give document_id or path, one of the two");
}

#[test]
fn documents_that_policy_denies_are_not_there() {
    let desk = Desk::new();
    put(&desk, "open.txt", "the lamp is lit\n");
    ingest(&desk);
    put(&desk, "secret.txt", "the lamp is broken\n");
    let restricted = Sensitivity::Restricted.name();
    desk.call(
        "ingest_paths_tool",
        json!({"paths": [desk.files().join("secret.txt")], "sensitivity": restricted}),
    );
    let ask = |tool: &str, wanted: Value| desk.call_as(&member(), tool, wanted);
    let list = ask("docstore_manifest_tool", json!({}));
    assert_eq!(texts(&list, "documents", "title"), ["the lamp is lit"]);
    let found = ask("docstore_search_tool", json!({"query": "lamp"}));
    assert_eq!(texts(&found, "hits", "heading"), ["the lamp is lit"]);
    for tool in
        ["docstore_get_outline_tool", "docstore_get_history_tool", "docstore_get_document_tool"]
    {
        let why = desk.refusal_as(&member(), tool, json!({"path": "secret.txt"}));
        assert_eq!(why, "path: no document was ingested from `secret.txt`", "{tool}");
    }
    let lines = json!({"path": "secret.txt", "line_start": 1, "line_end": 1});
    let why = desk.refusal_as(&member(), "docstore_get_lines_tool", lines.clone());
    assert_eq!(why, "path: no document was ingested from `secret.txt`");
    assert_eq!(desk.call("docstore_get_lines_tool", lines)["lines"], json!(["the lamp is broken"]));
    let all = desk.call("docstore_search_tool", json!({"query": "broken"}));
    let chunk = json!({"chunk_id": all["hits"][0]["chunk_id"]});
    let why = desk.refusal_as(&member(), "docstore_get_chunk_tool", chunk);
    assert_eq!(why, "chunk_id: there is no such item");
}

#[test]
fn of_a_document_whose_parts_are_stricter_than_itself_only_the_open_ones_are_told() {
    let desk = Desk::new();
    let file = desk.files().canonicalize().unwrap().join("parts.md");
    let source = desk.started().parts.local.get().store.new_source_id();
    let item = |kind: &str, word: &str, line: u32| ItemDraft {
        kind: kind.to_owned(),
        modality: "text".to_owned(),
        title: format!("parts > {word}"),
        text: format!("{word} {word}\n"),
        attributes: "{}".to_owned(),
        source: Some(source),
        searchable: true,
        span: Some(Span { byte_start: 0, byte_end: 9, line_start: line, line_end: line }),
        ..ItemDraft::default()
    };
    // As from an import: the chunks are more restricted than their document.
    desk.write(Batch {
        sources: vec![SourceDraft {
            id: Some(source),
            kind: "file".to_owned(),
            uri: format!("file://{}", file.to_str().unwrap()),
            ..SourceDraft::default()
        }],
        items: vec![
            item("document", "parts", 3),
            item("chunk", "alpha", 1),
            ItemDraft { sensitivity: Sensitivity::Restricted, ..item("chunk", "beta", 2) },
            ItemDraft { gates: vec![VEILED.to_owned()], ..item("chunk", "gamma", 3) },
        ],
        ..Batch::default()
    });
    let tools = ["docstore_get_document_tool", "docstore_get_outline_tool"];
    for tool in tools {
        let told = desk.call_as(&member(), tool, json!({"path": "parts.md"})).to_string();
        assert!(told.contains("alpha"), "{tool}: {told}");
        assert!(!told.contains("beta") && !told.contains("gamma"), "{tool}: {told}");
    }
    let whole = desk.call("docstore_get_document_tool", json!({"path": "parts.md"}));
    assert!(whole["text"].as_str().unwrap().contains("beta beta"));
    let lines = json!({"path": "parts.md", "line_start": 1, "line_end": 3});
    let why = desk.refusal_as(&member(), "docstore_get_lines_tool", lines);
    assert_eq!(why, "path: no document was ingested from `parts.md`");
}
