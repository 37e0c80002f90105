//! The ledgers of two nodes of one workspace over a shared folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde_json::Value;
use support_wire::service::{Service, run, run_json, scratch};

/// Every file below a folder.
fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, into) } else { into.push(path) }
    }
}

fn ledgers(verified: &Value) -> &Vec<Value> {
    verified["ledgers"].as_array().unwrap()
}

#[test]
fn entries_of_writes_survive_their_machine_and_those_of_a_replica_come_too() {
    let scratch = scratch();
    let at = |name: &str| scratch.path().join(name);
    let bucket = at("bucket");
    fs::create_dir(&bucket).unwrap();
    let address = format!("file://{}", bucket.display());
    let (one, two) = (at("one"), at("two"));

    let writer = Service::start(&one, &["--remote", &address]);
    let said = "Staging runs in Stockholm.";
    run_json(&one, &["remember", said, "--kind", "decision"]);
    // A kill right away, so that no shutdown work is done.
    writer.kill();
    let verified = run_json(&at("none"), &["remote", "verify", &address, "--bytes"]);
    let [ledger] = ledgers(&verified).as_slice() else { panic!("{verified}") };
    assert!(ledger["entries"].as_u64() >= Some(1) && ledger["finding"].is_null(), "{ledger}");

    let replica = Service::start(&two, &["--replica-of", &address]);
    run_json(&two, &["recall", "where does staging run?"]);
    assert!(replica.terminate().success());
    let restored = at("restored");
    let told = run_json(&restored, &["remote", "restore", &address]);
    assert_eq!(told["ledgers"], 2, "{told}");
    let mut tools = Vec::new();
    for entry in fs::read_dir(restored.join("tenants/local/ledgers")).unwrap() {
        let folder = entry.unwrap().path();
        let folder = folder.to_str().unwrap();
        let of =
            |data: &Path| run(data, &["ledger", "verify", "--folder", folder]).status.success();
        // The leader was killed before it signed anything.
        let is_of_replica = folder.contains(fs::read_to_string(two.join("node")).unwrap().trim());
        assert_eq!((of(&one), of(&two)), (!is_of_replica, true), "{folder}");
        let shown = run(&one, &["ledger", "show", "--folder", folder, "--last", "100"]);
        tools.push(String::from_utf8(shown.stdout).unwrap());
    }
    assert!(tools.iter().any(|text| text.contains("remember")), "{tools:?}");
    assert!(tools.iter().any(|text| text.contains("recall")), "{tools:?}");

    // A truncated ledger is detected.
    let mut pieces = Vec::new();
    files(&bucket.join("t/local/ledger"), &mut pieces);
    pieces.sort();
    let piece = File::options().write(true).open(&pieces[0]).unwrap();
    piece.set_len(piece.metadata().unwrap().len() - 1).unwrap();
    let found = run(&at("none"), &["remote", "verify", &address, "--bytes"]);
    let text = String::from_utf8(found.stdout).unwrap();
    assert!(!found.status.success() && text.contains("REM-80"), "{text}");
}
