//! Data directories with stored contents, and checks of their files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::documents;
use crate::service::{run, run_json, write};

/// Questions that the documents answer.
const QUESTIONS: [&str; 3] =
    ["when may the keeper's boat cross the reef?", "diaphone compressor", "rule of twelfths"];

/// Ids that each of the three questions finds, in order.
pub fn answers(data: &Path) -> Vec<Vec<String>> {
    let ids = |question: &&str| {
        let answer = run_json(data, &["recall", question]);
        let items = answer["items"].as_array().unwrap();
        items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    };
    QUESTIONS.iter().map(ids).collect()
}

/// Makes a data directory with documents in it.
pub fn documented(scratch: &Path) -> PathBuf {
    let (data, folder) = (scratch.join("data"), scratch.join("documents"));
    documents::write_all(&folder);
    run_json(&data, &["ingest", folder.to_str().unwrap()]);
    data
}

/// Imports lines, and returns a lookup of their ids by ref.
pub fn imported(data: &Path, lines: &[Value]) -> impl Fn(&str) -> String + use<> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let file = write(data.parent().unwrap(), "lines.jsonl", text);
    run_json(data, &["import", file.to_str().unwrap()]);
    let rows = exported(data);
    move |reference| {
        let row = rows.iter().find(|row| row["ref"] == reference).unwrap();
        row["id"].as_str().unwrap().to_owned()
    }
}

/// Returns every line of an export.
pub fn exported(data: &Path) -> Vec<Value> {
    let output = run(data, &["export"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Makes the import line of an item.
pub fn item(reference: &str, text: &str) -> Value {
    json!({"type": "item", "ref": reference, "title": format!("About {reference}"), "text": text})
}

/// Files below a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// Files below a folder that contain these bytes.
pub fn holding(folder: &Path, needle: &str) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap();
        bytes.windows(needle.len()).any(|window| window.eq_ignore_ascii_case(needle.as_bytes()))
    };
    files(folder).into_iter().filter(holds).collect()
}

/// Asserts that no file below a folder contains these bytes.
#[track_caller]
pub fn assert_gone(folder: &Path, needle: &str) {
    let found = holding(folder, needle);
    assert!(found.is_empty(), "{needle} is still in {found:?}");
}

/// Asserts the exit code, and each word in standard error.
#[track_caller]
pub fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

/// Erases items, and returns the report.
pub fn erase(data: &Path, ids: &[&str], more: &[&str]) -> Value {
    let arguments = [&["erase"], ids, &["--reason", "asked to be forgotten", "--yes"], more];
    run_json(data, &arguments.concat())
}
