//! Simulates power cuts, faults and corrupt bytes for any length of time: `cargo run -p support-engine --example
//! simulate -- --seeds N --start S --minutes M`.
//!
//! Runs every scenario (`--scenario NAME`: only this one) on each seed, continues after failures (`--failures N`: at
//! most this many), and prints the amount of work done.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use support_engine::ground;
use support_engine::sim::{Scenario, Tally};

const USAGE: &str = "usage: simulate [--seeds N] [--start S] [--minutes M] [--failures N] \
                     [--scenario PowerCuts|Faults|Spoilt]";
/// Default number of failures after which a run ends.
const FAILURES_MAX: usize = 32;
/// Seeds between two progress lines.
const SEEDS_A_LINE: u64 = 64;

struct Wish {
    seeds: u64,
    start: u64,
    time: Duration,
    failures: usize,
    scenarios: Vec<Scenario>,
}

fn wish() -> Result<Wish, Box<dyn Error>> {
    let mut wish = Wish {
        seeds: u64::MAX,
        start: ground::fresh_seed() >> 16,
        time: Duration::MAX,
        failures: FAILURES_MAX,
        scenarios: Scenario::ALL.to_vec(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        match name.as_str() {
            "--seeds" => wish.seeds = value.parse()?,
            "--start" => wish.start = value.parse()?,
            "--minutes" => wish.time = Duration::from_secs(value.parse::<u64>()? * 60),
            "--failures" => wish.failures = value.parse()?,
            "--scenario" => {
                wish.scenarios.retain(|scenario| format!("{scenario:?}") == value);
            }
            _ => return Err(USAGE.into()),
        }
    }
    if wish.scenarios.is_empty() { Err(USAGE.into()) } else { Ok(wish) }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let Wish { seeds, start, time, failures: failures_max, scenarios } = wish()?;
    let begun = Instant::now();
    let mut tallies = vec![Tally::default(); scenarios.len()];
    let mut failures = Vec::new();
    let mut seed = start;
    while seed - start < seeds && begun.elapsed() < time && failures.len() < failures_max {
        for (&scenario, tally) in scenarios.iter().zip(&mut tallies) {
            if let Err(failure) = scenario.run(seed, tally) {
                println!("{failure}\n");
                failures.push((scenario, seed));
            }
        }
        seed += 1;
        if (seed - start).is_multiple_of(SEEDS_A_LINE) {
            println!("up to seed {seed}: {} failures, {:.0?}", failures.len(), begun.elapsed());
        }
    }
    let mut all = Tally::default();
    for (scenario, tally) in scenarios.iter().zip(tallies) {
        println!("{scenario:?}: {tally}");
        all += tally;
    }
    println!("seeds {start} to {}, in {:.0?}: {all}", seed - 1, begun.elapsed());
    println!("{} failures: {failures:?}", failures.len());
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
