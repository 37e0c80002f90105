//! Family `status`: counters and health of the service.

mod bootstrap;
mod known_vector;
mod query;
mod runtime;
mod told;

use std::collections::BTreeMap;

use engine::{AnnStatus, Seq, Store};
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
    let structured = collect(context)?;
    let text = format!(
        "{}, {} of them superseded, and {} tombstoned; {}, {}, {}",
        counted(&structured["memory_items"], "item"),
        structured["superseded"],
        structured["tombstoned"],
        counted(&structured["edges"], "edge"),
        counted(&structured["sources"], "source"),
        counted(&structured["sensitivity_events"], "sensitivity event"),
    );
    Ok(Answer::plain(structured, text))
}

/// Collects the result of `recall_stats` and `GET /stats`.
pub fn collect(context: &ToolContext<'_>) -> Result<Value, ServiceError> {
    let workspace = &context.workspace;
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
    let mut shown = json!({
        "memory_items": counts.items, "edges": counts.edges, "sources": counts.sources,
        "sensitivity_events": events,
        "superseded": counts.superseded, "tombstoned": counts.tombstoned,
        "by_kind": by_kind, "by_modality": by_modality,
        "embedding_rows": counts.vectors, "segments": counts.segments,
        "bytes_on_disk": workspace.store.bytes_on_disk(),
        "store": store_part(&workspace.store, snapshot.seq(), context.caller.metered.is_some()),
        "search": search_part(&snapshot.ann_status()),
        "recall_latency_ms": {
            "p50": latency(0.50), "p95": latency(0.95), "p99": latency(0.99),
        },
    });
    if kinds_left_out + modalities_left_out > 0 {
        shown["names_left_out"] = (kinds_left_out + modalities_left_out).into();
    }
    Ok(shown)
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

/// State of the store: newest commit, writability, and pending erasures (`null` if the store does not accept writes).
/// If the store does not accept writes, the reason is included. A tenant does not get the reason, because it may name a
/// file.
fn store_part(store: &Store, seq: Seq, is_tenants: bool) -> Value {
    let mut part = json!({
        "seq": seq, "takes_writes": true, "erasures_pending": store.erasures_pending().ok(),
    });
    if let Some(why) = store.stop_reason() {
        part["takes_writes"] = json!(false);
        part["why"] = if is_tenants { json!(IN_THE_LOG) } else { json!(why) };
    }
    part
}

/// Mode of vector search, and its measured recall at 10.
fn search_part(state: &AnnStatus) -> Value {
    json!({
        "mode": state.mode.name(), "approximate": state.is_approximate,
        "rows": state.rows, "indexed_rows": state.indexed_rows,
        "recall_at_10": state.recall_at_10, "measured_over": state.neighbours_measured,
    })
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
