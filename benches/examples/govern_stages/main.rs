//! What it costs that a call is authenticated, admitted, judged and recorded, by stage: a control store with one
//! workspace and ten credentials beside one with 1,000 workspaces and 10,000 credentials, in turns.
//!
//! ```text
//! govern_stages time [--quick]          a CSV line for each stage and control store
//! govern_stages fill --data DIR         workspaces and credentials for a server that is not running yet
//! ```
//!
//! The stages are the product's own functions, in the order in which a call goes through them. Knows no server.

mod worlds;

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use engine::Sensitivity;
use engine::ledger::{Decision, Effect, Outcome};
use serde_json::json;
use server::control::Kind;
use server::govern::rate::{Rate, key_of};
use server::govern::{Action, Trace, What, Who, decide, hash_arguments};

use crate::worlds::{Holder, World};

/// Whatever goes wrong ends a measurement; it is said once.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Items of an answer, each of which policy judges.
const ITEMS: usize = 8;
/// A caller with scopes as clients ask for.
const SCOPES: [&str; 5] =
    ["tenant:read", "brain:proxy", "memory:write", "ingest:write", "agent:state"];

#[derive(Parser)]
#[command(about = "Stages of a governed call; started by benches/govern/run")]
struct Arguments {
    #[command(subcommand)]
    act: Act,
}

#[derive(Subcommand)]
enum Act {
    /// Times each stage.
    Time {
        /// Enough to see that it works.
        #[arg(long)]
        quick: bool,
    },
    /// Puts workspaces and credentials into a data directory.
    Fill {
        #[arg(long)]
        data: PathBuf,
        #[arg(long, default_value_t = 999)]
        workspaces: usize,
    },
}

/// How long a stage took, each time.
struct Stage {
    name: &'static str,
    took: Vec<Duration>,
}

fn main() -> Result<(), Failure> {
    match Arguments::parse().act {
        Act::Time { quick } => time(quick),
        Act::Fill { data, workspaces } => {
            worlds::fill(&data.join("control.redb"), workspaces).map(drop)
        }
    }
}

fn time(quick: bool) -> Result<(), Failure> {
    let (rounds, calls, many) = if quick { (2, 20, 20) } else { (20, 500, 1_000) };
    let scratch = tempfile::tempdir()?;
    let mut worlds = [
        World::made(&scratch.path().join("few"), "1 workspace, 10 credentials", 1)?,
        World::made(
            &scratch.path().join("many"),
            if quick {
                "20 workspaces, 200 credentials"
            } else {
                "1,000 workspaces, 10,000 credentials"
            },
            many,
        )?,
    ];
    let mut all: Vec<Vec<Stage>> = vec![Vec::new(), Vec::new()];
    for round in 0..rounds {
        for (world, stages) in worlds.iter_mut().zip(&mut all) {
            one_round(world, stages, round * calls..(round + 1) * calls)?;
        }
    }
    println!("case,stage,p50_us,p99_us,runs");
    for (world, stages) in worlds.iter().zip(&mut all) {
        for stage in stages {
            stage.took.sort_unstable();
            let at = |of: usize| stage.took[(stage.took.len() - 1) * of / 100].as_secs_f64() * 1e6;
            let runs = stage.took.len();
            println!("\"{}\",{},{:.2},{:.2},{runs}", world.name, stage.name, at(50), at(99));
        }
    }
    Ok(())
}

/// Each stage of so many calls, every call by another credential.
fn one_round(
    world: &mut World,
    stages: &mut Vec<Stage>,
    calls: std::ops::Range<usize>,
) -> Result<(), Failure> {
    for call in calls {
        let holder = world.holder(call).clone();
        let fresh = world.token(&holder, call)?;
        let mut at = 0;
        let mut timed = |name: &'static str, work: &mut dyn FnMut() -> Result<(), Failure>| {
            let began = Instant::now();
            work()?;
            let took = began.elapsed();
            if stages.len() == at {
                stages.push(Stage { name, took: Vec::new() });
            }
            stages[at].took.push(took);
            at += 1;
            Ok::<(), Failure>(())
        };
        timed("bearer", &mut || bearer(world, &holder))?;
        timed("token seen first", &mut || token(world, &holder, &fresh))?;
        timed("token", &mut || token(world, &holder, &fresh))?;
        timed("admit", &mut || admit(world, &holder))?;
        timed("policy", &mut || judge(world, &holder))?;
        timed("audit", &mut || audit(world, &holder))?;
        timed("all, by bearer", &mut || whole(world, &holder, None))?;
        timed("all, by token", &mut || whole(world, &holder, Some(&fresh)))?;
    }
    Ok(())
}

fn whole(world: &World, holder: &Holder, by: Option<&str>) -> Result<(), Failure> {
    match by {
        Some(by) => token(world, holder, by)?,
        None => bearer(world, holder)?,
    }
    admit(world, holder)?;
    judge(world, holder)?;
    audit(world, holder)
}

fn bearer(world: &World, holder: &Holder) -> Result<(), Failure> {
    let kinds = [Kind::Bearer, Kind::User];
    let found = world.control.find_credential(holder.secret.as_bytes(), &kinds);
    let (credential, _tenant) = found.map_err(|why| format!("{why:?}"))?;
    black_box(credential.principal());
    Ok(())
}

fn token(world: &World, holder: &Holder, token: &str) -> Result<(), Failure> {
    let claims = world.authority.claims(&world.control, token, world.now());
    let claims = claims.map_err(|why| format!("{why:?}"))?;
    let (sid, jti) = (&claims.hangs_on, &claims.id);
    let standing = world.control.standing(&holder.workspace, sid, jti, claims.issued_at);
    black_box(standing.map_err(|why| why.to_string())?);
    Ok(())
}

fn admit(world: &World, holder: &Holder) -> Result<(), Failure> {
    let bucket = key_of(format!("{}/{}", holder.workspace, holder.id).as_bytes());
    let rate = Rate::new(10_000, Duration::from_secs(1), 1_000_000).ok_or("a rate")?;
    world.rates.take(&bucket, rate, Instant::now()).map_err(|wait| format!("{wait:?}"))?;
    let reserved = world.meter.reserve(&holder.workspace, None, world.now());
    reserved.map_err(|why| format!("{why:?}"))?.commit();
    Ok(())
}

fn judge(world: &World, holder: &Holder) -> Result<(), Failure> {
    let who = Who {
        workspace: &holder.workspace,
        principal: "user:ada",
        plan: "team",
        scopes: &SCOPES,
        purpose: None,
    };
    let what = What {
        workspace: &holder.workspace,
        kind: "note",
        sensitivity: Sensitivity::Internal,
        gates: &[],
    };
    for _ in 0..ITEMS {
        black_box(decide(&world.rules, black_box(&who), black_box(&what), Action::Read));
    }
    Ok(())
}

fn audit(world: &World, holder: &Holder) -> Result<(), Failure> {
    let arguments =
        json!({"tool": "brain_recall", "arguments": {"query": "where does the wren nest?"}});
    let trace = Trace {
        tool: "brain_recall",
        principal: format!("key:{}", holder.id),
        arguments: hash_arguments(&arguments),
        decision: Decision::Allow,
        rule: "scope".to_owned(),
        touched: (0..ITEMS).map(|_| server::tools::touched(Effect::Read, world.item)).collect(),
        outcome: Outcome::Done,
    };
    black_box(world.audit.record(&trace, false)?.to_json());
    Ok(())
}
