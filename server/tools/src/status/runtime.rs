//! `brain_runtime_check`: checks each component that an answer needs.

use std::time::Instant;

use serde_json::{Map, Value, json};

use super::known_vector::{SCALE, SENTENCE, VECTOR};
use recalld_cluster::control_chain::{MARKER, SHARED};
use recalld_common::counted::counted;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_embedding::embed::Embedder;
use recalld_embedding::model::DEFAULT_NAME;
use recalld_status_answers::CheckResult;
use recalld_tool_framework::args::args;
use recalld_tool_framework::results::{Kind, always};
use recalld_tool_framework::{Answer, Change, IN_THE_LOG, ServiceError, Tool, ToolContext};

/// Minimum cosine between the reference vector and the computed vector. With int8 weights, the cosine is at least
/// 0.9993.
const COSINE_MIN: f32 = 0.99;
/// Maximum difference of an embedding's norm from 1.
const LENGTH_OFF_MAX: f32 = 1e-3;
/// Minimum free disk bytes: a few segments, and the files that a merge writes next to them.
const FREE_BYTES_MIN: u64 = 256 << 20;
const MIB: u64 = 1 << 20;

args! {
    struct Asked {}
}

pub(super) const CHECK: Tool = Tool {
    name: "brain_runtime_check",
    title: "Check the service",
    about: "Try the store, the encoder, the ledger, the control store, the disk and the clock. Use it when \
            answers fail or look wrong.",
    shape: Asked::shape,
    results: &[
        always("ok", Kind::Flag).says("Whether all checks are."),
        always("checks", Kind::List).says("Each {name, ok, detail, took_ms}."),
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| check(context, raw),
    example: "{}",
};

/// Result of a check: a description, or the fault.
type Found = Result<String, String>;

/// Function that checks one component.
type Check = fn(&ToolContext<'_>) -> Found;

/// All checks by name, in order of execution.
const CHECKS: [(&str, Check); 6] = [
    ("store", store),
    ("encoder", encoder),
    ("ledger", ledger),
    ("control_store", control_store),
    ("disk_space", disk_space),
    ("clock", clock),
];

fn check(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    Asked::parse(raw)?;
    let checks = check_all(context)?;
    let line = |CheckResult { name, ok, detail, .. }: &CheckResult| {
        format!("{name}: {}{detail}\n", if *ok { "" } else { "NOT OK: " })
    };
    let text = checks.iter().map(line).collect();
    let ok = checks.iter().all(|check| check.ok);
    Ok(Answer::plain(json!({"ok": ok, "checks": checks}), text))
}

/// Results of all checks.
///
/// # Errors
/// Returns an error if the call was cancelled.
pub(super) fn check_all(context: &ToolContext<'_>) -> Result<Vec<CheckResult>, ServiceError> {
    let mut checks = Vec::with_capacity(CHECKS.len());
    for (name, run) in CHECKS {
        if context.is_over() {
            return Err(ServiceError::Cancelled);
        }
        let began = Instant::now();
        let found = run(context);
        let took_ms = (began.elapsed().as_secs_f64() * 1e6).round() / 1e3;
        let (ok, detail) = match found {
            Ok(how) => (true, how),
            // The fault may name a file, which a tenant must not learn.
            Err(_) if context.caller.metered.is_some() => (false, IN_THE_LOG.to_owned()),
            Err(why) => (false, why),
        };
        checks.push(CheckResult { name, ok, detail, took_ms });
    }
    Ok(checks)
}

/// Checks that the store accepts writes and its counters are readable.
fn store(context: &ToolContext<'_>) -> Found {
    let store = &context.workspace.store;
    if let Some(why) = store.stop_reason() {
        return Err(format!("takes no writes: {why}"));
    }
    let snapshot = context.snapshot();
    let counts = snapshot.row_counts().map_err(|error| error.to_string())?;
    Ok(format!("takes writes; {} at commit {}", counted(counts.items, "item"), snapshot.seq()))
}

/// Checks the embedding of [`SENTENCE`]. All models must return a vector of norm 1. The default model must return the
/// reference vector; another model must return the same vector twice.
fn encoder(context: &ToolContext<'_>) -> Found {
    let view = context.view();
    let embedder = &view.embedder;
    let (name, kernel) = (embedder.name(), embedder.kernel());
    let made = embedder.embed(SENTENCE);
    let length = made.iter().map(|x| x * x).sum::<f32>().sqrt();
    if (length - 1.0).abs() > LENGTH_OFF_MAX {
        return Err(format!("{name} gives vectors of length {length}; 1 is wanted"));
    }
    if name != DEFAULT_NAME {
        return same_twice(embedder, &made).map(|()| format!("{name} by {kernel}: the same twice"));
    }
    let known = VECTOR.map(|x| f32::from(x) / SCALE);
    let cosine: f32 = made.iter().zip(known).map(|(made, known)| made * known).sum();
    if made.len() != VECTOR.len() || cosine < COSINE_MIN {
        return Err(format!(
            "{name} by {kernel}: cosine {cosine:.4} to the known vector of a sentence; {COSINE_MIN} is wanted"
        ));
    }
    Ok(format!("{name} by {kernel}: cosine {cosine:.4} to the known vector of a sentence"))
}

fn same_twice(embedder: &Embedder, made: &[f32]) -> Result<(), String> {
    if embedder.embed(SENTENCE) == made {
        return Ok(());
    }
    Err(format!("{} gives a sentence another vector the second time", embedder.name()))
}

/// Checks that the ledger accepts entries.
fn ledger(context: &ToolContext<'_>) -> Found {
    let audit = &context.workspace.audit;
    match audit.failure() {
        Some(why) => Err(format!("takes no entries: {why}")),
        None => Ok(format!("takes entries; {} so far", audit.progress().0)),
    }
}

/// Checks that the metastore is readable, if there is one. For a replicated metastore, also reports its leader and its
/// staleness.
fn control_store(context: &ToolContext<'_>) -> Found {
    let services = context.services;
    // Tenants must not learn the nodes of the cluster.
    match services.control_chain {
        Some(chain) if context.caller.metered.is_none() => {
            let told = chain.told()?;
            services.control.ready().map_err(|error| format!("{told}; {error}"))?;
            return Ok(told);
        }
        _ => {}
    }
    if !services.control.exists() {
        return Ok("none yet: no tenant was made".to_owned());
    }
    services.control.ready().map_err(|error| error.to_string())?;
    if context.caller.metered.is_none() && services.data.join(MARKER).exists() {
        return Ok(format!("{SHARED}, whom nobody follows here now: it is as it was last"));
    }
    Ok("readable".to_owned())
}

/// Checks that the disk of the data directory has room for temporary files of the store.
fn disk_space(context: &ToolContext<'_>) -> Found {
    let about = rustix::fs::statvfs(context.services.data).map_err(|error| error.to_string())?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    if free < FREE_BYTES_MIN {
        return Err(format!("{} MiB are free; {} are wanted", free / MIB, FREE_BYTES_MIN / MIB));
    }
    // Tenants must not learn the exact free space.
    Ok(format!("{} MiB or more are free", FREE_BYTES_MIN / MIB))
}

/// Checks that the clock is plausible, and was not set back since the metastore last recorded a time (CTL-09).
fn clock(context: &ToolContext<'_>) -> Found {
    let now = context.services.clock.now();
    if now.0 <= 0 {
        return Err(format!("says {}", names::time(now)));
    }
    if context.services.control.exists() {
        context.services.control.ready().map_err(|error| error.to_string())?;
    }
    Ok(format!("says {}", names::time(now)))
}
