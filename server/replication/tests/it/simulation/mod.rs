//! The protocol on a simulated storage, with a checker that reports violations of the protocol's guarantees.
//!
//! A seed decides the acts of the nodes and the rates of their clocks. The seed also decides the faults: requests that
//! are late, lost, executed twice or reported wrongly, and nodes that are paused, cut off or wiped.
//!
//! `RECALLD_TEST_SEED=N` runs one seed. `RECALLD_FAR_SEEDS=N` runs N seeds of each kind, from `RECALLD_FAR_FIRST` on,
//! until `RECALLD_FAR_FAILURES` have failed.
mod dice;
mod history;
mod node;
mod probing;
mod restoring;
mod run;
mod store;
mod toy;
mod world;
mod writing;

use history::Counts;
use recalld_replication::core::Verdict;
use run::{Kind, run};
use store::Flavour;

/// Seeds of each kind that run with all tests.
const SEEDS: u64 = 20;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn seeds() -> std::ops::Range<u64> {
    match number("RECALLD_TEST_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("RECALLD_FAR_FIRST").unwrap_or(1);
            first..first + number("RECALLD_FAR_SEEDS").unwrap_or(SEEDS)
        }
    }
}

fn all_hold(kind: Kind) {
    let (mut total, mut failed) = (Counts::default(), Vec::new());
    for seed in seeds() {
        match run(seed, kind) {
            Ok(counts) => total += counts,
            Err(why) => failed.push(format!("{kind:?}, seed {seed}: {why}")),
        }
        if number("RECALLD_FAR_FAILURES").is_some_and(|most| failed.len() as u64 >= most) {
            break;
        }
    }
    println!("{kind:?}: {} of {} seeds fail; {total:?}", failed.len(), seeds().count());
    assert!(failed.is_empty(), "RECALLD_TEST_SEED repeats a seed\n{}", failed.join("\n"));
}

#[test]
fn on_objects_nothing_is_lost() {
    all_hold(Kind::Near(Flavour::Objects));
}

#[test]
fn by_transactions_nothing_is_lost() {
    all_hold(Kind::Near(Flavour::Guarded));
}

#[test]
fn with_clocks_far_apart_nothing_is_lost() {
    all_hold(Kind::Far(Flavour::Objects));
}

#[test]
fn a_probe_passes_storages_that_keep_their_word() {
    for seed in seeds() {
        assert_eq!(probing::probe(seed, Flavour::Objects, false), Verdict::Honest, "seed {seed}");
        assert_eq!(probing::probe(seed, Flavour::Objects, true), Verdict::Honest, "seed {seed}");
    }
}

#[test]
fn a_probe_refuses_storages_that_do_not_honour_the_condition() {
    for seed in seeds() {
        for flavour in [Flavour::Blind, Flavour::Racy] {
            let verdict = probing::probe(seed, flavour, false);
            let is_refused = matches!(verdict, Verdict::Dishonest(_));
            assert!(is_refused, "seed {seed}, {flavour:?}: {verdict:?}");
        }
    }
}

/// Shows that the probe is needed, and that the checker can fail.
#[test]
fn without_the_probe_such_storages_lose_what_was_written() {
    for flavour in [Flavour::Blind, Flavour::Racy] {
        let failed = (1..=SEEDS).filter(|&seed| run(seed, Kind::Near(flavour)).is_err()).count();
        println!("{flavour:?}: {failed} of {SEEDS} seeds fail");
        assert!(failed > 0, "{flavour:?}: {SEEDS} seeds find nothing");
    }
}
