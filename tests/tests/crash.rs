//! A process that is killed in the middle of writing, again and again over the same store: every
//! acknowledged batch is there, every batch is whole, and the next process goes on from there.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use engine::{ItemId, Options, Snapshot, Store};
use tests::ground::{self, Dice};

const RUNS: u64 = 30;
/// The writer is killed after it has acknowledged fewer than this many batches.
const BATCHES_MAX: u64 = 24;

/// A batch that the writer has acknowledged.
#[derive(Debug)]
struct Acknowledged {
    seq: u64,
    first: ItemId,
    items: u64,
}

fn parse(line: &str) -> Acknowledged {
    let mut words = line.split(' ');
    let mut word = || words.next().expect("three words to a line");
    Acknowledged {
        seq: word().parse().expect("a commit number"),
        first: word().parse().expect("an id"),
        items: word().parse().expect("a count"),
    }
}

/// Runs a writer, kills it (SIGKILL) once it has acknowledged `kill_after` batches, and gives all
/// that it acknowledged before it died.
fn killed_writer(folder: &Path, kill_after: u64) -> Vec<Acknowledged> {
    let mut writer = Command::new(env!("CARGO_BIN_EXE_writer"))
        .arg(folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the writer starts");
    let mut out = BufReader::new(writer.stdout.take().expect("it is piped"));
    let mut acknowledged = Vec::new();
    let mut line = String::new();
    for n in 0.. {
        if n == kill_after {
            writer.kill().expect("it runs, or has died just now");
        }
        line.clear();
        out.read_line(&mut line).expect("a pipe can be read");
        match line.strip_suffix('\n') {
            Some(whole) => acknowledged.push(parse(whole)),
            None => break, // the end, or a line that was cut by it
        }
    }
    let status = writer.wait().expect("it was started here");
    assert!(!status.success(), "the writer was killed, not done");
    assert!(status.code().is_none(), "the writer failed by itself: {status}");
    acknowledged
}

/// How many items each commit has; each of them says how many there should be.
fn whole_batches(snapshot: &Snapshot) -> BTreeMap<u64, u64> {
    let mut found: BTreeMap<u64, u64> = BTreeMap::new();
    let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
    for place in snapshot.places().expect("no damage") {
        let item = snapshot.item(place).expect("no damage");
        let (_, count) = item.text.split_once(" of ").expect("the writer's text");
        *found.entry(item.seq).or_default() += 1;
        wanted.insert(item.seq, count.parse().expect("a count"));
    }
    assert_eq!(found, wanted, "a batch is not whole");
    found
}

/// Checks the store against all that was ever acknowledged; gives its newest commit.
fn check(folder: &Path, acknowledged: &[Acknowledged]) -> u64 {
    let store = Store::open(ground::folder(folder, 1), Options::default());
    let snapshot = store.expect("the store opens after a crash").snapshot();
    let batches = whole_batches(&snapshot);
    assert!(batches.keys().copied().eq(1..=snapshot.seq()), "a commit is missing");
    for batch in acknowledged {
        let place = snapshot.find(batch.first).expect("no damage");
        let place = place.unwrap_or_else(|| panic!("{batch:?} was acknowledged and is gone"));
        assert_eq!(snapshot.item(place).expect("no damage").seq, batch.seq);
        assert_eq!(batches[&batch.seq], batch.items);
    }
    if let Some(head) = snapshot.find_ref("head").expect("no damage") {
        let head = snapshot.id(head).expect("no damage");
        let chain = snapshot.chain(head).expect("no damage");
        assert_eq!(
            chain.members.len() as u64,
            snapshot.seq(),
            "every batch replaced the one before"
        );
        let edges = snapshot.counts().expect("no damage").edges;
        assert_eq!(edges, snapshot.seq() - 1, "and is linked to it");
    }
    snapshot.seq()
}

#[test]
fn a_killed_writer_loses_nothing_it_acknowledged() {
    let seed = ground::fresh_seed();
    println!("RECALLD_TEST_SEED={seed}");
    let mut dice = Dice::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    let mut last = 0;
    for run in 0..RUNS {
        let kill_after = dice.below(BATCHES_MAX);
        let new = killed_writer(folder.path(), kill_after);
        assert!(new.len() as u64 >= kill_after);
        let count = new.len() as u64;
        acknowledged.extend(new);
        let seq = check(folder.path(), &acknowledged);
        // One more commit can be whole on disk without its line having been printed.
        let unheard = seq - last - count;
        assert!(unheard <= 1, "run {run}: {unheard} commits that were not acknowledged");
        last = seq;
    }
    let names = std::fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    // Each seal puts a new manifest in place; the segments themselves are merged as they come.
    let manifests = names.iter().filter_map(|name| {
        name.to_string_lossy().strip_prefix("manifest-").and_then(|n| n.parse::<u64>().ok())
    });
    assert!(manifests.max().unwrap() > 3, "the writers sealed: {names:?}");
    assert!(acknowledged.len() > 50, "only {} batches in all", acknowledged.len());
}
