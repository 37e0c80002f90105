//! The store on a simulated disk: power cuts, faults and spoilt bytes that a seed decides.
//!
//! `cargo run -p tests --example simulate` runs the same for as long as one likes.

use tests::ground;
use tests::sim::{Scenario, Tally};

/// Seeds that every run tries; those that once found a fault stay here.
const FIXED: [u64; 4] = [1, 2, 3, 4];
/// Seeds that no run has tried before.
const FRESH: usize = 2;

fn seeds() -> Vec<u64> {
    if std::env::var_os("RECALLD_TEST_SEED").is_some() {
        return vec![ground::fresh_seed()];
    }
    let fresh = (0..FRESH).map(|_| ground::fresh_seed());
    FIXED.into_iter().chain(fresh).collect()
}

fn run(scenario: Scenario) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds() {
        println!("RECALLD_TEST_SEED={seed}");
        if let Err(failure) = scenario.run(seed, &mut tally) {
            panic!("{failure}");
        }
    }
    println!("{tally}");
    tally
}

#[test]
fn a_power_cut_at_any_operation_loses_nothing() {
    let tally = run(Scenario::PowerCuts);
    assert!(tally.crash_states > tally.crash_points, "{tally}");
    assert!(tally.crash_points >= tally.operations / 4, "{tally}");
}

#[test]
fn a_failing_operation_loses_nothing() {
    let tally = run(Scenario::Faults);
    assert!(tally.crash_points > 0, "{tally}");
}

#[test]
fn spoilt_bytes_are_never_shown() {
    let tally = run(Scenario::Spoilt);
    assert!(tally.spoilt > 0, "{tally}");
}
