//! Scheduled backups of a server, with a simulated time: due times, retention, protected folders, failures, and erasure
//! in the retained backups.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::Micros;
use recalld_cli::app;
use recalld_cli::app::{Settings, Started};
use recalld_common::cancel::CancellationToken;
use recalld_common::names::parse_time;
use recalld_config::Config;
use recalld_embedding::model::Silent;
use recalld_store_admin::{Standing, ToldSchedule, check_backup};
use serde_json::Value;
use support_server::settings::settings;
use support_wire::kept::{
    assert_fails, assert_gone, erase, exported, files, holding, imported, item,
};
use support_wire::service::{run, run_json, scratch};

/// A data directory with two items, and the folder of its scheduled backups.
struct Desk {
    scratch: tempfile::TempDir,
    data: PathBuf,
    to: PathBuf,
}

impl Desk {
    fn new() -> Self {
        let scratch = scratch();
        let (data, to) = (scratch.path().join("data"), scratch.path().join("kept"));
        Self { scratch, data, to }
    }

    /// Starts a service with a nightly backup and a retention of two.
    fn start(&self, more: &str) -> Started {
        let text = format!(
            "[backup]\nto = {:?}\nat = \"03:30\"\ntime_zone = \"UTC\"\nkeep = 2\n{more}",
            self.to
        );
        let config = Config::parse(&text, Path::new(""), &[]).unwrap();
        let of = settings(&self.data, None, Duration::from_secs(60));
        app::start(&Settings { config, ..of }, &mut Silent).unwrap()
    }

    /// Names of the entries in the backup folder.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.to).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn listed(&self) -> Vec<Value> {
        run_json(&self.data, &["backup", "--list"])["backups"].as_array().unwrap().clone()
    }
}

fn at(time: &str) -> Micros {
    parse_time(time).unwrap()
}

/// Runs the scheduler at this time. Returns the folder's name if a backup was due and made.
fn look(started: &Started, now: &str) -> Option<Result<String, String>> {
    let parts = &started.parts;
    let done = parts.scheduled.attempt(&parts.admin, at(now), &CancellationToken::new())?;
    Some(done.map(|report| {
        let path = report.path.unwrap();
        Path::new(&path).file_name().unwrap().to_str().unwrap().to_owned()
    }))
}

fn told(started: &Started, now: &str) -> ToldSchedule {
    started.parts.scheduled.told(at(now)).unwrap()
}

#[track_caller]
fn made(started: &Started, now: &str, name: &str) {
    assert_eq!(look(started, now), Some(Ok(name.to_owned())));
}

#[test]
fn so_many_are_kept_others_are_not_touched_and_one_of_them_is_restored() {
    let desk = Desk::new();
    let id = imported(
        &desk.data,
        &[item("a", "the quincunx zephyrine"), item("b", "the mandrake abides")],
    );
    let started = desk.start("");
    made(&started, "2026-01-10T12:00:00Z", "recalld-20260110T120000Z");
    assert_eq!(
        look(&started, "2026-01-10T12:00:20Z"),
        None,
        "the last time was that of the night before"
    );
    assert_eq!(look(&started, "2026-01-11T03:29:59Z"), None);
    made(&started, "2026-01-11T03:30:07Z", "recalld-20260111T033007Z");
    // A foreign folder with a name like ours, and a manual backup in the folder of scheduled ones.
    let foreign = desk.to.join("recalld-20250101T000000Z");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("backup.json"), "{\"id\": \"mine\"}").unwrap();
    drop(started);
    let by_hand = desk.to.join("recalld-20250102T000000Z");
    run_json(&desk.data, &["backup", by_hand.to_str().unwrap()]);
    // A new process continues the schedule.
    let started = desk.start("");
    assert_eq!(
        look(&started, "2026-01-11T20:00:00Z"),
        None,
        "it knows by the names when there was one"
    );
    // After two nights without a server, one backup makes up for both.
    made(&started, "2026-01-13T09:00:00Z", "recalld-20260113T090000Z");
    assert_eq!(look(&started, "2026-01-13T09:00:20Z"), None);
    let wanted = [
        "recalld-20250101T000000Z",
        "recalld-20250102T000000Z",
        "recalld-20260111T033007Z",
        "recalld-20260113T090000Z",
    ];
    assert_eq!(desk.names(), wanted, "the oldest that the server made is gone, and nothing else");
    drop(started);
    let told = desk.listed();
    let scheduled = told.iter().filter(|row| row["scheduled"] == true).count();
    assert_eq!((told.len(), scheduled), (3, 2), "what was removed is forgotten: {told:?}");

    // An erasure reaches all retained backups.
    assert!(!holding(&desk.to, "quincunx").is_empty());
    let report = erase(&desk.data, &[&id("a")], &[]);
    assert_eq!(report["everywhere"], true, "{report}");
    assert_gone(&desk.to, "quincunx");

    // Each one verifies and restores like any other backup.
    let newest = desk.to.join("recalld-20260113T090000Z");
    let newest = newest.to_str().unwrap();
    assert_eq!(run_json(&desk.data, &["verify", newest])["clean"], true);
    let restored = desk.scratch.path().join("restored");
    run_json(&restored, &["restore", newest]);
    assert_eq!(exported(&restored), exported(&desk.data));
}

#[test]
fn a_failure_is_told_tried_again_later_and_leaves_nothing_that_could_be_restored() {
    let desk = Desk::new();
    let _ids = imported(&desk.data, &[item("a", "the quincunx zephyrine")]);
    let started = desk.start("");
    made(&started, "2026-01-10T12:00:00Z", "recalld-20260110T120000Z");
    let is_failing = || told(&started, "2026-01-11T04:00:00Z").standing == Standing::Failing;
    assert!(!is_failing());
    // The disk is unmounted: nothing is written to its mount point.
    let away = desk.scratch.path().join("away");
    fs::rename(&desk.to, &away).unwrap();
    fs::create_dir(&desk.to).unwrap();
    let why = look(&started, "2026-01-11T04:00:00Z").unwrap().unwrap_err();
    assert!(why.contains("mount its disk") && why.contains("--forget-missing"), "{why}");
    assert!(is_failing() && desk.names().is_empty());
    assert_eq!(look(&started, "2026-01-11T04:09:59Z"), None, "it waits");
    fs::remove_dir(&desk.to).unwrap();
    fs::rename(&away, &desk.to).unwrap();
    // An interrupted backup is in the folder.
    let begun = desk.to.join("recalld-20260110T120000Z/backup.json");
    let mut said: Value = serde_json::from_slice(&fs::read(&begun).unwrap()).unwrap();
    said["made_at"] = Value::Null;
    fs::write(&begun, said.to_string()).unwrap();
    made(&started, "2026-01-11T04:10:00Z", "recalld-20260111T041000Z");
    assert!(!is_failing());
    assert_eq!(desk.names(), ["recalld-20260111T041000Z"], "what was never finished goes first");
    let told = told(&started, "2026-01-11T04:10:00Z");
    assert_eq!((told.made, told.failures, told.newest), (2, 1, Some(at("2026-01-11T04:10:00Z"))));

    drop(started);
    // The check after a backup covers every byte.
    let made = desk.to.join("recalld-20260111T041000Z");
    assert_eq!(check_backup(&made), Ok(()));
    let mut of_store = files(&made.join("tenants/local/store"));
    of_store.sort_by_key(|path| fs::metadata(path).unwrap().len());
    for path in [of_store.last().unwrap(), &made.join("backup.json")] {
        let whole = fs::read(path).unwrap();
        let mut bytes = whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x55;
        fs::remove_file(path).unwrap();
        fs::write(path, bytes).unwrap();
        assert!(check_backup(&made).is_err(), "{path:?}");
        fs::remove_file(path).unwrap();
        fs::write(path, whole).unwrap();
    }
    // An unfinished backup cannot be restored.
    let begun = made.join("backup.json");
    let mut said: Value = serde_json::from_slice(&fs::read(&begun).unwrap()).unwrap();
    said["made_at"] = Value::Null;
    fs::write(&begun, said.to_string()).unwrap();
    let never = desk.scratch.path().join("never");
    assert_fails(&run(&never, &["restore", made.to_str().unwrap()]), 3, &["never finished"]);
}

/// A disk that does not respond causes neither a failure nor a backup.
#[test]
fn one_that_is_neither_made_nor_failed_is_overdue_after_an_hour() {
    let desk = Desk::new();
    let _ids = imported(&desk.data, &[item("a", "the quincunx zephyrine")]);
    let started = desk.start("");
    let standing = |now: &str| told(&started, now).standing;
    assert_eq!(standing("2026-01-10T12:00:00Z"), Standing::Good, "nobody has looked yet");
    made(&started, "2026-01-10T12:00:00Z", "recalld-20260110T120000Z");
    assert_eq!(standing("2026-01-11T04:29:59Z"), Standing::Good, "it may be being made");
    assert_eq!(standing("2026-01-11T04:30:00Z"), Standing::Overdue);
    let health = |started: &Started| -> Value {
        let answer = recalld_api::rest::health(&started.parts);
        serde_json::from_slice(&answer.body).unwrap()
    };
    let said = health(&started);
    assert_eq!(said["backups"]["state"], "overdue", "by the clock of today: {said}");
    assert_eq!(said["status"], "ok", "{said}");
    made(&started, "2026-01-11T04:31:00Z", "recalld-20260111T043100Z");
    assert_eq!(standing("2026-01-11T04:31:00Z"), Standing::Good);
    started.parts.scheduled.set(None);
    assert_eq!(health(&started).get("backups"), None, "where none are wanted nothing is told");
    drop(started);
    // After a restart, the scheduler has the same hour to make up for a missed backup.
    let started = desk.start("");
    assert_eq!(told(&started, "2026-01-12T09:00:00Z").standing, Standing::Good);
}

#[test]
fn nothing_is_made_where_nothing_is_wanted_and_keys_only_where_they_are() {
    let desk = Desk::new();
    let _ids = imported(&desk.data, &[item("a", "the mandrake abides")]);
    let started = desk.start("with_keys = true\nverify = false\n");
    started.parts.scheduled.set(None);
    assert_eq!(look(&started, "2026-01-10T12:00:00Z"), None);
    assert_eq!(started.parts.scheduled.told(at("2026-01-10T12:00:00Z")), None);
    assert!(!desk.to.exists());
    let plan = started.parts.config.backup.clone();
    started.parts.scheduled.set(plan);
    made(&started, "2026-01-10T12:00:00Z", "recalld-20260110T120000Z");
    assert!(desk.to.join("recalld-20260110T120000Z/keys/signing.key").exists());
}

#[test]
fn a_clock_that_was_wrong_and_a_backup_that_cannot_be_read_stop_no_others() {
    let desk = Desk::new();
    let _ids = imported(&desk.data, &[item("a", "the mandrake abides")]);
    let started = desk.start("");
    made(&started, "2030-05-05T12:00:00Z", "recalld-20300505T120000Z");
    // After the clock is corrected, the backup with the future time does not delay the next one, and is the first to be
    // removed.
    made(&started, "2026-01-10T12:00:00Z", "recalld-20260110T120000Z");
    drop(started);
    let started = desk.start("");
    assert_eq!(look(&started, "2026-01-10T12:01:00Z"), None);
    made(&started, "2026-01-11T04:00:00Z", "recalld-20260111T040000Z");
    assert_eq!(desk.names(), ["recalld-20260110T120000Z", "recalld-20260111T040000Z"]);
    let broken = desk.to.join("recalld-20260110T120000Z");
    fs::write(broken.join("backup.json"), "{").unwrap();
    made(&started, "2026-01-12T04:00:00Z", "recalld-20260112T040000Z");
    made(&started, "2026-01-13T04:00:00Z", "recalld-20260113T040000Z");
    let left = ["recalld-20260110T120000Z", "recalld-20260112T040000Z", "recalld-20260113T040000Z"];
    assert_eq!(desk.names(), left, "it is the operator's, and keeps no place");
}
