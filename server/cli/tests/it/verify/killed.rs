//! SIGKILL during `recalld erase`: the next start, or `erase --pending`, completes the erasure in the store and in its
//! backups.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime};

use engine::Store;
use serde_json::Value;
use support_engine::ground::{self, Dice};
use support_engine::sample::{items, note};
use support_wire::mcp_client::McpClient;
use support_wire::service::{Service, command, run, run_json, scratch};

use crate::verify::program::{export, store_in};

const ROUNDS: usize = 9;
const SEGMENTS: usize = 5;
const SECRET: &str = "zanzibarsecret";
/// Maximum of observed file changes before the kill: about the number that an erasure makes.
const CHANGES_MAX: u64 = 40;
/// A one-second retry interval for erasures in backups: an attempt that met a killed process's lock is soon repeated.
const LOOKS_EVERY_SECOND: [&str; 2] = ["--backup-erasures-every", "1"];
/// Timeout for background work.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The process that is killed, and the process that completes the erasure.
#[derive(Debug, Clone, Copy)]
enum Way {
    ServerThenServer,
    ServerThenCommand,
    CommandThenServer,
}

/// Creates a store with a secret in each of several segments. Returns the ids.
fn made(data: &Path) -> Vec<String> {
    let folder = store_in(data);
    fs::create_dir_all(&folder).expect("scratch folders can be made");
    let store = Store::open(ground::folder(&folder, 3), ground::unmerged()).expect("it is new");
    let secret = |n: usize| {
        let drafts = [note(&format!("filler {n}")), note(&format!("{SECRET} number {n}"))];
        let written = store.write(items(drafts)).expect("it takes writes");
        // The last item stays in the WAL.
        if n + 1 < SEGMENTS {
            store.seal().expect("it can be sealed");
        }
        format!("itm_{}", written.items[1])
    };
    (0..SEGMENTS).map(secret).collect()
}

/// Names, lengths and times of all files, which change with each step of an erasure.
fn look(folders: &[&Path]) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| folder.to_path_buf()).collect();
    while let Some(folder) = open.pop() {
        // A file that disappears during the scan is a change, too.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                open.push(entry.path());
            }
            found.push((entry.path(), about.len(), about.modified().ok()));
        }
    }
    found.sort();
    found
}

/// Waits for a number of observed changes, or for the command's end. Returns the number observed.
fn wait_for_changes(child: &mut Child, folders: &[&Path], changes: u64) -> u64 {
    let (mut seen, mut last) = (0, look(folders));
    while seen < changes && child.try_wait().expect("it is our child").is_none() {
        let now = look(folders);
        seen += u64::from(now != last);
        last = now;
    }
    seen
}

fn pending(data: &Path) -> usize {
    let text = fs::read(data.join("backups.json")).expect("backups are known");
    let said: Value = serde_json::from_slice(&text).expect("it is put in place whole");
    let backups = said["backups"].as_array().expect("a list").iter();
    backups.map(|it| it["pending"].as_array().expect("a list").len()).sum()
}

/// Polls until the server's background work has completed all erasures.
fn wait_until_erased(service: &Service) {
    let mut client = McpClient::open(service);
    let began = Instant::now();
    while began.elapsed() < WAIT_MAX {
        // Each poll waits for the server's answer, which leaves the processor to the server.
        let stats = client.call("recall_stats", &serde_json::json!({}));
        if stats["store"]["erasures_pending"] == 0 && pending(service.data()) == 0 {
            return;
        }
    }
    panic!("{} ids are still pending in backups", pending(service.data()));
}

#[track_caller]
fn assert_proven(data: &Path, folder: &Path, ids: &[String]) {
    for id in ids {
        let asked = ["verify", folder.to_str().expect("UTF-8"), "--erased", id, "--text", SECRET];
        let proof = run(data, &asked);
        let said = String::from_utf8_lossy(&proof.stdout);
        assert_eq!(proof.status.code(), Some(0), "{}: {said}", folder.display());
    }
    let told = run_json(data, &["verify", folder.to_str().expect("UTF-8")]);
    assert_eq!(told["clean"], true, "{told:#}");
}

fn kill_and_go_on(way: Way, changes: u64) {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let ids = made(&data);
    let backups = ["one", "two"].map(|name| scratch.path().join(name));
    for backup in &backups {
        run_json(&data, &["backup", backup.to_str().expect("scratch paths are UTF-8")]);
    }
    let before = export(&data);
    let server = match way {
        Way::CommandThenServer => None,
        _ => Some(Service::start(&data, &LOOKS_EVERY_SECOND)),
    };
    let ids_given: Vec<&str> = ids.iter().map(String::as_str).collect();
    let asked = [&["erase"], &ids_given[..], &["--reason", "asked", "--yes", "--json"]].concat();
    let mut erase = command(&data, &asked)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("recalld starts");
    let folders = [&*data, &*backups[0], &*backups[1]];
    let seen = wait_for_changes(&mut erase, &folders, changes);
    match server {
        Some(server) => server.kill(),
        None => erase.kill().expect("our child can be killed"),
    }
    let ended = erase.wait().expect("it is our child");
    println!("{way:?}: killed at change {seen} of {changes}, {ended}");

    let server = match way {
        Way::ServerThenCommand => {
            run_json(&data, &["erase", "--pending"]);
            None
        }
        _ => {
            let server = Service::start(&data, &LOOKS_EVERY_SECOND);
            wait_until_erased(&server);
            Some(server)
        }
    };
    let rows = export(&data);
    let stones = rows.iter().filter(|row| row["type"] == "tombstone").count();
    if stones == 0 {
        // Killed before the request was on disk: nothing is erased, and the request can be repeated.
        assert!(!ended.success());
        assert_eq!(rows, before);
        run_json(&data, &asked[..asked.len() - 1]);
    } else {
        assert_eq!(stones, SEGMENTS, "all or nothing");
    }
    for folder in folders {
        assert_proven(&data, folder, &ids);
    }
    drop(server);
    assert_proven(&data, &data, &ids);
}

#[test]
fn an_erasure_that_is_killed_ends_by_itself_or_by_the_next_command() {
    let seed = ground::fresh_seed();
    println!("seed {seed} (RECALLD_TEST_SEED)");
    let mut dice = Dice::new(seed);
    let ways = [Way::ServerThenServer, Way::ServerThenCommand, Way::CommandThenServer];
    for round in 0..ROUNDS {
        kill_and_go_on(ways[round % ways.len()], dice.below(CHANGES_MAX));
    }
}

/// A backup that was unreachable during the erasure is erased from in the background when it is reachable again.
#[test]
fn a_backup_that_is_there_again_loses_what_was_erased() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let ids = made(&data);
    let (backup, away) = (scratch.path().join("backup"), scratch.path().join("away"));
    run_json(&data, &["backup", backup.to_str().unwrap()]);
    fs::rename(&backup, &away).unwrap();
    for id in &ids {
        let part = run(&data, &["erase", id, "--reason", "asked", "--yes"]);
        assert_eq!(part.status.code(), Some(1), "the backup still holds it");
    }
    let server = Service::start(&data, &LOOKS_EVERY_SECOND);
    assert_eq!(pending(&data), SEGMENTS, "a backup that is away is waited for");
    drop(server);
    fs::rename(&away, &backup).unwrap();
    let server = Service::start(&data, &LOOKS_EVERY_SECOND);
    wait_until_erased(&server);
    assert_proven(&data, &backup, &ids);
    assert_proven(&data, &data, &ids);
    assert!(server.terminate().success());
}
