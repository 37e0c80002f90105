//! Export and import of JSON Lines by the program: round trips, in-process and through a server, any line order,
//! invalid lines.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;

use engine::limits::NAME_BYTES_MAX;
use engine::os::disk::FsDisk;
use engine::{ItemId, NoThrottle, Record, Store, StoreReader};
use recalld_http_server::limits::STREAM_BACKLOG_BYTES_MAX;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support_engine::{ground, random_store};
use support_wire::service::{Service, command, run, run_json, scratch, write};
use support_wire::tiny_model::Tiny;
use support_wire::wire::Ask;

const SEED: u64 = 21;
const COMMITS: usize = 30;

fn export(data: &Path) -> String {
    let output = run(data, &["export"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn import(data: &Path, file: &Path, options: &[&str]) -> (Option<i32>, Value, String) {
    let arguments = [&["import", file.to_str().unwrap(), "--json"], options].concat();
    let Output { status, stdout, stderr } = run(data, &arguments);
    let report = serde_json::from_slice(&stdout).unwrap_or(Value::Null);
    (status.code(), report, String::from_utf8_lossy(&stderr).into_owned())
}

fn imported(data: &Path, file: &Path, options: &[&str]) -> Value {
    let (code, report, errors) = import(data, file, options);
    assert_eq!(code, Some(0), "{report:#}\n{errors}");
    report
}

/// A data directory with a store of random rows, bound to no model.
fn random_data(folder: &Path) -> PathBuf {
    let data = folder.join("random");
    let store = data.join("tenants/local/store");
    fs::create_dir_all(&store).unwrap();
    let store = Store::open(ground::folder(&store, SEED), ground::unmerged()).unwrap();
    random_store::fill(&store, SEED, COMMITS, false);
    data
}

#[test]
fn an_export_of_an_imported_export_is_the_same() {
    let scratch = scratch();
    let whole = export(&random_data(scratch.path()));
    assert!(whole.lines().count() > 100, "{} lines", whole.lines().count());
    let file = write(scratch.path(), "whole.jsonl", &whole);

    let (alone, beside) = (scratch.path().join("alone"), scratch.path().join("beside"));
    let report = imported(&alone, &file, &[]);
    assert_eq!((&report["unchanged"], &report["renamed"]), (&json!(0), &json!(0)), "{report}");
    assert_eq!(export(&alone), whole);
    let again = imported(&alone, &file, &[]);
    assert_eq!(again["unchanged"].as_u64().unwrap(), whole.lines().count() as u64, "{again}");
    assert_eq!(export(&alone), whole, "importing it again changes nothing");

    let service = Service::start(&beside, &[]);
    let dry = imported(&beside, &file, &["--dry-run"]);
    assert_eq!(dry["nothing_written"], true, "{dry}");
    assert_eq!(export(&beside), "", "a dry run writes nothing");
    imported(&beside, &file, &["--strict"]);
    assert_eq!(export(&beside), whole);
    let target = scratch.path().join("out.jsonl");
    let told = run_json(&beside, &["export", target.to_str().unwrap()]);
    assert!(told["items"].as_u64().unwrap() > 0, "{told}");
    assert_eq!(fs::read_to_string(&target).unwrap(), whole);
    drop(service);

    let again = run(&beside, &["export", target.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(3), "it is there");
    assert!(String::from_utf8_lossy(&again.stderr).contains("--force"));
    assert!(run(&alone, &["export", target.to_str().unwrap(), "--force"]).status.success());
    let left: Vec<_> = fs::read_dir(scratch.path()).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(!left.iter().any(|path| path.ends_with("out.jsonl.new")), "{left:?}");
}

#[test]
fn lines_in_any_order_and_by_ref_are_taken_and_bad_ones_told() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let lines = [
        r#"{"type":"edge","from":"b","to":"a","relation":"links_to"}"#,
        r#"{"type":"item","ref":"b","text":"second","supersedes":["c"],"source":{"kind":"file","uri":"file:///x"}}"#,
        r#"{"type":"item","ref":"a","text":"first","source":{"kind":"file","uri":"file:///x"}}"#,
        r#"{"type":"item","ref":"c","text":"third"}"#,
        r#"{"type":"edge","from":"a","to":"b","relation":"supersedes"}"#,
        r#"{"type":"item","ref":"x","text":"round","supersedes":["y"]}"#,
        r#"{"type":"item","ref":"y","text":"about","supersedes":["x"]}"#,
        r#"{"type":"item","text":1}"#,
        r#"{"type":"edge","from":"x","to":"a","relation":"links_to"}"#,
        r#"{"type":"item","ref":"d","text":"hidden","tombstoned":true}"#,
        "nonsense",
        r#"{"type":"item","text":"misspelt","sensitivty":"restricted"}"#,
    ];
    let file = write(scratch.path(), "mixed.jsonl", lines.join("\n"));
    let (code, report, errors) = import(&data, &file, &["--strict"]);
    assert_eq!(code, Some(1), "{report}\n{errors}");
    assert_eq!(export(&data), "", "strict: nothing is imported");

    let (code, report, _) = import(&data, &file, &[]);
    assert_eq!(code, Some(1), "{report}");
    let bad: Vec<u64> =
        report["bad"].as_array().unwrap().iter().map(|one| one["line"].as_u64().unwrap()).collect();
    assert_eq!(bad, [5, 6, 7, 8, 9, 11, 12], "{report:#}");
    assert!(report["bad"][1]["reason"].as_str().unwrap().contains("lines 6, 7"), "{report:#}");
    let rows: Vec<Value> =
        export(&data).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| rows.iter().filter(|row| row["type"] == kind).count();
    assert_eq!((of("source"), of("item"), of("edge"), of("tombstone")), (1, 4, 1, 1), "{rows:#?}");
    let item = |text: &str| rows.iter().find(|row| row["text"] == text).unwrap();
    assert_eq!(item("second")["supersedes"], json!([item("third")["id"]]));
    assert_eq!(item("hidden")["tombstoned"], true);

    // A line that only the store can reject is reported by its number, and the other lines are imported.
    let hidden = json!({"type": "item", "text": "late", "supersedes": [item("hidden")["id"]]});
    let lines = format!("{hidden}\n{{\"type\":\"item\",\"text\":\"in time\"}}\n");
    let (code, report, _) = import(&data, &write(scratch.path(), "late.jsonl", lines), &[]);
    assert_eq!((code, &report["items"], &report["bad_count"]), (Some(1), &json!(1), &json!(1)));
    assert_eq!(report["bad"][0]["line"], 1, "{report}");
    assert!(report["bad"][0]["reason"].as_str().unwrap().contains("is tombstoned"), "{report}");

    // Known refs: one line is unchanged, the other has a new text.
    let lines = [
        r#"{"type":"item","ref":"a","text":"first","source":{"kind":"file","uri":"file:///x"}}"#,
        r#"{"type":"item","ref":"b","text":"second, corrected"}"#,
        r#"{"type":"edge","from":"b","to":"a","relation":"links_to"}"#,
    ];
    let file = write(scratch.path(), "next.jsonl", lines.join("\n"));
    let report = imported(&data, &file, &[]);
    assert_eq!((&report["unchanged"], &report["superseded"]), (&json!(1), &json!(1)), "{report}");
}

/// The path of a small model, for the option `--model`.
fn quick(scratch: &Path) -> String {
    Tiny::new(1, 16).write(scratch, "model").to_str().unwrap().to_owned()
}

/// Counts of a report: imported sources, items and edges, and unchanged lines.
fn counted(report: &Value) -> [u64; 4] {
    ["sources", "items", "edges", "unchanged"].map(|name| report[name].as_u64().unwrap())
}

#[test]
fn lines_without_id_and_ref_are_taken_once() {
    let scratch = scratch();
    let (data, model) = (scratch.path().join("data"), quick(scratch.path()));
    let options = ["--model", &*model];
    let mut lines: Vec<String> = (0..300)
        .map(|n| json!({"type": "item", "text": format!("kelp {n}")}).to_string())
        .collect();
    lines.extend(
        [
            r#"{"type":"source","kind":"web","uri":"u","bytes":7}"#,
            r#"{"type":"source","kind":"web","uri":"u","bytes":8}"#,
            r#"{"type":"item","text":"of u","source":{"kind":"web","uri":"u"}}"#,
            r#"{"type":"item","text":"of v","source":{"kind":"web","uri":"v"}}"#,
            r#"{"type":"item","text":"kelp 1","tags":["a"]}"#,
            r#"{"type":"item","text":"kelp 1","attributes":{"a":1}}"#,
            r#"{"type":"item","text":"kelp 1","recorded_at":"2024-01-01T00:00:00Z"}"#,
            r#"{"type":"item","text":"kelp 1","recorded_at":"2024-01-02T00:00:00Z"}"#,
            r#"{"type":"item","text":"hidden","tombstoned":true}"#,
            r#"{"type":"item","ref":"a","text":"alpha"}"#,
            r#"{"type":"edge","from":"a","to":"a","relation":"links_to"}"#,
        ]
        .map(str::to_owned),
    );
    let all = lines.len() as u64;
    // A kill leaves a prefix of whole batches.
    let half = write(scratch.path(), "half.jsonl", lines[..200].join("\n"));
    let report = imported(&data, &half, &options);
    assert_eq!(counted(&report), [0, 200, 0, 0], "{report}");
    let file = write(scratch.path(), "all.jsonl", lines.join("\n"));
    let report = imported(&data, &file, &options);
    assert_eq!(counted(&report), [3, all - 203, 1, 200], "{report}");
    let whole = export(&data);
    for again in 0..2 {
        let report = imported(&data, &file, &options);
        assert_eq!(counted(&report), [0, 0, 0, all], "round {again}: {report}");
        assert_eq!((&report["embedded"], &report["tombstones"]), (&json!(0), &json!(0)));
        assert_eq!(export(&data), whole);
    }
    // A duplicate of a line above changes nothing, whatever the distance.
    let twice = write(scratch.path(), "twice.jsonl", [&lines[..], &lines[..]].concat().join("\n"));
    let copy = scratch.path().join("copy");
    let report = imported(&copy, &twice, &options);
    assert_eq!(counted(&report), [3, all - 3, 1, all], "{report}");
    // A superseded text is no longer current: importing it again adds an item.
    let one = write(scratch.path(), "one.jsonl", &lines[7]);
    let old: Value = serde_json::from_str(whole.lines().nth(7).unwrap()).unwrap();
    assert_eq!(old["text"], "kelp 7");
    let newer = json!({"type": "item", "text": "kelp 7, grown", "supersedes": [old["id"]]});
    imported(&data, &write(scratch.path(), "newer.jsonl", newer.to_string()), &options);
    let report = imported(&data, &one, &options);
    assert_eq!(counted(&report), [0, 1, 0, 0], "{report}");
}

/// A source name refers to the source's line, wherever that line is.
#[test]
fn a_source_name_means_the_line_of_the_source() {
    let scratch = scratch();
    let model = quick(scratch.path());
    let options = ["--model", &*model];
    let source = r#"{"type":"source","kind":"web","uri":"u","bytes":7}"#.to_owned();
    let named = r#"{"type":"item","ref":"a","text":"a","source":{"kind":"web","uri":"u"}}"#;
    let between: Vec<String> = (0..200)
        .map(|n| {
            json!({"type": "item", "ref": format!("r{n}"), "text": format!("{n}")}).to_string()
        })
        .collect();
    let near = vec![source.clone(), named.to_owned()];
    let far = [std::slice::from_ref(&source), &between[..], &[named.to_owned()]].concat();
    let below = vec![named.to_owned(), source];
    for (name, lines) in [("near", near), ("far", far), ("below", below)] {
        let data = scratch.path().join(name);
        let file = write(scratch.path(), &format!("{name}.jsonl"), lines.join("\n"));
        let report = imported(&data, &file, &options);
        let all = lines.len() as u64;
        assert_eq!(counted(&report), [1, all - 1, 0, 0], "{name}: {report}");
        let report = imported(&data, &file, &options);
        assert_eq!(counted(&report), [0, 0, 0, all], "{name}: {report}");
        assert_eq!(report["superseded"], 0, "{name}: {report}");
    }
}

/// A line that is imported early, because of a forward reference, also pulls in the lines that it refers to.
#[test]
fn what_a_forward_link_names_comes_with_all_that_it_names() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let (source, edge) = ("src_00000000000000000000000001", "edg_00000000000000000000000002");
    let lines = [
        json!({"type": "tombstone", "target": edge}),
        json!({"type": "edge", "from": "b", "to": "a", "relation": "links_to"}),
        json!({"type": "source", "id": source, "kind": "web", "uri": "u"}),
        json!({"type": "item", "ref": "a", "text": "one"}),
        json!({"type": "item", "ref": "b", "text": "two", "source": {"id": source}}),
        json!({"type": "edge", "id": edge, "from": "a", "to": "b", "relation": "cites"}),
    ];
    let lines = lines.map(|line| line.to_string()).join("\n");
    let file = write(scratch.path(), "drawn.jsonl", lines);
    let report = imported(&data, &file, &["--model", &quick(scratch.path())]);
    assert_eq!((&report["bad_count"], counted(&report)), (&json!(0), [1, 2, 2, 0]), "{report}");
}

#[test]
fn a_source_that_is_refused_is_told_by_the_line_that_named_it() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let item =
        |kind: &str| json!({"type": "item", "text": kind, "source": {"kind": kind, "uri": "u"}});
    let long = "k".repeat(NAME_BYTES_MAX + 1);
    let lines = [item("web"), item(&long)].map(|line| line.to_string()).join("\n");
    let file = write(scratch.path(), "long.jsonl", lines);
    let (code, report, _) = import(&data, &file, &["--model", &quick(scratch.path())]);
    assert_eq!((code, &report["items"], &report["bad_count"]), (Some(1), &json!(1), &json!(1)));
    assert_eq!(report["bad"][0]["line"], 2, "{report}");
    assert!(report["bad"][0]["reason"].as_str().unwrap().starts_with("source.kind"), "{report}");
}

/// A store with erased items that were superseded and had superseded others, in rounds.
fn erased_data(folder: &Path, seed: u64) -> PathBuf {
    let data = folder.join(format!("erased-{seed}"));
    let store = data.join("tenants/local/store");
    fs::create_dir_all(&store).unwrap();
    let store = Store::open(ground::folder(&store, seed), ground::unmerged()).unwrap();
    for round in 0..3 {
        random_store::fill(&store, seed + round, COMMITS / 2, true);
        assert!(store.erase_pending(&NoThrottle).unwrap() > 0, "seed {seed}");
    }
    data
}

/// Chains, current successors and tombstones of every id in an export.
fn chains(data: &Path) -> Vec<String> {
    let disk = FsDisk::open(&data.join("tenants/local/store")).unwrap();
    let snapshot = StoreReader::open(Arc::new(disk)).unwrap().snapshot();
    let mut ids: Vec<ItemId> = Vec::new();
    for record in snapshot.records() {
        match record.unwrap() {
            Record::Item(item, _) => ids.push(item.id),
            Record::Tombstone(stone) => ids.push(ItemId(stone.target)),
            _ => {}
        }
    }
    ids.sort_unstable();
    ids.dedup();
    let told = ids.into_iter().map(|id| {
        let ends = snapshot.current_successors(id).unwrap().addresses;
        let ends: Vec<ItemId> = ends.into_iter().map(|it| snapshot.id(it).unwrap()).collect();
        let members = snapshot.chain(id).unwrap().members.into_iter();
        let members: Vec<_> = members.map(|it| (it.id, it.address.is_none())).collect();
        let status = snapshot.find(id).unwrap().map(|place| snapshot.status(place).unwrap());
        format!("{id} {status:?} {ends:?} {members:?}")
    });
    told.collect()
}

#[test]
fn an_export_of_an_import_with_erased_items_is_the_same() {
    let scratch = scratch();
    let mut gone = 0;
    for seed in [SEED, SEED + 10] {
        let data = erased_data(scratch.path(), seed);
        let whole = export(&data);
        gone += whole.lines().filter(|line| line.contains(r#""gone":true,"supersedes""#)).count();
        let file = write(scratch.path(), "whole.jsonl", &whole);
        let copy = scratch.path().join(format!("copy-{seed}"));
        let dry = imported(&copy, &file, &["--dry-run"]);
        assert_eq!(dry["bad_count"], 0, "{dry}");
        let report = imported(&copy, &file, &["--strict"]);
        assert_eq!((&report["unchanged"], &report["renamed"]), (&json!(0), &json!(0)), "{report}");
        let copied = export(&copy);
        for (number, (found, wanted)) in (1..).zip(copied.lines().zip(whole.lines())) {
            assert_eq!(found, wanted, "seed {seed}, line {number}");
        }
        assert_eq!(copied, whole);
        let again = imported(&copy, &file, &[]);
        assert_eq!(again["unchanged"].as_u64().unwrap(), whole.lines().count() as u64, "{again}");
        assert_eq!(export(&copy), whole, "importing it again changes nothing");
        assert_eq!(chains(&copy), chains(&data), "seed {seed}");
        assert!(run(&copy, &["verify"]).status.success(), "seed {seed}");

        // Lines of erased items may come last; lines that refer to them wait.
        let is_gone = |line: &&str| line.contains(r#""gone":true"#);
        let (last, first): (Vec<&str>, Vec<&str>) = whole.lines().partition(is_gone);
        let text = [first, last].concat().join("\n");
        let file = write(scratch.path(), "late.jsonl", text);
        let late = scratch.path().join(format!("late-{seed}"));
        let report = imported(&late, &file, &[]);
        assert_eq!(report["bad_count"], 0, "{report:#}");
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&export(&late)), sorted(&whole), "seed {seed}");
    }
    assert!(gone > 5, "only {gone} erased items had replaced another");
}

#[test]
fn what_was_erased_is_told_and_never_comes_back() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let id = |last: char| format!("itm_{}{last}", "0".repeat(25));
    let item = |last: char, list: &[String]| {
        json!({"type": "item", "id": id(last), "text": format!("item {last}"), "supersedes": list})
            .to_string()
    };
    let stone = |last: char, more: Value| {
        let mut line = json!({"type": "tombstone", "target": id(last), "by": "officer"});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line.to_string()
    };
    let lines = [
        item('c', &[id('b')]),
        stone('b', json!({"erase": true, "gone": true, "supersedes": [id('a')]})),
        item('a', &[]),
        stone('x', json!({"erase": true})),
        stone('y', json!({"erase": true, "gone": true, "supersedes": [id('z')]})),
        item('d', &[id('y')]),
        stone('w', json!({"gone": true, "supersedes": [id('a')]})),
        item('b', &[]).replace(&id('b'), &id('v')),
    ];
    let file = write(scratch.path(), "mixed.jsonl", lines.join("\n"));
    let (code, report, _) = import(&data, &file, &[]);
    assert_eq!(code, Some(1), "{report}");
    let told = report["bad"].as_array().unwrap().iter();
    let told: Vec<(u64, &str)> =
        told.map(|one| (one["line"].as_u64().unwrap(), one["reason"].as_str().unwrap())).collect();
    let wanted =
        [(4, "no item"), (5, "no item"), (6, "line 5, which was not imported"), (7, "not erased")];
    assert_eq!(told.len(), wanted.len(), "{report:#}");
    for (found, wanted) in told.iter().zip(wanted) {
        assert!(found.0 == wanted.0 && found.1.contains(wanted.1), "{found:?}, {wanted:?}");
    }
    let order: Vec<String> = export(&data)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|row| row.get("text").unwrap_or(&row["type"]).as_str().unwrap().to_owned())
        .collect();
    assert_eq!(order, ["item a", "tombstone", "item c", "item b"]);

    // A line in a later file has the id of an erased item.
    let back = write(scratch.path(), "back.jsonl", item('b', &[]));
    let (code, report, _) = import(&data, &back, &[]);
    assert_eq!((code, &report["items"]), (Some(1), &json!(0)), "{report}");
    assert!(report["bad"][0]["reason"].as_str().unwrap().contains("is taken"), "{report}");
    // If the file marks an item as erased, the store hides and erases its copy.
    let gone = stone('c', json!({"erase": true, "gone": true, "supersedes": [id('b')]}));
    imported(&data, &write(scratch.path(), "gone.jsonl", gone), &[]);
    run_json(&data, &["erase", "--pending"]);
    assert!(!export(&data).contains("item c"));
    assert!(run(&data, &["verify"]).status.success());
}

/// The export exceeds the stream's backlog limit, so the server sends at the client's pace.
#[test]
fn a_long_export_comes_whole_through_a_server() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let line = |n: usize| {
        let text = format!("{n} \u{1f9ed}\n").repeat(8_192);
        let item = json!({"type": "item", "ref": n.to_string(), "text": text, "searchable": false});
        format!("{item}\n")
    };
    let lines: String = (0..100).map(line).collect();
    assert!(lines.len() > 4 * STREAM_BACKLOG_BYTES_MAX, "{} bytes", lines.len());
    let file = write(scratch.path(), "long.jsonl", &lines);
    let service = Service::start(&data, &[]);
    let open = service.ask(&Ask::post("/operator/export", &json!({})));
    assert_eq!(open.status, 401, "only with the operator's bearer");
    let report = imported(&data, &file, &[]);
    assert_eq!(report["items"], 100, "{report}");
    let beside = export(&data);
    assert!(beside.len() > lines.len());
    drop(service);
    assert_eq!(export(&data), beside);
}

#[test]
fn standard_input_and_output_are_a_dash() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let mut child = command(&data, &["import", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = "{\"type\":\"item\",\"text\":\"through a pipe\"}\n";
    child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert!(export(&data).contains("through a pipe"));
    let nowhere = run(&scratch.path().join("nowhere"), &["export"]);
    assert_eq!(nowhere.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("--data"), "says what to do");
    assert!(!scratch.path().join("nowhere").exists(), "an export makes nothing");
}

/// Importing an export in two parts yields the rows of the whole. Only tombstones may differ: those in the second part
/// of rows in the first.
#[test]
fn an_export_is_imported_in_parts() {
    let scratch = scratch();
    let whole = export(&random_data(scratch.path()));
    let lines: Vec<&str> = whole.lines().collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    let data = scratch.path().join("parts");
    for (name, part) in [("part.aa", first), ("part.ab", second)] {
        imported(&data, &write(scratch.path(), name, part.join("\n") + "\n"), &["--strict"]);
    }
    let after = export(&data);
    let rows = |text: &str| -> BTreeSet<String> {
        let is_row = |line: &&str| !line.contains("\"type\":\"tombstone\"");
        text.lines().filter(is_row).map(str::to_owned).collect()
    };
    assert_eq!(rows(&after), rows(&whole));
    let after: BTreeSet<&str> = after.lines().collect();
    let lost: Vec<_> = lines.iter().filter(|line| !after.contains(**line)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

/// Exceeds a pipe's capacity, so an accepted write shows that the command has begun to spool.
const PIPED_BYTES: usize = 1 << 20;

#[test]
fn what_is_piped_into_an_import_is_in_no_file_that_can_stay_behind() {
    let scratch = scratch();
    let (data, temporary) = (scratch.path().join("data"), scratch.path().join("temporary"));
    fs::create_dir(&temporary).unwrap();
    let start = || {
        let mut command = command(&data, &["import", "-", "--json"]);
        command.env("TMPDIR", &temporary).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let left = || fs::read_dir(&temporary).unwrap().count();
    let text = "kept aside ".repeat(PIPED_BYTES / 32);
    let line = |n| format!("{}\n", json!({"type": "item", "ref": format!("r{n}"), "text": text}));
    let mut killed = start();
    let mut input = killed.stdin.take().unwrap();
    (0..4).for_each(|n| input.write_all(line(n).as_bytes()).unwrap());
    assert_eq!(left(), 0, "it has no name while it is filled");
    killed.kill().unwrap();
    killed.wait().unwrap();

    // A server of the same user can read the unnamed file.
    let service = Service::start(&data, &[]);
    let mut whole = start();
    let mut input = whole.stdin.take().unwrap();
    (0..4).for_each(|n| input.write_all(line(n).as_bytes()).unwrap());
    drop(input);
    let output = whole.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["items"], 4, "{report}");
    assert_eq!(left(), 0);
    drop(service);
}

/// A server that accepts an export request and never responds: the command waits with its temporary file open.
#[test]
fn an_export_that_is_told_to_end_leaves_no_file_and_follows_no_link() {
    let scratch = scratch();
    let data = random_data(scratch.path());
    run_json(&data, &["credentials", "show"]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let said = json!({"local": format!("http://{}", silent.local_addr().unwrap())});
    write(&data, "serving.json", said.to_string());
    let folder = data.join("tenants/local/store");
    let store = Store::open(ground::folder(&folder, SEED), ground::unmerged()).unwrap();
    let (target, fresh) = (scratch.path().join("all.jsonl"), scratch.path().join("all.jsonl.new"));
    let asked = ["export", target.to_str().unwrap()];
    for signal in [Signal::TERM, Signal::INT] {
        let mut child = command(&data, &asked)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let connection = silent.accept().unwrap();
        assert_eq!(fs::metadata(&fresh).unwrap().permissions().mode() & 0o777, 0o600);
        let second = run(&data, &asked);
        let why = String::from_utf8_lossy(&second.stderr).into_owned();
        assert_eq!(second.status.code(), Some(3), "{why}");
        assert!(why.contains("another command writes it"), "{why}");
        assert!(fresh.exists(), "the first one's file is left alone");
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let ended = child.wait().unwrap();
        assert_eq!(ended.signal(), Some(signal.as_raw()), "{ended}");
        assert!(!fresh.exists() && !target.exists());
        drop(connection);
    }
    drop(store);
    let other = write(scratch.path(), "other.txt", "not to be written over");
    symlink(&other, &fresh).unwrap();
    assert_eq!(run(&data, &asked).status.code(), Some(3));
    assert_eq!(fs::read_to_string(&other).unwrap(), "not to be written over");
    assert!(fresh.is_symlink() && !target.exists());
}
