//! The tools and counters that facts are from.

/// Counts of what is stored, and speeds.
pub const STATS: &str = "recall_stats";
/// The shape of the graph.
pub const GRAPH: &str = "graphrag_status_tool";
/// The quota and the rate.
pub const QUOTA: &str = "quota_status_tool";
/// The plan, the scopes and the workspace.
pub const TENANT: &str = "tenant_info";
/// The checks of the parts of the service.
pub const CHECK: &str = "brain_runtime_check";
/// The model, the tools and the bounds.
pub const BOOTSTRAP: &str = "brain_operational_bootstrap_tool";
/// The documents.
pub const MANIFEST: &str = "docstore_manifest_tool";
/// The attempts at tasks.
pub const TASKS: &str = "list_task_attempts_tool";
/// The open follow-ups.
pub const DUE: &str = "due_followups_tool";
/// Counters of this process or of its data directory, which no other tool gives.
pub(crate) const PROCESS: &str = "process";
/// The record of backups.
pub(crate) const BACKUPS: &str = "backups.json";
