//! Names of the tools and counters that supply facts.

/// Tool for counts of stored items, and latencies.
pub const STATS: &str = "recall_stats";
/// Tool for graph statistics.
pub const GRAPH: &str = "graphrag_status_tool";
/// Tool for the quota and the rate.
pub const QUOTA: &str = "quota_status_tool";
/// Tool for the plan, the scopes and the workspace.
pub const TENANT: &str = "tenant_info";
/// Tool for the health checks.
pub const CHECK: &str = "brain_runtime_check";
/// Tool for the model, the tools and the limits.
pub const BOOTSTRAP: &str = "brain_operational_bootstrap_tool";
/// Tool for the documents.
pub const MANIFEST: &str = "docstore_manifest_tool";
/// Tool for the task attempts.
pub const TASKS: &str = "list_task_attempts_tool";
/// Tool for the open follow-ups.
pub const DUE: &str = "due_followups_tool";
/// Counters of this process or of its data directory, reported by no tool.
pub(crate) const PROCESS: &str = "process";
/// File with the record of backups.
pub(crate) const BACKUPS: &str = "backups.json";
