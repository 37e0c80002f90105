//! The agreed catalog: tool names, their families, and their required scopes.

use recalld_common::scope::Scope;

/// A tool of the catalog: its name and its required scope.
pub type Agreed = (&'static str, Option<Scope>);

const RECALL: Option<Scope> = Some(Scope::BrainProxy);
const READ: Option<Scope> = Some(Scope::TenantRead);
const WRITE: Option<Scope> = Some(Scope::MemoryWrite);
const INGEST: Option<Scope> = Some(Scope::IngestWrite);
const STATE: Option<Scope> = Some(Scope::AgentState);
const AUDIT: Option<Scope> = Some(Scope::AuditRead);
const BENCH: Option<Scope> = Some(Scope::BenchRun);

/// Every family, in catalog order, with its tools.
pub const FAMILIES: [(&str, &[Agreed]); 13] = [
    (
        "recall",
        &[
            ("retrieval_arbitrate_tool", RECALL),
            ("brain_recall", RECALL),
            ("semantic_recall_tool", RECALL),
            ("keyword_recall_tool", RECALL),
            ("graph_recall_tool", RECALL),
            ("search", RECALL),
            ("fetch", RECALL),
            ("brain_command", RECALL),
        ],
    ),
    (
        "docstore",
        &[
            ("docstore_manifest_tool", READ),
            ("docstore_search_tool", READ),
            ("docstore_get_document_tool", READ),
            ("docstore_get_chunk_tool", READ),
            ("docstore_get_lines_tool", READ),
            ("docstore_get_outline_tool", READ),
            ("docstore_get_history_tool", READ),
        ],
    ),
    (
        "graph",
        &[
            ("graphrag_status_tool", READ),
            ("brain_institutional_graph_tool", READ),
            ("graph_neighbors_tool", READ),
            ("graph_path_tool", READ),
            ("link_items_tool", WRITE),
            ("unlink_items_tool", WRITE),
        ],
    ),
    (
        "items",
        &[
            ("brain_remember", WRITE),
            ("get_item_tool", READ),
            ("supersede_item_tool", WRITE),
            ("supersession_chain_tool", READ),
            ("item_timeline_tool", READ),
            ("forget_item_tool", WRITE),
            ("list_sources_tool", READ),
            ("source_provenance_tool", READ),
            ("duplicate_scan_tool", READ),
            ("contradiction_scan_tool", READ),
        ],
    ),
    (
        "status",
        &[
            ("brain_status_query_tool", READ),
            ("brain_startup_context_tool", READ),
            ("brain_operational_bootstrap_tool", READ),
            ("recall_stats", READ),
            ("brain_runtime_check", READ),
        ],
    ),
    (
        "verify",
        &[
            ("brain_verify_claims_tool", RECALL),
            ("recall_staleness_check_tool", RECALL),
            ("receipt_reconcile_tool", RECALL),
            ("ledger_integrity_scan_tool", AUDIT),
            ("audit_trail_tool", AUDIT),
            ("sensitivity_events_tool", AUDIT),
            ("policy_explain_tool", RECALL),
        ],
    ),
    (
        "continuity",
        &[
            ("capture_operator_intent_tool", WRITE),
            ("record_operator_correction_tool", WRITE),
            ("record_outcome_valence_tool", WRITE),
            ("schedule_followup_tool", WRITE),
            ("complete_followup_tool", WRITE),
            ("due_followups_tool", READ),
            ("generate_daily_brain_brief_tool", READ),
        ],
    ),
    (
        "work",
        &[
            ("record_task_attempt_tool", WRITE),
            ("update_task_attempt_status_tool", WRITE),
            ("list_task_attempts_tool", READ),
            ("get_task_attempt_tool", READ),
        ],
    ),
    (
        "artifacts",
        &[
            ("issue_artifact_id_tool", WRITE),
            ("issue_artifact_id_bundle_tool", WRITE),
            ("reconcile_artifact_id_tool", WRITE),
            ("list_artifact_ids_tool", READ),
        ],
    ),
    (
        "ingest",
        &[
            ("ingest_paths_tool", INGEST),
            ("ingest_text_tool", INGEST),
            ("ingest_status_tool", READ),
            ("tombstone_paths_tool", INGEST),
            ("tombstone_reconcile_sweep_tool", INGEST),
            ("export_memory_tool", READ),
        ],
    ),
    (
        "agent_state",
        &[
            ("agent_state_write_tool", STATE),
            ("agent_state_read_admit_tool", STATE),
            ("agent_state_policy_simulate_tool", STATE),
            ("agent_state_lineage_tool", STATE),
        ],
    ),
    (
        "bench",
        &[
            ("brain_benchmark_recall", BENCH),
            ("brain_benchmark_encoder", BENCH),
            ("brain_benchmark_storage", BENCH),
            ("brain_benchmark_quality", BENCH),
            ("brain_benchmark_report", BENCH),
        ],
    ),
    ("tenant", &[("tenant_info", None), ("quota_status_tool", None)]),
];

/// All tools: family, name, scope.
pub fn agreed() -> impl Iterator<Item = (&'static str, &'static str, Option<Scope>)> {
    let families = FAMILIES.iter();
    families
        .flat_map(|&(family, tools)| tools.iter().map(move |&(name, scope)| (family, name, scope)))
}
