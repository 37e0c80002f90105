//! Maintenance of a store through the program: backup, restore and compaction, in-process and through a running server.
//! Erasure has its own file.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use engine::{Batch, Durability, Env, ItemDraft, Options, Store};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use support_wire::kept::{
    answers, assert_fails, assert_gone, documented, erase, exported, files, holding, imported, item,
};
use support_wire::mcp_client::McpClient;
use support_wire::service::{Service, run, run_json, scratch};
use support_wire::wire::Ask;

#[test]
fn a_restored_backup_gives_the_same_answers() {
    let scratch = scratch();
    let data = documented(scratch.path());
    let (backup, restored) = (scratch.path().join("backup"), scratch.path().join("restored"));
    let before = answers(&data);
    let first = run_json(&data, &["backup", backup.to_str().unwrap()]);
    assert!(first["files"].as_u64().unwrap() > 2 && first["reused"] == 0, "{first}");
    assert!(!backup.join("credentials.toml").exists() && !backup.join("keys").exists());
    let again = run_json(&data, &["backup", backup.to_str().unwrap()]);
    assert_eq!(again["id"], first["id"]);
    assert!(again["reused"].as_u64().unwrap() >= 1, "{again}");
    assert!(again["bytes"].as_u64() < first["bytes"].as_u64(), "only what is new: {again}");

    let said = run(&restored, &["restore", backup.to_str().unwrap()]);
    assert_eq!(said.status.code(), Some(0), "{}", String::from_utf8_lossy(&said.stderr));
    let said = String::from_utf8(said.stdout).unwrap();
    let start = format!("recalld serve --data {}\n", restored.display());
    assert!(said.ends_with(&start) && said.contains("new credentials"), "{said}");
    assert_eq!(exported(&restored), exported(&data));
    assert_eq!(answers(&restored), before);
    // The new signing key continues the ledger of the old one, and both are trusted.
    let next = scratch.path().join("next");
    let report = run_json(&restored, &["backup", next.to_str().unwrap()]);
    assert!(report["ledger_entries"].as_u64() > again["ledger_entries"].as_u64(), "{report}");

    let used = files(&restored).len();
    let refused = run(&restored, &["restore", backup.to_str().unwrap()]);
    assert_fails(&refused, 3, &["nothing is overwritten", "--data"]);
    assert_eq!(files(&restored).len(), used);
    let nothing = scratch.path().join("nothing");
    let none = run(&nothing, &["restore", scratch.path().to_str().unwrap()]);
    assert_fails(&none, 2, &["no backup.json"]);
    assert!(!nothing.exists() && !scratch.path().join("nothing.restoring").exists());
}

#[test]
fn a_backup_beside_a_server_can_hold_the_keys() {
    let scratch = scratch();
    let data = documented(scratch.path());
    let (backup, restored) = (scratch.path().join("backup"), scratch.path().join("restored"));
    let service = Service::start(&data, &[]);
    let report = run_json(&data, &["backup", backup.to_str().unwrap(), "--with-keys"]);
    assert_eq!(report["with_keys"], true, "{report}");
    let before = answers(&data);
    drop(service);
    for path in files(&backup) {
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    run_json(&restored, &["restore", backup.to_str().unwrap()]);
    assert_eq!(answers(&restored), before);
    let shown = |data: &Path| run_json(data, &["credentials", "show"]);
    assert_eq!(shown(&restored), shown(&data));

    for wrong in [data.join("inside"), scratch.path().to_owned()] {
        let refused = run(&data, &["backup", wrong.to_str().unwrap()]);
        assert_fails(&refused, 2, &["lies in the data directory, or around it"]);
    }
    let documents = scratch.path().join("documents");
    let refused = run(&data, &["backup", documents.to_str().unwrap()]);
    assert_fails(&refused, 2, &["holds something, but no backup"]);
    let other = scratch.path().join("other");
    let _ids = imported(&other, &[item("a", "of another store")]);
    let refused = run(&other, &["backup", backup.to_str().unwrap()]);
    assert_fails(&refused, 3, &["holds another store", "choose another folder"]);
    assert!(!other.join("backups.json").exists() || holding(&other, "/backup\"").is_empty());
}

#[test]
fn a_backup_is_whole_while_others_write() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let service = Service::start(&data, &[]);
    let (written, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = McpClient::open(&service);
            while !enough.load(Ordering::Acquire) {
                let n = written.load(Ordering::Acquire);
                client.call("brain_remember", &json!({"text": format!("note number {n}")}));
                written.store(n + 1, Ordering::Release);
            }
        });
        let backup = scratch.path().join("backup");
        for round in 0..3 {
            let before = written.load(Ordering::Acquire);
            run_json(&data, &["backup", backup.to_str().unwrap()]);
            let restored = scratch.path().join(format!("restored-{round}"));
            run_json(&restored, &["restore", backup.to_str().unwrap()]);
            let rows = exported(&restored);
            let texts: Vec<&str> = rows.iter().filter_map(|row| row["text"].as_str()).collect();
            let wanted: Vec<String> =
                (0..texts.len()).map(|n| format!("note number {n}")).collect();
            assert_eq!(texts, wanted, "all up to one moment, none after it");
            assert!(texts.len() >= before, "{before} were written before it began");
        }
        enough.store(true, Ordering::Release);
    });
    assert!(written.load(Ordering::Acquire) > 0);
}

#[test]
fn damage_in_a_backup_is_named_and_healed() {
    let scratch = scratch();
    let data = documented(scratch.path());
    let (backup, restored) = (scratch.path().join("backup"), scratch.path().join("restored"));
    run_json(&data, &["backup", backup.to_str().unwrap()]);
    for (part, rule) in [("segment-", "MAN-03"), ("ledger-", "BAK-03"), ("backup.json", "BAK-01")] {
        let named = |path: &&PathBuf| path.to_str().unwrap().contains(part);
        let all = files(&backup);
        let path = all.iter().find(named).unwrap();
        let sound = fs::read(path).unwrap();
        let mut bytes = sound.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        if part == "backup.json" {
            bytes.truncate(middle);
        }
        fs::write(path, &bytes).unwrap();
        let refused = run(&restored, &["restore", backup.to_str().unwrap()]);
        assert_fails(&refused, 3, &[rule, "use another backup"]);
        assert!(!restored.exists(), "{part}");
        if part == "backup.json" {
            fs::write(path, &sound).unwrap();
        } else {
            run_json(&data, &["backup", backup.to_str().unwrap()]);
        }
        run_json(&restored, &["restore", backup.to_str().unwrap()]);
        assert_eq!(exported(&restored), exported(&data), "{part}: the next backup heals it");
        fs::remove_dir_all(&restored).unwrap();
    }
}

/// An existing folder is retained: it may be a mount point, or the target of a link.
#[test]
fn a_backup_is_restored_into_an_empty_folder_that_is_there() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let _ids = imported(&data, &[item("a", "the quincunx zephyrine")]);
    let backup = scratch.path().join("backup");
    run_json(&data, &["backup", backup.to_str().unwrap(), "--with-keys"]);
    let rows = exported(&data);
    let restore = |to: &Path| run(to, &["restore", backup.to_str().unwrap()]);

    let (there, link) = (scratch.path().join("there"), scratch.path().join("link"));
    fs::create_dir(&there).unwrap();
    fs::create_dir(there.join("lost+found")).unwrap();
    symlink(&there, &link).unwrap();
    let before = fs::metadata(&there).unwrap().ino();
    let done = restore(&link);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(fs::metadata(&there).unwrap().ino(), before, "it is the same folder");
    assert!(link.is_symlink() && !there.join("restoring").exists());
    assert_eq!(exported(&there), rows);

    // An interrupted restore is not usable as data, and is not resumed.
    let half = scratch.path().join("half");
    fs::create_dir_all(half.join("restoring/tenants")).unwrap();
    for command in [&["recall", "x"][..], &["credentials", "show"], &["export"]] {
        assert!(run(&half, command).status.code() == Some(3), "{command:?}");
    }
    assert_fails(&run(&half, &["credentials", "show"]), 3, &["cut short", "restore again"]);
    assert_fails(&restore(&half), 3, &["cut short"]);
    assert!(fs::read_dir(&half).unwrap().count() == 1, "nothing was made");

    let nowhere = scratch.path().join("nowhere");
    symlink(scratch.path().join("gone"), &nowhere).unwrap();
    assert_fails(&restore(&nowhere), 3, &["is a link to what is not there"]);
    assert!(nowhere.is_symlink() && !scratch.path().join("nowhere.restoring").exists());
}

/// BAK-07: the backup is rewritten while it is copied.
#[test]
fn what_changes_while_it_is_restored_is_not_restored() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let _ids = imported(&data, &[item("a", "first")]);
    let (backup, restored) = (scratch.path().join("backup"), scratch.path().join("restored"));
    run_json(&data, &["backup", backup.to_str().unwrap()]);
    let file = backup.join("backup.json");
    let before = fs::read(&file).unwrap();
    let mut made: Value = serde_json::from_slice(&before).unwrap();
    made["seq"] = json!(made["seq"].as_u64().unwrap() + 1);
    let told = AtomicUsize::new(0);
    let progress = |_, _, _: &str| {
        told.fetch_add(1, Ordering::SeqCst);
        fs::write(&file, made.to_string()).unwrap();
    };
    let error = recalld_store_admin::restore(&backup, &restored, true, &progress).unwrap_err();
    assert!(told.into_inner() > 0, "it tells of its progress");
    assert!(error.to_string().contains("made anew while it was copied; try again"), "{error}");
    assert!(!restored.exists(), "nothing of it is left");
    fs::write(&file, before).unwrap();
    recalld_store_admin::restore(&backup, &restored, true, &|_, _, _| ()).unwrap();
    assert_eq!(exported(&restored), exported(&data));
}

#[test]
fn a_backup_out_of_reach_is_told_and_tried_again() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let id = imported(&data, &[item("a", "the quincunx zephyrine"), item("b", "the mandrake")]);
    let (backup, away) = (scratch.path().join("backup"), scratch.path().join("away"));
    run_json(&data, &["backup", backup.to_str().unwrap()]);
    fs::rename(&backup, &away).unwrap();
    let part = run(&data, &["erase", &id("a"), "--reason", "asked", "--yes"]);
    assert_fails(&part, 1, &["not gone everywhere", backup.to_str().unwrap(), "--pending"]);
    assert_gone(&data, "quincunx"); // from the store
    assert_fails(&run(&data, &["erase", "--pending"]), 1, &["is the disk mounted"]);

    // Another folder in its place is not mistaken for the backup, and nothing is created there.
    fs::create_dir(&backup).unwrap();
    assert_fails(&run(&data, &["erase", "--pending"]), 1, &["is the disk mounted"]);
    assert!(files(&backup).is_empty());
    fs::remove_dir(&backup).unwrap();
    fs::rename(&away, &backup).unwrap();
    assert!(!holding(&backup, "quincunx").is_empty());
    let service = Service::start(&data, &[]);
    let report = run_json(&data, &["erase", "--pending"]);
    assert_eq!(report["everywhere"], true, "{report}");
    assert_gone(&backup, "quincunx");

    fs::remove_dir_all(&backup).unwrap();
    let part = run(&data, &["erase", &id("b"), "--reason", "asked", "--yes"]);
    assert_fails(&part, 1, &["--forget"]);
    assert_fails(&run(&data, &["backup", "--forget", "/elsewhere"]), 2, &["not a known backup"]);
    run_json(&data, &["backup", "--forget", backup.to_str().unwrap()]);
    assert_eq!(run_json(&data, &["erase", "--pending"])["everywhere"], true);
    drop(service);
}

/// A deleted and recreated backup is one backup, and a present backup cannot be forgotten.
#[test]
fn a_backup_that_takes_the_place_of_another_is_known_alone() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let id = imported(&data, &[item("a", "the quincunx zephyrine"), item("b", "the mandrake")]);
    let (backup, other) = (scratch.path().join("backup"), scratch.path().join("other"));
    let make = |place: &Path| run_json(&data, &["backup", place.to_str().unwrap()]);
    let listed = || {
        let listed = run_json(&data, &["backup", "--list"]);
        let rows = listed["backups"].as_array().unwrap().iter();
        rows.map(|row| (row["path"].clone(), row["seen"].clone(), row["pending"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(make(&backup)["replaced"], 0);
    fs::remove_dir_all(&backup).unwrap();
    assert_eq!(make(&backup)["replaced"], 1);
    assert_eq!(listed(), [(json!(backup), json!("there"), json!(0))]);
    let refused = run(&data, &["backup", "--forget", backup.to_str().unwrap()]);
    assert_fails(&refused, 2, &["is there", "delete the folder first"]);
    let report = erase(&data, &[&id("a")], &[]);
    assert_eq!(report["everywhere"], true, "{report}");
    assert_gone(&backup, "quincunx");

    // Two disks that alternate at one path are two backups, and both are known from then on.
    let away = scratch.path().join("away");
    fs::rename(&backup, &away).unwrap();
    make(&backup);
    let second = scratch.path().join("second");
    fs::rename(&backup, &second).unwrap();
    fs::rename(&away, &backup).unwrap();
    assert_eq!(make(&backup)["replaced"], 0);
    assert_eq!(listed().len(), 2);
    let part = run(&data, &["erase", &id("b"), "--reason", "asked", "--yes"]);
    assert_fails(&part, 1, &["not gone everywhere", "another backup is there now"]);
    assert_gone(&backup, "mandrake");
    let seen = |seen: &str, pending: u64| (json!(backup), json!(seen), json!(pending));
    assert_eq!(listed(), [seen("another", 1), seen("there", 0)]);
    let text = String::from_utf8(run(&data, &["backup", "--list"]).stdout).unwrap();
    assert!(text.contains("another backup is in its place; 1 erased id is"), "{text}");

    // Also through a server: missing backups are forgotten, present ones remain.
    make(&other);
    fs::remove_dir_all(&other).unwrap();
    let service = Service::start(&data, &[]);
    let forgotten = run_json(&data, &["backup", "--forget-missing"]);
    assert_eq!(forgotten, json!({"forgotten": [backup, other]}));
    assert_eq!(listed(), [seen("there", 0)]);
    let again = run(&data, &["backup", "--forget-missing"]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("is in its place"), "{again:?}");
    assert_eq!(run_json(&data, &["erase", "--pending"])["everywhere"], true);
    drop(service);
    assert_fails(&run(&data, &["backup"]), 2, &["DIR"]);
}

/// A backup is no data directory: every command on it fails with a hint and changes nothing.
#[test]
fn nobody_works_in_a_backup() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let id = imported(&data, &[item("a", "the quincunx zephyrine")])("a");
    let backup = scratch.path().join("backup");
    run_json(&data, &["backup", backup.to_str().unwrap()]);
    let tree = |folder: &Path| -> Vec<(PathBuf, Vec<u8>)> {
        files(folder).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    };
    let before = tree(&backup);
    let (lines, next) = (scratch.path().join("lines.jsonl"), scratch.path().join("next"));
    let commands: [&[&str]; 8] = [
        &["serve", "--local", "127.0.0.1:0"],
        &["recall", "quincunx"],
        &["import", lines.to_str().unwrap()],
        &["export"],
        &["compact"],
        &["credentials", "show"],
        &["erase", &id, "--reason", "x", "--yes"],
        &["backup", next.to_str().unwrap()],
    ];
    for command in commands {
        assert_fails(&run(&backup, command), 3, &["is a backup", "recalld restore"]);
        assert!(tree(&backup) == before, "{command:?} changed it");
    }
    let verified = run_json(&backup, &["verify"]);
    assert_eq!((&verified["clean"], &verified["backup"]["clean"]), (&json!(true), &json!(true)));
    assert!(tree(&backup) == before);
}

/// The command spools a pipe before it calls the server, which never opens an endless input.
#[test]
fn lines_are_imported_from_a_pipe() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let fifo = scratch.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let service = Service::start(&data, &[]);
    let job = Ask::post("/operator/import", &json!({"path": fifo}));
    let events = service.ask(&service.signed(job)).events();
    let why = events.last().unwrap()["detail"].as_str().unwrap();
    assert!(why.contains("not a regular file"), "{events:?}");
    let told = std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&fifo, format!("{}\n", item("a", "through a pipe"))).unwrap());
        run_json(&data, &["import", fifo.to_str().unwrap()])
    });
    assert_eq!((&told["items"], &told["bad_count"]), (&json!(1), &json!(0)), "{told}");
    let folder = run(&data, &["import", scratch.path().to_str().unwrap()]);
    assert_fails(&folder, 2, &["is a folder without Markdown notes"]);
    drop(service);
    assert_eq!(exported(&data).iter().filter(|row| row["text"] == "through a pipe").count(), 1);
}

#[test]
fn compaction_goes_to_its_end() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    fs::create_dir(&data).unwrap();
    run_json(&data, &["credentials", "show"]);
    let options =
        Options { durability: Durability::Sync, merge_bytes_max: 0, ..Options::default() };
    let folder = data.join("tenants/local/store");
    let store = Store::open(Env::on_disk(&folder).unwrap(), options).unwrap();
    for n in 0..6 {
        let draft = ItemDraft {
            kind: "note".to_owned(),
            modality: "text".to_owned(),
            text: format!("note number {n}"),
            ..ItemDraft::default()
        };
        store.write(Batch { items: vec![draft], ..Batch::default() }).unwrap();
        store.seal().unwrap();
    }
    drop(store);
    let rows = exported(&data);
    let report = run_json(&data, &["compact"]);
    assert_eq!((&report["segments_before"], &report["segments"]), (&json!(6), &json!(1)));
    assert!(report["bytes"].as_u64() < report["bytes_before"].as_u64(), "{report}");
    assert_eq!(exported(&data), rows);
    let service = Service::start(&data, &[]);
    let again = run(&data, &["compact"]);
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
    let said = String::from_utf8(again.stdout).unwrap();
    assert!(said.contains("segments: 1 before, 1 now") && said.contains("no merge"), "{said}");
    drop(service);
    let nowhere = run(&scratch.path().join("nowhere"), &["compact"]);
    assert_fails(&nowhere, 3, &["is not there", "--data"]);
}
