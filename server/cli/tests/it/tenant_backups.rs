//! Backups of a data directory with tenants: every workspace's store, ledger and key, and the metastore, as of one
//! moment. Made with and without a running server; after a restore, the same credentials are valid.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use recalld_metastore::Kind;
use serde_json::{Value, json};
use support_server::house::{House, SCOPES, Served};
use support_wire::service::{Service, run, run_json};
use support_wire::wire::{self, Ask};

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn recalls(served: &Served, bearer: &str, word: &str) -> bool {
    let asked = json!({"query": "Where is the lamp oil?"});
    served.given(bearer, "brain_recall", &asked).to_string().contains(word)
}

fn remember(served: &Served, bearer: &str, text: &str) {
    served.given(bearer, "brain_remember", &json!({"text": text}));
}

/// The status of a request for an access token.
fn token(served: &Served, key: &str) -> u16 {
    let body = format!("grant_type=client_credentials&client_id=acme&client_secret={key}");
    let ask = Ask::new("POST", "/token").body(body.into_bytes());
    let ask = ask.header("Content-Type", "application/x-www-form-urlencoded");
    wire::ask(served.service.hosted(), &ask).status
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn restored(backup: &Path, data: &Path) -> Value {
    run_json(data, &["restore", &text(backup)])
}

#[test]
fn a_backup_beside_a_server_brings_every_workspace_back() {
    let house = House::quick();
    let (acme, globex) = (house.tenant("acme", "team"), house.tenant("globex", "team"));
    let late = house.tenant("late", "team");
    let once = house.bearer("acme", Kind::Once, &SCOPES);
    let workspace = house.bearer("acme", Kind::Workspace, &SCOPES);
    let (backup, bare) = (house.beside("backup"), house.beside("bare"));
    let served = house.run(&[]);
    let data = served.service.data().to_owned();
    assert_eq!(token(&served, &workspace), 200);
    remember(&served, &acme, "The lamp oil of acme is in the cellar.");
    remember(&served, &globex, "The lamp oil of globex is in the loft.");
    remember(&served, &late, "The lamp oil of the late ones is gone.");
    let made = run_json(&data, &["backup", &text(&backup), "--with-keys"]);
    assert_eq!(made["workspaces"], 4, "{made}");
    let verified = run_json(&data, &["verify", &text(&backup)]);
    let names: Vec<&str> = verified["workspaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["workspace"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["acme", "globex", "late"]);
    // A repeat copies little. The store of a workspace deleted meanwhile is removed from the backup.
    remember(&served, &acme, "The lamp oil of acme was moved to the shed.");
    run_json(&data, &["tenant", "delete", "late", "--confirm", "late"]);
    assert!(backup.join("tenants/late/store").is_dir());
    let again = run_json(&data, &["backup", &text(&backup), "--with-keys"]);
    assert!(again["reused"].as_u64().unwrap() > 0, "{again}");
    assert!(!backup.join("tenants/late/store").exists(), "the store of a deleted workspace");
    assert!(backup.join("tenants/late/ledger").is_dir(), "its ledger stays");
    run_json(&data, &["backup", &text(&bare)]);
    for file in files(&backup).iter().chain(&files(&bare)) {
        let mode = fs::metadata(file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
    // A backup without keys contains no signing key of ledgers or access tokens. No backup contains a credential.
    assert!(!bare.join("tenants/acme/keys/signing.key").exists());
    for file in files(&backup) {
        let bytes = fs::read(&file).unwrap();
        for secret in [&acme, &globex, &once] {
            let is_there = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!is_there, "{}", file.display());
        }
    }

    // From here on only the backup exists.
    let elsewhere = served.beside("restored");
    let served = served.moved_to(&elsewhere, |service: Service, to| {
        assert!(service.terminate().success());
        restored(&backup, to);
    });
    assert!(recalls(&served, &acme, "shed") && recalls(&served, &acme, "cellar"));
    assert!(recalls(&served, &globex, "loft") && !recalls(&served, &globex, "shed"));
    assert_eq!(served.call(&late, "brain_recall", &json!({"query": "x"})).status, 401);
    remember(&served, &globex, "The lamp oil of globex is back.");
    assert!(recalls(&served, &globex, "is back"));
    assert_eq!(run_json(&elsewhere, &["ledger", "verify", "--all"])["ok"], true);
    let shown = run(&elsewhere, &["ledger", "show", "--workspace", "acme", "--json"]);
    assert!(String::from_utf8(shown.stdout).unwrap().contains("brain_remember"));
    // Keys are valid, except one-time keys.
    assert_eq!(token(&served, &workspace), 200);
    let listed = run_json(&elsewhere, &["key", "list", "acme"]);
    let of_kind = |kind: &str| {
        let mut keys = listed["keys"].as_array().unwrap().iter();
        keys.find(|key| key["kind"] == kind).unwrap()["state"].clone()
    };
    assert_eq!([of_kind("once"), of_kind("workspace")], ["revoked", "active"], "{listed}");
    let bare_place = served.beside("restored-bare");
    let served = served.moved_to(&bare_place, |service: Service, to| {
        assert!(service.terminate().success());
        restored(&bare, to);
    });
    // Credentials are stored as hashes and remain valid; ledgers continue under new keys and verify.
    assert!(recalls(&served, &acme, "shed"));
    assert_eq!(run_json(&bare_place, &["ledger", "verify", "--all"])["ok"], true);
    let tokens = run_json(&bare_place, &["key", "rotate-signing"]);
    assert!(tokens["published"].as_u64().unwrap() <= 2, "{tokens}");
}

#[test]
fn a_backup_without_a_server_has_all_workspaces_too_and_damage_in_one_is_told() {
    let house = House::quick();
    let acme = house.tenant("acme", "team");
    house.tenant("untouched", "team");
    let backup = house.beside("backup");
    let served = house.run(&[]);
    let data = served.service.data().to_owned();
    remember(&served, &acme, "The lamp oil of acme is in the cellar.");
    assert!(served.service.terminate().success());
    let made = run_json(&data, &["backup", &text(&backup)]);
    assert_eq!(made["workspaces"], 3, "{made}");
    for place in [&data, &backup] {
        let verified = run_json(&data, &["verify", &text(place)]);
        assert_eq!(verified["workspaces"].as_array().map(Vec::len), Some(2), "{verified}");
    }
    let store = backup.join("tenants/acme/store");
    let segment = files(&store).into_iter().max_by_key(|file| fs::metadata(file).unwrap().len());
    let segment = segment.unwrap();
    let whole = fs::read(&segment).unwrap();
    let mut spoilt = whole.clone();
    spoilt[whole.len() / 2] ^= 1;
    fs::write(&segment, &spoilt).unwrap();
    let verified = run(&data, &["verify", &text(&backup), "--json"]);
    assert_eq!(verified.status.code(), Some(1));
    let elsewhere = data.with_file_name("restored");
    let refused = run(&elsewhere, &["restore", &text(&backup)]);
    assert!(!refused.status.success(), "a damaged workspace is not restored");
    assert!(!elsewhere.exists());
    fs::write(&segment, &whole).unwrap();
    let control = backup.join("control.redb");
    fs::remove_file(&control).unwrap();
    assert!(!run(&elsewhere, &["restore", &text(&backup)]).status.success());
    run_json(&data, &["backup", &text(&backup)]);
    let report = restored(&backup, &elsewhere);
    assert_eq!(report["workspaces"], 3, "{report}");
    let mode = fs::metadata(elsewhere.join("control.redb")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
