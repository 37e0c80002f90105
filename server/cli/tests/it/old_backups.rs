//! Backups from before tenants: `backup.json` of version 1, without `workspaces`. The tests write them as the former
//! build did. Backups of version 1 are still restorable, and a restored data directory accepts tenants.

use std::fs;
use std::path::{Path, PathBuf};
use support_wire::tree::workspace;

use engine::ledger::{Decision, EntryDraft, Ledger, LedgerOptions, Outcome};
use recalld_auth::Signer;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support_server::house::House;
use support_wire::kept::{assert_fails, exported, files};
use support_wire::service::{Service, run, run_json, scratch};

const ID: &str = "00112233445566778899aabbccddeeff";
const MADE_AT: &str = "2026-10-01T09:00:00.000000Z";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Member names of a JSON object.
fn names(object: &Value) -> Vec<String> {
    object.as_object().unwrap().keys().cloned().collect()
}

/// Writes a manifest of version 1 over these files, with the members of that version.
fn catalogue(backup: &Path, seq: u64, public_key: &[u8], listed: &[&str]) {
    let row = |path: &&str| {
        let bytes = fs::read(backup.join(path)).unwrap();
        json!({"path": path, "bytes": bytes.len(), "sha256": hex(&Sha256::digest(&bytes))})
    };
    let said = json!({
        "version": 1, "id": ID, "made_at": MADE_AT, "seq": seq, "with_keys": false,
        "public_keys": [hex(public_key)], "files": listed.iter().map(row).collect::<Vec<_>>(),
    });
    fs::write(backup.join("backup.json"), format!("{said:#}\n")).unwrap();
}

/// A backup of a store of format version 1. Returns the number of ledger entries and the name of the ledger's file.
fn old_backup(backup: &Path) -> (u64, String) {
    let store = backup.join("tenants/local/store");
    fs::create_dir_all(&store).unwrap();
    let golden = workspace().join("format-spec/vectors/v1-small");
    for file in files(&golden) {
        fs::copy(&file, store.join(file.file_name().unwrap())).unwrap();
    }
    let signer = Signer::from_seed(&[7; 32]);
    let folder = backup.join("tenants/local/ledger");
    let tenant = Sha256::digest(b"local").into();
    let with = LedgerOptions { tenant, signer: Box::new(signer.clone()), anchor: None };
    let mut ledger = Ledger::open(&folder, with).unwrap();
    let entry = |seq| EntryDraft {
        at_micros: seq,
        receipt: [9; 16],
        tool: "recalld ingest",
        principal: "operator",
        decision: Decision::Allow,
        rule: "operator",
        arguments: [3; 32],
        touched: &[],
        outcome: Outcome::Done,
    };
    (1..=3).for_each(|seq| {
        ledger.append(&entry(seq)).unwrap();
    });
    ledger.close(4).unwrap();
    let log = "tenants/local/ledger/ledger-00000000000000000001.log";
    let known = json!({"backups": [{"id": ID, "path": text(backup), "pending": []}]});
    fs::write(backup.join("backups.json"), format!("{known:#}\n")).unwrap();
    catalogue(backup, 6, &signer.public(), &[log, "backups.json"]);
    (3, log.to_owned())
}

#[test]
fn a_backup_of_version_1_restores_with_a_store_of_version_1() {
    let scratch = scratch();
    let (backup, data) = (scratch.path().join("backup"), scratch.path().join("data"));
    let (entries, log) = old_backup(&backup);
    let verified = run_json(&data, &["verify", text(&backup)]);
    assert_eq!(
        (&verified["clean"], &verified["workspaces"]),
        (&json!(true), &json!([])),
        "{verified}"
    );
    let report = run_json(&data, &["restore", text(&backup)]);
    let told = ["workspaces", "ledger_entries", "with_keys"].map(|name| report[name].clone());
    assert_eq!(told, [json!(1), json!(entries), json!(false)], "{report}");
    assert_eq!(report["made_at"], MADE_AT);
    let lines = exported(&data);
    let of_kind = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    let counts = ["item", "edge", "source", "tombstone"].map(of_kind);
    assert_eq!(counts, [9, 3, 2, 2], "what the golden store shows: {lines:?}");
    assert_eq!(report["items"], 8, "one of them is tombstoned");
    // The restored directory has no tenants yet, and new ones can be created as usual.
    assert!(!data.join("control.redb").exists());
    assert_eq!(run_json(&data, &["tenant", "list"])["tenants"], json!([]));
    run_json(&data, &["tenant", "create", "acme", "--plan", "team"]);
    let shown = run(&data, &["ledger", "show", "--json", "--last", "100"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert_eq!(shown.lines().filter(|line| line.contains("recalld ingest")).count(), 3, "{shown}");
    // The old ledger continues under a new key, and both keys are trusted.
    assert_eq!(run_json(&data, &["ledger", "verify", "--all"])["ok"], true);
    // If one bit of the ledger differs, nothing is restored.
    let whole = fs::read(backup.join(&log)).unwrap();
    let mut spoilt = whole.clone();
    spoilt[whole.len() / 2] ^= 1;
    fs::write(backup.join(&log), spoilt).unwrap();
    let elsewhere = scratch.path().join("elsewhere");
    assert_fails(&run(&elsewhere, &["restore", text(&backup)]), 3, &["BAK-03"]);
    assert!(!elsewhere.exists());
}

#[test]
fn what_an_old_backup_brought_back_takes_tenants_and_has_backups_of_version_2() {
    let house = House::quick();
    let place = |name: &str| -> PathBuf { house.beside(name) };
    let (old, data, again) = (place("old"), place("restored"), place("again"));
    // Without tenants, today's backup has the same members and files as one of the former build.
    let before = place("before");
    let note = place("lines.jsonl");
    fs::write(
        &note,
        "{\"type\":\"item\",\"ref\":\"a\",\"text\":\"The lamp oil is in the cellar.\"}\n",
    )
    .unwrap();
    let model = place("model");
    run_json(&before, &["import", text(&note), "--model", text(&model)]);
    run_json(&before, &["backup", text(&old)]);
    let catalogued = fs::read(old.join("backup.json")).unwrap();
    let said: Value = serde_json::from_slice(&catalogued).unwrap();
    let members = ["files", "id", "made_at", "public_keys", "seq", "version", "with_keys"];
    assert_eq!((names(&said), &said["version"]), (members.map(str::to_owned).to_vec(), &json!(1)));
    assert!(!old.join("control.redb").exists());
    let rows = exported(&before);
    run_json(&data, &["restore", text(&old)]);
    assert_eq!(exported(&data), rows);
    run_json(&data, &["tenant", "create", "acme", "--plan", "team"]);
    let served = Service::start(&data, &["--hosted", "127.0.0.1:0", "--model", text(&model)]);
    let issued = run_json(&data, &["key", "issue", "acme", "--kind", "bearer", "--name", "ada"]);
    let bearer = issued["secret"].as_str().unwrap();
    support_server::house::given(
        &served,
        bearer,
        "brain_remember",
        &json!({"text": "Of acme alone."}),
    );
    // A backup into the former folder is accepted: it belongs to the same store.
    let made = run_json(&data, &["backup", text(&old)]);
    assert_eq!(made["workspaces"], 2, "{made}");
    assert!(served.terminate().success());
    let said: Value = serde_json::from_slice(&fs::read(old.join("backup.json")).unwrap()).unwrap();
    assert_eq!((&said["version"], &said["workspaces"][0]["name"]), (&json!(2), &json!("acme")));
    let report = run_json(&again, &["restore", text(&old)]);
    assert_eq!(report["workspaces"], 2, "{report}");
    assert_eq!(exported(&again), rows);
    assert_eq!(run_json(&again, &["ledger", "verify", "--all"])["ok"], true);
}
