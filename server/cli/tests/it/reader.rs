//! The reference reader `format-spec/reader.py`, written from the specification alone, prints the same lines as
//! `recalld export`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support_wire::tree::workspace;

use engine::{NoThrottle, SearchError, Snapshot, Store};
use recalld_interchange::lines::write;
use support_engine::golden::Golden;
use support_engine::{ground, random_store};
use support_wire::service::{self, scratch};

const RANDOM_STORES: u64 = 12;
const RANDOM_COMMITS: usize = 25;

fn spec() -> PathBuf {
    workspace().join("format-spec")
}

fn python(arguments: &[&Path]) -> Output {
    // -B: do not write bytecode files beside the script.
    Command::new("python3").arg("-B").args(arguments).output().expect("python3 is there")
}

/// Output of the reference reader for a store.
fn read(store: &Path) -> String {
    let output = python(&[&spec().join("reader.py"), store]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{}: {errors}", store.display());
    String::from_utf8(output.stdout).unwrap()
}

/// Export lines of a snapshot.
fn written(snapshot: &Snapshot) -> String {
    let mut out = Vec::new();
    let take = |lines: &[u8]| {
        assert!(lines.ends_with(b"\n"), "whole lines");
        out.extend_from_slice(lines);
        Ok::<_, SearchError>(())
    };
    write::all(snapshot, take).unwrap();
    String::from_utf8(out).unwrap()
}

fn same(left: &str, right: &str, what: &str) {
    for (number, (left, right)) in (1..).zip(left.lines().zip(right.lines())) {
        assert_eq!(left, right, "{what}, line {number}");
    }
    assert_eq!(left.len(), right.len(), "{what}: one has more lines");
}

fn store_of(data: &Path) -> PathBuf {
    data.join("tenants/local/store")
}

#[test]
fn golden_stores_read_as_they_are_exported() {
    let kept = Golden::kept().unwrap();
    assert!(kept.len() >= 2, "there are golden stores");
    for golden in kept {
        let scratch = scratch();
        let data = scratch.path().join("data");
        for (name, bytes) in &golden.files {
            service::write(&store_of(&data), name, bytes);
        }
        let before = read(&store_of(&data));
        let exported = service::run(&data, &["export"]);
        let errors = String::from_utf8_lossy(&exported.stderr);
        assert!(exported.status.success(), "{}: {errors}", golden.name);
        let exported = String::from_utf8(exported.stdout).unwrap();
        assert!(exported.lines().count() > 5, "{}: {exported}", golden.name);
        same(&before, &exported, &golden.name);
        // Opening the store may have rewritten its files.
        same(&read(&store_of(&data)), &exported, &golden.name);
        same(&read(&data), &exported, &golden.name);
    }
}

#[test]
fn random_stores_read_as_they_are_exported() {
    let seed = ground::fresh_seed();
    println!("RECALLD_TEST_SEED={seed}");
    for seed in (0..RANDOM_STORES).map(|n| seed.wrapping_add(n)) {
        let scratch = scratch();
        let ground = ground::folder(scratch.path(), seed);
        let store = Store::open(ground, ground::unmerged()).unwrap();
        random_store::fill(&store, seed, RANDOM_COMMITS, true);
        let exported = written(&store.snapshot());
        drop(store);
        same(&read(scratch.path()), &exported, &format!("seed {seed}"));
        torn(scratch.path(), seed, &exported);
    }
}

/// Stores with erasures in several rounds: tombstones of erased items, and chains through them.
#[test]
fn stores_with_erased_items_read_as_they_are_exported() {
    let seed = ground::fresh_seed();
    println!("RECALLD_TEST_SEED={seed}");
    for seed in (0..RANDOM_STORES).map(|n| seed.wrapping_add(n)) {
        let scratch = scratch();
        let ground = ground::folder(scratch.path(), seed);
        let store = Store::open(ground, ground::unmerged()).unwrap();
        for round in 0..3 {
            random_store::fill(&store, seed.wrapping_add(round), RANDOM_COMMITS / 2, true);
            store.erase_pending(&NoThrottle).unwrap();
        }
        random_store::fill(&store, !seed, 2, true);
        let exported = written(&store.snapshot());
        drop(store);
        same(&read(scratch.path()), &exported, &format!("seed {seed}"));
    }
}

/// Repeats the comparison after a torn write in the newest WAL file.
fn torn(folder: &Path, seed: u64, whole: &str) {
    let mut logs: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("log-"))
        .collect();
    logs.sort();
    let Some(log) = logs.last() else { return };
    let bytes = fs::read(log).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
    fs::write(log, &bytes[..end - 1]).unwrap();
    let before = read(folder);
    // Items hidden by the lost commit are visible again.
    let rows = |lines: &str| lines.replace(",\"tombstoned\":true", "");
    assert!(rows(whole).starts_with(&rows(&before)), "seed {seed}: the commits before the last");
    let store = Store::open(ground::folder(folder, seed), ground::unmerged()).unwrap();
    same(&before, &written(&store.snapshot()), &format!("seed {seed}, torn"));
    drop(store);
    same(&read(folder), &before, &format!("seed {seed}, opened again"));
}
