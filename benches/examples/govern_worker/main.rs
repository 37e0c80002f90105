//! Our side of `benches/govern`: the cost of authentication, admission, policy and audit per call, stage by stage. The
//! cost of a tenant's call is compared with the same call of the operator, which presents no credential.
//!
//! ```text
//! govern_worker --recalld PROGRAM [--rounds N] [--calls N] [--tenants N] [--each N]
//! ```
//!
//! Each output line is `{"case", "of", "p50_us", "p99_us"}` of one round, where `of` is the number of workspaces and
//! credentials on record. Each round measures both sizes. The worker MUST NOT depend on the thresholds.

mod calls;
mod made;
mod stages;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::json;

use made::Made;

/// Any error ends a measurement and is printed once.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(about = "What it costs to know who asks; started by benches/govern/run")]
struct Arguments {
    /// Path of the `recalld` program.
    #[arg(long)]
    recalld: PathBuf,
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Calls of each case in a round.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    calls: u32,
    /// Workspaces of the larger size; the smaller size is one workspace with one credential.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tenants: u32,
    /// Credentials of each workspace of the larger size.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    each: u32,
}

/// Durations of single operations in one round.
struct Times(Vec<Duration>);

impl Times {
    fn of(count: u32, mut act: impl FnMut(u32) -> Result<(), Failure>) -> Result<Self, Failure> {
        let mut times = Vec::with_capacity(count as usize);
        for number in 0..count {
            let began = Instant::now();
            act(number)?;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        Ok(Self(times))
    }

    fn micros(&self, percent: usize) -> f64 {
        let at = (self.0.len() * percent / 100).min(self.0.len() - 1);
        self.0[at].as_secs_f64() * 1e6
    }

    fn tell(&self, case: &str, of: &str) {
        let line = json!({
            "case": case, "of": of, "p50_us": self.micros(50), "p99_us": self.micros(99),
        });
        println!("{line}");
    }
}

fn main() -> Result<(), Failure> {
    let Arguments { recalld, rounds, calls, tenants, each } = Arguments::parse();
    let sizes = [(1, 1), (tenants, each)];
    let made = sizes.map(|(tenants, each)| Made::new(tenants, each));
    let [one, many] = made;
    let made = [one?, many?];
    let stages = made.iter().map(stages::Stages::new).collect::<Result<Vec<_>, _>>()?;
    for round in 0..rounds {
        // The order rotates by one in each round.
        for at in 0..stages.len() {
            let at = (at + round as usize) % stages.len();
            stages[at].measure(calls, round)?;
        }
    }
    drop(stages);
    let mut served = Vec::new();
    for made in made {
        served.push(calls::Served::start(&recalld, made)?);
    }
    for round in 0..rounds {
        for at in 0..served.len() {
            let at = (at + round as usize) % served.len();
            served[at].measure(calls)?;
        }
    }
    Ok(())
}
