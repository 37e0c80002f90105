//! A process is killed at arbitrary moments of opening, writing, sealing, compacting and erasing, again and again over
//! the same store. Every acknowledged commit exists, every batch is complete, erased items are gone, and the next
//! process continues from there.
//!
//! `RECALLD_KILLS` sets the number of kills (`tests/campaigns/kill.sh` runs hundreds).

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use support_engine::ground::{self, Dice};
use support_engine::load::{Heard, check};

const KILLS: u64 = 30;
/// Kills of one store, after which a new store is used, so that checking stays cheap.
const KILLS_OF_A_STORE: u64 = 25;
/// Writer threads of a load with several writers.
const WRITERS: u64 = 4;
/// Far more than any round waits for.
const BATCHES_MAX: u64 = 2_000;
/// The load is killed some time after it has acknowledged fewer than this many commits.
const COMMITS_MAX: u64 = 160;
/// Kills one load in this many while it opens the store.
const KILLED_OPENING: u64 = 4;
/// Approximate duration of an opening, a seal or a merge.
const MOMENT_MICROS_MAX: u64 = 8_000;

fn kills() -> u64 {
    std::env::var("RECALLD_KILLS").map_or(KILLS, |text| text.parse().expect("a number of kills"))
}

/// Runs a load and kills it (SIGKILL); adds its output to `heard`.
fn killed_load(folder: &Path, round: u64, dice: &mut Dice, heard: &mut Heard) -> u64 {
    let writers = if dice.below(3) == 0 { 1 } else { WRITERS };
    let commits =
        if dice.below(KILLED_OPENING) == 0 { None } else { Some(dice.below(COMMITS_MAX)) };
    let mut load = Command::new(env!("CARGO_BIN_EXE_load"))
        .arg("write")
        .arg(folder)
        .args([format!("r{round}"), writers.to_string(), BATCHES_MAX.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the load starts");
    let mut out = BufReader::new(load.stdout.take().expect("it is piped"));
    let mut line = String::new();
    let mut left = commits;
    // The line `open` comes first, so that `Some(0)` waits for it.
    while left.is_some() {
        line.clear();
        out.read_line(&mut line).expect("a pipe can be read");
        let whole = line.strip_suffix('\n').expect("the load goes on until it is killed");
        let is_commit = heard.hear(whole);
        left = left.and_then(|left| left.checked_sub(u64::from(is_commit || whole == "open")));
    }
    // The sleep waits for nothing: it makes the moment of the kill arbitrary.
    std::thread::sleep(Duration::from_micros(dice.below(MOMENT_MICROS_MAX)));
    load.kill().expect("it runs, or has died just now");
    loop {
        line.clear();
        out.read_line(&mut line).expect("a pipe can be read");
        let Some(whole) = line.strip_suffix('\n') else { break }; // the end, or a line cut by it
        heard.hear(whole);
    }
    let status = load.wait().expect("it was started here");
    assert!(status.code().is_none(), "the load ended by itself: {status}");
    writers
}

#[test]
fn a_killed_load_loses_nothing_it_acknowledged() {
    let seed = ground::fresh_seed();
    println!("RECALLD_TEST_SEED={seed}");
    let mut dice = Dice::new(seed);
    let (kills, mut commits, mut erased) = (kills(), 0, 0);
    for first in (0..kills).step_by(usize::try_from(KILLS_OF_A_STORE).expect("a few")) {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let (mut heard, mut last) = (Heard::default(), 0);
        for round in first..kills.min(first + KILLS_OF_A_STORE) {
            let before = heard.commits();
            let writers = killed_load(folder.path(), round, &mut dice, &mut heard);
            let seq = check(folder.path(), &heard).unwrap_or_else(|why| panic!("{round}: {why}"));
            // Each writer can have one commit complete on disk before its line was printed.
            let unheard = seq - last - (heard.commits() - before);
            assert!(unheard <= writers, "{round}: {unheard} commits that nobody acknowledged");
            last = seq;
        }
        commits += heard.commits();
        erased += heard.erased.len();
    }
    println!("{kills} kills, {commits} commits acknowledged, {erased} of them erasures");
    assert!(commits > kills * 10 && erased as u64 > kills / 4, "the loads did next to nothing");
}
