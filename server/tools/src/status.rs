//! Family `status`: counters and health of the service.

mod bootstrap;
mod known_vector;
mod query;
mod runtime;
mod told;

use std::collections::BTreeMap;

use engine::{Seq, Snapshot, Store};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::limits::NAMES_COUNTED_MAX;
use recalld_common::counted::counted;
use recalld_common::scope::Scope;
use recalld_tool_framework::args::args;
use recalld_tool_framework::results::{Kind, always, sometimes};
use recalld_tool_framework::{Answer, Change, Family, IN_THE_LOG, ServiceError, Tool, ToolContext};

args! {
    struct Asked {}
}

pub(super) static FAMILY: Family = Family {
    name: "status",
    about: "How much is remembered, and how the service is.",
    tools: &[query::QUERY, crate::startup::TOOL, bootstrap::BOOTSTRAP, STATS, runtime::CHECK],
};

const STATS: Tool = Tool {
        name: "recall_stats",
        title: "Statistics",
        about: "Count what is remembered, and say how fast recall is. Not for recall.",
        shape: Asked::shape,
        results: &[
            always("memory_items", Kind::Integer).says("Items, superseded ones too; none that are hidden or erased."),
            always("edges", Kind::Integer).says("Edges."),
            always("sources", Kind::Integer).says("Sources."),
            always("sensitivity_events", Kind::Integer).says(
                "Times that something was withheld, redacted, raised, lowered or erased, as far as the caller \
                 may know.",
            ),
            always("superseded", Kind::Integer).says("Items that a newer one replaces."),
            always("tombstoned", Kind::Integer).says("Items that are hidden or erased."),
            always("by_kind", Kind::Object).says("Items of each kind."),
            always("by_modality", Kind::Object).says("Items of each modality."),
            sometimes("names_left_out", Kind::Integer).says("Kinds and modalities that have no room."),
            always("embedding_rows", Kind::Integer).says("Rows of embeddings."),
            always("segments", Kind::Integer).says("Segments of the store."),
            always("bytes_on_disk", Kind::Integer).says("Bytes of the store's files."),
            always("store", Kind::Object).says(
                "seq of its newest commit, takes_writes, why it takes none, erasures_pending.",
            ),
            always("search", Kind::Object).says(
                "How searches by meaning are done: mode, approximate, rows, indexed_rows, recall_at_10, \
                 measured_over.",
            ),
            always("recall_latency_ms", Kind::Object).says("p50, p95, p99 since the start."),
        ],
        scope: Some(Scope::TenantRead),
        change: Change::Nothing,
        core: false,
        run: |context, raw| stats(context, raw),
        example: "{}",
};

fn stats(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    Asked::parse(raw)?;
    let stats = collect(context)?;
    let text = format!(
        "{}, {} of them superseded, and {} tombstoned; {}, {}, {}",
        counted(stats.memory_items, "item"),
        stats.superseded,
        stats.tombstoned,
        counted(stats.edges, "edge"),
        counted(stats.sources, "source"),
        counted(stats.sensitivity_events, "sensitivity event"),
    );
    Ok(Answer::plain(json!(stats), text))
}

/// Result of `recall_stats` and `GET /stats`.
#[derive(Debug, Serialize)]
pub struct Stats<'a> {
    memory_items: u64,
    edges: u64,
    sources: u64,
    sensitivity_events: u64,
    superseded: u64,
    tombstoned: u64,
    by_kind: BTreeMap<String, u64>,
    by_modality: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    names_left_out: Option<usize>,
    embedding_rows: u64,
    segments: u64,
    bytes_on_disk: u64,
    store: StoreStats<'a>,
    search: SearchStats,
    recall_latency_ms: LatencyStats,
}

/// State of the store.
#[derive(Debug, Serialize)]
struct StoreStats<'a> {
    seq: Seq,
    takes_writes: bool,
    /// Reason why the store does not accept writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    /// `None` if the store does not accept writes.
    erasures_pending: Option<usize>,
}

/// Mode of vector search, and its measured recall at 10.
#[derive(Debug, Serialize)]
struct SearchStats {
    mode: &'static str,
    approximate: bool,
    rows: u64,
    indexed_rows: u64,
    recall_at_10: f64,
    measured_over: u64,
}

/// Percentiles of the recall latency since the start; `None` before the first recall.
#[derive(Debug, Serialize)]
struct LatencyStats {
    p50: Option<f64>,
    p95: Option<f64>,
    p99: Option<f64>,
}

/// Collects the result of `recall_stats` and `GET /stats`.
pub fn collect<'a>(context: &ToolContext<'a>) -> Result<Stats<'a>, ServiceError> {
    let workspace = context.workspace;
    let snapshot = context.snapshot();
    let counts = snapshot.row_counts()?;
    let census = snapshot.item_counts()?;
    let events = workspace.audit.sensitivity_events(|| context.is_over());
    let events = events.map_err(|error| ServiceError::Unaudited(error.to_string()))?;
    let events = events.ok_or(ServiceError::Cancelled)?;
    let is_auditor = context.caller.scopes.contains(&Scope::AuditRead);
    let events = if is_auditor { events.all() } else { events.open };
    let latency = |share| workspace.recalls.percentile_ms(share);
    let (by_kind, kinds_left_out) = most_frequent(census.kinds);
    let (by_modality, modalities_left_out) = most_frequent(census.modalities);
    let left_out = kinds_left_out + modalities_left_out;
    Ok(Stats {
        memory_items: counts.items,
        edges: counts.edges,
        sources: counts.sources,
        sensitivity_events: events,
        superseded: counts.superseded,
        tombstoned: counts.tombstoned,
        by_kind,
        by_modality,
        names_left_out: (left_out > 0).then_some(left_out),
        embedding_rows: counts.vectors,
        segments: counts.segments,
        bytes_on_disk: workspace.store.bytes_on_disk(),
        store: StoreStats::of(&workspace.store, snapshot.seq(), context.caller.metered.is_some()),
        search: SearchStats::of(&snapshot),
        recall_latency_ms: LatencyStats {
            p50: latency(0.50),
            p95: latency(0.95),
            p99: latency(0.99),
        },
    })
}

/// The most frequent names, and the number of other names.
fn most_frequent(counts: BTreeMap<String, u64>) -> (BTreeMap<String, u64>, usize) {
    let left_out = counts.len().saturating_sub(NAMES_COUNTED_MAX);
    if left_out == 0 {
        return (counts, 0);
    }
    let mut all: Vec<(String, u64)> = counts.into_iter().collect();
    all.sort_by(|(_, left), (_, right)| right.cmp(left)); // names of equal count stay in their order
    all.truncate(NAMES_COUNTED_MAX);
    (all.into_iter().collect(), left_out)
}

impl<'a> StoreStats<'a> {
    /// Collects the state of a store with the newest commit `seq`. A tenant does not get the reason, because it may
    /// name a file.
    fn of(store: &'a Store, seq: Seq, is_tenants: bool) -> Self {
        let erasures_pending = store.erasures_pending().ok();
        let why = store.stop_reason();
        let takes_writes = why.is_none();
        let why = why.map(|why| if is_tenants { IN_THE_LOG } else { why });
        Self { seq, takes_writes, why, erasures_pending }
    }
}

impl SearchStats {
    fn of(snapshot: &Snapshot) -> Self {
        let state = snapshot.ann_status();
        Self {
            mode: state.mode.name(),
            approximate: state.is_approximate,
            rows: state.rows,
            indexed_rows: state.indexed_rows,
            recall_at_10: state.recall_at_10,
            measured_over: state.neighbours_measured,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_names_are_counted() {
        let of = |names: usize| -> BTreeMap<String, u64> {
            (0..names).map(|n| (format!("kind {n:03}"), u64::from(n % 300 == 0) + 1)).collect()
        };
        assert_eq!(most_frequent(of(NAMES_COUNTED_MAX)), (of(NAMES_COUNTED_MAX), 0));
        let (most, left_out) = most_frequent(of(NAMES_COUNTED_MAX + 45));
        assert_eq!((most.len(), left_out), (NAMES_COUNTED_MAX, 45));
        assert_eq!((most["kind 300"], most["kind 000"]), (2, 2));
        assert!(!most.contains_key("kind 299"));
    }
}
