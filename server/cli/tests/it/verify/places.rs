//! `recalld verify` of backups and restored data, and with a running server.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use support_wire::mcp_client::McpClient;
use support_wire::service::{Service, run, run_json, scratch, write};

use crate::verify::program::{data_in, export};

/// All entries below a folder: files with their bytes, folders with none.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                found.insert(path.clone(), Vec::new());
                open.push(path);
            } else {
                found.insert(path.clone(), fs::read(path).expect("it can be read"));
            }
        }
    }
    found
}

fn text(path: &Path) -> &str {
    path.to_str().expect("scratch paths are UTF-8")
}

/// Verifies a folder, which must be clean and stay unchanged. Returns the number of ledger entries.
#[track_caller]
fn clean(data: &Path, folder: &Path) -> u64 {
    let before = tree(folder);
    let told = run_json(data, &["verify", text(folder)]);
    assert_eq!((&told["clean"], &told["ledger"]["clean"]), (&json!(true), &json!(true)), "{told}");
    assert!(tree(folder) == before, "nothing is written into {}", folder.display());
    told["ledger"]["entries"].as_u64().expect("a number")
}

#[track_caller]
fn finds(data: &Path, folder: &Path, rule: &str) {
    let output = run(data, &["verify", text(folder)]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(rule), "{rule}: {said}");
}

#[test]
fn backups_and_restored_data_are_checked_with_the_keys_of_both() {
    let scratch = scratch();
    let data = data_in(scratch.path());
    export(&data); // makes the ledger
    let (backup, restored) = (scratch.path().join("backup"), scratch.path().join("restored"));
    run_json(&data, &["backup", text(&backup)]);
    let elsewhere = scratch.path().join("elsewhere");
    let told = run_json(&elsewhere, &["verify", text(&backup)]);
    assert_eq!((&told["backup"]["clean"], &told["backup"]["files"]), (&json!(true), &json!(2)));
    assert!(!elsewhere.exists(), "the data directory is not asked for");
    let entries = clean(&data, &backup);
    assert!(entries > 0);
    let lines = scratch.path().join("lines.jsonl");
    run_json(&data, &["salvage", text(&backup), "--to", text(&lines)]);

    run_json(&restored, &["restore", text(&backup)]);
    assert_eq!(
        clean(&data, &restored),
        entries,
        "before the first start there is no key of its own"
    );
    assert!(!restored.join("keys/signing.key").exists());
    export(&restored); // a new key signs
    assert!(clean(&data, &restored) > entries);
    assert!(run_json(&restored, &["verify"])["ledger"]["checkpoints"].as_u64() > Some(1));
    let next = scratch.path().join("next");
    run_json(&restored, &["backup", text(&next)]);
    clean(&data, &next);

    // Entries from before and after the restore are checked, each with its own key.
    for (key, other) in [("former.json", "signing.key"), ("signing.key", "former.json")] {
        let (key, other) = (restored.join("keys").join(key), restored.join("keys").join(other));
        let kept = fs::read(&key).unwrap();
        fs::remove_file(&key).unwrap();
        finds(&data, &restored, "LED-16");
        assert!(!key.exists() && other.exists());
        let aside = other.with_extension("aside");
        fs::rename(&other, &aside).unwrap();
        let neither = run(&data, &["verify", text(&restored)]);
        let said = String::from_utf8_lossy(&neither.stdout);
        assert_eq!(neither.status.code(), Some(1), "there is nothing to check it with: {said}");
        assert!(said.contains("the store is clean") && said.contains("was not checked"), "{said}");
        fs::rename(&aside, &other).unwrap();
        let mode = fs::metadata(&other).unwrap().permissions();
        fs::write(&key, kept).unwrap();
        fs::set_permissions(&key, mode).unwrap();
    }
    clean(&data, &restored);
}

/// Findings in the store are reported even if the ledger cannot be checked.
#[test]
fn a_ledger_that_cannot_be_checked_hides_nothing_of_the_store() {
    let scratch = scratch();
    let data = data_in(scratch.path());
    export(&data); // makes the ledger
    fs::remove_file(data.join("keys/signing.key")).unwrap();
    let ask = || {
        let output = run(&data, &["verify", "--json"]);
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let told = ask();
    let parts = (&told["store"]["clean"], &told["ledger"]["clean"], &told["ledger"]["checked"]);
    assert_eq!(parts, (&json!(true), &json!(false), &json!(false)), "{told}");
    assert_eq!(told["clean"], false, "{told}");
    let is_segment = |path: &&PathBuf| path.to_string_lossy().contains("segment-");
    let all = tree(&data);
    let segment = all.keys().find(is_segment).unwrap();
    fs::write(segment, &all[segment][..all[segment].len() / 2]).unwrap();
    let told = ask();
    assert!(!told["store"]["findings"].as_array().unwrap().is_empty(), "{told}");
    assert!(told["ledger"]["fault"].as_str().unwrap().contains("signing.key"), "{told}");
    let plain = run(&data, &["verify"]);
    let said = String::from_utf8_lossy(&plain.stdout);
    assert!(said.contains("broken rules") && said.contains("signing.key"), "{said}");
}

#[test]
fn what_is_wrong_with_a_backup_is_told() {
    let scratch = scratch();
    let data = data_in(scratch.path());
    let backup = scratch.path().join("backup");
    run_json(&data, &["backup", text(&backup)]);
    let all = tree(&backup);
    for (part, rule) in [
        ("segment-", "SEG-06"),
        ("ledger-", "BAK-03"),
        ("backups.json", "BAK-03"),
        ("backup.json", "BAK-01"),
    ] {
        let named = |path: &&PathBuf| path.to_string_lossy().contains(part);
        let path = all.keys().find(named).expect("a backup has one");
        let mut bytes = all[path].clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        if part == "backup.json" {
            bytes.truncate(middle);
        }
        fs::write(path, bytes).unwrap();
        finds(&data, &backup, rule);
        fs::write(path, &all[path]).unwrap();
    }
    // A partial copy beside the ledger's volumes is ignored.
    let volume = all.keys().find(|path| path.to_string_lossy().contains("ledger-")).unwrap();
    let name = volume.file_name().unwrap().to_string_lossy();
    fs::write(volume.with_file_name(format!("new.{name}")), b"the first bytes of").unwrap();
    clean(&data, &backup);
    let begun = text(&backup.join("backup.json")).to_owned();
    let said = fs::read_to_string(&begun).unwrap();
    let mut said: Value = serde_json::from_str(&said).unwrap();
    said["made_at"] = Value::Null;
    fs::write(&begun, said.to_string()).unwrap();
    finds(&data, &backup, "BAK-02");
}

/// Interruption points of a repeated backup around a changed file: at each, the backup listed in `backup.json` is
/// complete.
#[test]
fn a_file_that_changes_is_never_missing_from_a_backup() {
    let scratch = scratch();
    let data = data_in(scratch.path());
    let (backup, other) = (scratch.path().join("backup"), scratch.path().join("other"));
    run_json(&data, &["backup", text(&backup)]);
    let listed = backup.join("backups.json");
    let old = fs::read(&listed).unwrap();
    run_json(&data, &["backup", text(&other)]);
    let new = fs::read(data.join("backups.json")).unwrap();
    assert!(old != new, "another backup is known");
    let next = backup.join("next.backups.json");
    fs::write(&next, &new).unwrap(); // before backup.json was written
    clean(&data, &backup);
    run_json(&data, &["backup", text(&backup)]);
    assert!(fs::read(&listed).unwrap() == new && !next.exists());
    fs::write(&next, &new).unwrap(); // after it, and before the file was put in place
    fs::write(&listed, &old).unwrap();
    clean(&data, &backup);
    let restored = scratch.path().join("restored");
    run_json(&restored, &["restore", text(&backup)]);
    assert_eq!(fs::read(restored.join("backups.json")).unwrap(), new);
    run_json(&data, &["backup", text(&backup)]);
    assert!(fs::read(&listed).unwrap() == new && !next.exists());
    clean(&data, &backup);
    fs::remove_file(&listed).unwrap();
    finds(&data, &backup, "BAK-03");
}

const ERASED: usize = 6;

/// Verifies while the server writes, seals, erases and compacts.
fn beside_a_server(durability: &str) {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let line = |n| json!({"type": "item", "ref": format!("e{n}"), "text": format!("erased {n}")});
    let lines: String = (0..ERASED).map(|n| format!("{}\n", line(n))).collect();
    let file = write(scratch.path(), "lines.jsonl", lines);
    run_json(&data, &["import", text(&file)]);
    let ids: Vec<String> = export(&data)
        .iter()
        .filter(|row| row["type"] == "item")
        .map(|row| row["id"].as_str().expect("items have ids").to_owned())
        .collect();
    let service = Service::start(&data, &["--durability", durability]);
    let (written, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (erased, verified) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = McpClient::open(&service);
            while !enough.load(Ordering::Acquire) {
                let n = written.load(Ordering::Acquire);
                client.call("brain_remember", &json!({"text": format!("note number {n}")}));
                written.store(n + 1, Ordering::Release);
            }
        });
        scope.spawn(|| {
            for id in &ids {
                run_json(&data, &["erase", id, "--reason", "asked", "--yes"]);
                run_json(&data, &["compact"]);
                erased.fetch_add(1, Ordering::AcqRel);
            }
        });
        while erased.load(Ordering::Acquire) < ERASED {
            let told = run_json(&data, &["verify"]);
            assert_eq!(told["clean"], true, "{told:#}");
            assert!(told["ledger"]["entries"].as_u64() > Some(0), "{told}");
            verified.fetch_add(1, Ordering::AcqRel);
            let before = written.load(Ordering::Acquire);
            let rows = export(&data);
            let mut texts = rows.iter().filter_map(|row| row["text"].as_str());
            let notes = texts.by_ref().filter(|text| text.starts_with("note number"));
            let notes = notes.enumerate().inspect(|(n, text)| {
                assert_eq!(*text, format!("note number {n}"), "all up to one moment");
            });
            assert!(notes.count() >= before, "{before} were written before it began");
        }
        enough.store(true, Ordering::Release);
    });
    assert!(verified.into_inner() > 1 && written.into_inner() > 1);
    drop(service);
    assert_eq!(run_json(&data, &["verify"])["clean"], true);
}

#[test]
fn beside_a_server_that_syncs_each_write_all_is_clean() {
    beside_a_server("sync");
}

#[test]
fn beside_a_server_that_syncs_at_intervals_all_is_clean() {
    beside_a_server("interval");
}
