//! Settings from flags, variables and a file; their reload on SIGHUP; and scheduled backups.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use support_wire::service::{run_json, scratch, write};

use super::launched::Launched;

fn listed(data: &Path) -> Value {
    run_json(data, &["backup", "--list"])
}

fn folders(listed: &Value) -> Vec<&str> {
    let rows = listed["backups"].as_array().unwrap();
    rows.iter().filter_map(|row| row["path"].as_str()).collect()
}

#[test]
fn settings_are_read_again_and_what_takes_a_restart_is_said() {
    let folder = scratch();
    let data = folder.path().join("data");
    let settings = |text: &str| write(folder.path(), "recalld.toml", text);
    let file = settings("[hosted]\naddress = \"127.0.0.1:0\"\n\n[log]\nlevel = \"error\"\n");
    let variables = [("RECALLD_CONFIG", file.to_str().unwrap()), ("RECALLD_CALL_TIME", "7")];
    let service = Launched::start(&data, &["--log-format", "text"], variables);
    assert!(
        service.ready["hosted"].as_str().unwrap().starts_with("http://127.0.0.1:"),
        "by the file"
    );
    let to = folder.path().join("kept");
    let backup = format!("[backup]\nto = {to:?}\n");
    settings(&format!("{backup}[log]\nlevel = \"info\"\n[audit]\nsync = \"always\"\n"));
    service.signal(Signal::HUP);
    service.until_said("the settings were read again changed=\"");
    service.until_said("backup.to, ");
    // The address came from the file, and the next start has none.
    service.until_said("count from the next start settings=\"audit.sync, hosted.address\"");
    // An invalid file changes nothing, and the error has its position.
    settings("[log]\nlevel = \"loud\"\n");
    service.signal(Signal::HUP);
    service.until_said("the new settings cannot be used; the old ones stay why=\"");
    service.until_said("recalld.toml: line 2, column 9: `log.level`");
    // Settings accepted before take effect meanwhile: the first backup is due at once.
    service.until_said("a backup was made on schedule path=");
    let known = listed(&data);
    assert_eq!(known["schedule"]["every"], "day", "{known}");
    assert!(known["schedule"]["next_at"].is_string(), "{known}");
    assert_eq!(folders(&known).len(), 1, "{known}");
    assert_eq!(known["backups"][0]["scheduled"], true, "{known}");
    let page = service.metrics();
    assert!(page.contains("recalld_backups_total{outcome=\"made\"} 1\n"), "{page}");
    assert!(page.contains("recalld_backup_failing 0\n"), "{page}");
    assert_eq!(service.health()["backups"], json!({"state": "ok"}));
    assert!(page.contains("recalld_backup_newest_timestamp_seconds "), "{page}");
    assert_eq!(service.terminate().code(), Some(0));
    // A scheduled backup is verified and restored like any other.
    let made = folders(&known)[0];
    assert_eq!(run_json(&data, &["verify", made])["clean"], true);
    let restored = folder.path().join("restored");
    run_json(&restored, &["restore", made]);
    assert!(run_json(&restored, &["recall", "anything"])["items"].is_array());
}

#[test]
fn a_backup_on_schedule_that_cannot_be_made_is_said_and_the_doctor_tells() {
    let folder = scratch();
    let data = folder.path().join("data");
    // A file is in place of the folder.
    let to = write(folder.path(), "kept", "no folder");
    let wanted = format!("backup.to={}", to.display());
    let service = Launched::start(&data, &["--set", &wanted], []);
    service.until_said("error: no backup was made on schedule why=");
    let page = service.metrics();
    assert!(page.contains("recalld_backup_failing 1\n"), "{page}");
    assert!(page.contains("recalld_backup_overdue 0\n"), "{page}");
    let health = service.health();
    assert_eq!(health["backups"], json!({"state": "failing"}), "{health}");
    assert_eq!(health["status"], "ok", "what is asked is answered all the same");
    let known = listed(&data);
    assert!(known["schedule"]["failed_why"].as_str().unwrap().contains("kept"), "{known}");
    let doctor = support_wire::service::command(&data, &["doctor", "--json"]).output().unwrap();
    let found: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let found = found["findings"].as_array().unwrap();
    let backups = found.iter().find(|one| one["name"] == "backups").unwrap();
    assert_eq!(backups["state"], "fail", "{backups}");
    assert_eq!(doctor.status.code(), Some(1));
    drop(service);
    assert_eq!(fs::read_to_string(&to).unwrap(), "no folder");
}
