//! `recalld eval`: its dataset layouts, its metrics on sets with known results, and its errors.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use support_wire::service::{binary, scratch, write};
use support_wire::tiny_model::Tiny;

/// Makes a tiny model and a ranked set in a folder: each query has one word of its document.
fn scene(folder: &Path) {
    Tiny::new(1, 16).write(folder, "model");
    let mut corpus = String::new();
    for (name, text) in [("a", "razorbills"), ("b", "guillemots"), ("c", "puffins"), ("d", "")] {
        let title = if text.is_empty() { "kittiwakes" } else { "" };
        corpus += &format!("{}\n", json!({"_id": name, "title": title, "text": text}));
    }
    let set = folder.join("set");
    write(&set, "corpus.jsonl", corpus);
    let mut queries = String::new();
    for (name, text) in [("1", "guillemots"), ("2", "kittiwakes"), ("3", "never judged")] {
        queries += &format!("{}\n", json!({"_id": name, "text": text}));
    }
    write(&set, "queries.jsonl", queries);
    write(&set, "qrels/test.tsv", "query-id\tcorpus-id\tscore\n1\tb\t1\n2\td\t2\n2\ta\t0\n");
}

fn eval(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.current_dir(folder).arg("eval").args(arguments).args(["--model", "model"]);
    command.env("RECALLD_CACHE", folder.join("cache")).env("TMPDIR", folder.join("tmp"));
    fs::create_dir_all(folder.join("tmp")).unwrap();
    command.stdin(Stdio::null()).output().unwrap()
}

fn report(folder: &Path, arguments: &[&str]) -> Value {
    let output = eval(folder, &[arguments, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn assert_refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(output.stdout.is_empty());
    for word in words {
        assert!(said.contains(word), "{word} in {said}");
    }
}

#[test]
fn a_ranked_set_is_measured_on_every_lane() {
    let scratch = scratch();
    let folder = scratch.path();
    scene(folder);
    for lane in ["words", "governed"] {
        let report = report(folder, &["set", "--lane", lane]);
        assert_eq!((&report["lane"], &report["documents"]), (&json!(lane), &json!(4)), "{report}");
        assert_eq!((&report["questions"], &report["unanswered"]), (&json!(2), &json!(0)));
        for measure in ["ndcg_at_10", "recall_at_10", "mrr_at_10"] {
            assert_eq!(report[measure], 1.0, "{measure} of {report}");
        }
        assert!(report["latency_ms"]["p99"].as_f64().unwrap() > 0.0, "{report}");
    }
    assert_eq!(report(folder, &["set", "--lane", "meaning"])["recall_at_10"], 1.0);
    assert_eq!(fs::read_dir(folder.join("tmp")).unwrap().count(), 0, "nothing is left behind");
    let one = report(folder, &["set", "--limit", "1"]);
    assert_eq!(one["questions"], 1, "{one}");
    let person = eval(folder, &["set", "--lane", "words"]);
    let person = String::from_utf8(person.stdout).unwrap();
    assert!(person.contains("nDCG@10        1.0000\n"), "{person}");
}

#[test]
fn a_kept_store_is_used_again_and_only_for_its_documents() {
    let scratch = scratch();
    let folder = scratch.path();
    scene(folder);
    let first = report(folder, &["set", "--store", "kept"]);
    let again = report(folder, &["set", "--store", "kept"]);
    assert_eq!(first["ndcg_at_10"], again["ndcg_at_10"]);
    assert_eq!(again["documents"], 4, "nothing was imported twice");
    let corpus = fs::read_to_string(folder.join("set/corpus.jsonl")).unwrap();
    write(&folder.join("set"), "corpus.jsonl", corpus.replace("puffins", "auks"));
    assert_refused(&eval(folder, &["set", "--store", "kept"]), &["kept", "another data set"]);
    write(&folder.join("mine"), "letter.txt", "not yours");
    assert_refused(&eval(folder, &["set", "--store", "mine"]), &["mine", "not empty"]);
    assert_refused(&eval(folder, &["set", "--data", "mine"]), &["--data", "--store"]);
    assert_eq!(fs::read_to_string(folder.join("mine/letter.txt")).unwrap(), "not yours");
}

/// Makes a supersession set in `versions`.
fn versions(folder: &Path) {
    let set = folder.join("versions");
    let documents = [(1, "Old ways"), (2, "Newer habits"), (3, "Something else")];
    let lines = documents.map(|(id, title)| json!({"id": id, "title": title}).to_string());
    write(&set, "peps.jsonl", lines.join("\n"));
    let relations = json!({"supersession": [{"old": 1, "new": 2}]});
    write(&set, "relations.json", relations.to_string());
    let asked = json!({"query": "Old ways", "stale": [1], "current": [2]});
    write(&set, "supersession_queries.jsonl", format!("{asked}\n"));
}

#[test]
fn a_kept_store_is_of_its_relations_and_its_layout_too() {
    let scratch = scratch();
    let folder = scratch.path();
    scene(folder);
    versions(folder);
    let ask = || eval(folder, &["versions", "--store", "kept", "--lane", "words"]);
    assert!(ask().status.success());
    let relations = folder.join("versions/relations.json");
    let before = fs::read_to_string(&relations).unwrap();
    fs::write(&relations, before.replace("\"new\":2", "\"new\":3")).unwrap();
    assert_refused(&ask(), &["kept", "other relations"]);
    fs::write(&relations, before).unwrap();
    assert!(ask().status.success(), "it was left as it is");
    // A ranked set of these documents, in which nothing is superseded.
    let set = folder.join("versions");
    fs::remove_file(set.join("supersession_queries.jsonl")).unwrap();
    write(&set, "queries.jsonl", "{\"_id\": \"1\", \"text\": \"Old ways\"}\n");
    write(&set, "qrels/test.tsv", "1\t1\t1\n");
    assert_refused(&ask(), &["kept", "choose another folder"]);
}

#[test]
fn the_time_of_the_questions_is_given_and_told() {
    let scratch = scratch();
    let folder = scratch.path();
    scene(folder);
    let first = report(folder, &["set", "--lane", "words"]);
    assert_eq!(first["now"], "2026-01-01T00:00:00Z", "{first}");
    let then = report(folder, &["set", "--lane", "words", "--now", "1999-12-31T22:00:00+02:00"]);
    assert_eq!(then["now"], "1999-12-31T20:00:00Z", "{then}");
    let wrong = eval(folder, &["set", "--now", "yesterday"]);
    assert_refused(&wrong, &["--now", "RFC 3339"]);
}

#[test]
fn a_supersession_set_is_measured() {
    let scratch = scratch();
    let folder = scratch.path();
    scene(folder);
    versions(folder);
    write(folder, "foreign.jsonl", "{\"query\": \"zzz qqq\"}\n{\"text\": \"xxx yyy\"}\n");
    for lane in ["words", "governed"] {
        let report = report(folder, &["versions", "--lane", lane, "--foreign", "foreign.jsonl"]);
        assert_eq!(report["current_first"], 1, "{report}");
        assert_eq!((&report["stale_above"], &report["stale_reachable"]), (&json!(0), &json!(1)));
        assert_eq!(report["foreign"]["questions"], 2, "{report}");
    }
}

#[test]
fn what_breaks_a_rule_is_named_by_file_and_line() {
    let scratch = scratch();
    let folder = scratch.path();
    scene(folder);
    assert_refused(&eval(folder, &["nowhere"]), &["nowhere", "not a folder"]);
    assert_refused(&eval(folder, &["model"]), &["qrels/test.tsv", "No such file"]);
    assert_refused(&eval(folder, &["set", "--split", "dev"]), &["qrels/dev.tsv"]);
    for (file, text, words) in [
        ("qrels/test.tsv", "q\td\ts\n1\tb\n", &["test.tsv, line 2", "2 fields"][..]),
        ("qrels/test.tsv", "q\td\ts\n1\tb\tgood\n", &["line 2", "`good` is no grade"]),
        ("qrels/test.tsv", "q\td\ts\n9\tb\t1\n", &["queries.jsonl", "question 9"]),
        ("qrels/test.tsv", "q\td\ts\n", &["test.tsv", "no judgments"]),
        ("queries.jsonl", "{\"_id\": \"1\"}\n", &["queries.jsonl, line 1", "question"]),
        ("queries.jsonl", "{\"_id\": \"1\"\n", &["queries.jsonl, line 1", "EOF"]),
        (
            "corpus.jsonl",
            "\n{\"_id\": \"1\"}\n",
            &["corpus.jsonl, line 2", "neither title nor text"],
        ),
        ("corpus.jsonl", "[1]\n", &["corpus.jsonl, line 1", "object"]),
    ] {
        let path = folder.join("set").join(file);
        let before = fs::read_to_string(&path).unwrap();
        fs::write(&path, text).unwrap();
        assert_refused(&eval(folder, &["set"]), words);
        fs::write(&path, before).unwrap();
    }
    assert!(report(folder, &["set", "--lane", "words"])["questions"] == 2, "all was put back");
}
