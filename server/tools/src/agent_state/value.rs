//! Record of an agent's value (format-spec/records.md).

use engine::{Micros, Snapshot};
use sha2::{Digest, Sha256};

use recalld_common::own_kinds::AGENT_STATE;
use recalld_tool_framework::ServiceError;
use recalld_tool_framework::args::Text;
use recalld_tool_framework::records::{Record, reference};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum bytes of a value as JSON.
    pub(super) const VALUE_BYTES_MAX: usize = 64 << 10;
}

/// Policy gate of every value.
pub(super) const GATE: &str = "agent_state";

/// Name of an agent, 1 to 128 characters.
pub(super) type AgentId = Text<1, 128>;
/// Name of a value, 1 to 256 characters.
pub(super) type StateKey = Text<1, 256>;
/// Purpose of a read, 1 to 500 characters.
pub(super) type Purpose = Text<1, 500>;

/// Ref of an agent's value, shared by all its versions.
pub(super) fn ref_of(agent: &str, key: &str) -> String {
    // The length prefix separates the agent name from the key.
    let named = format!("{}:{agent}{key}", agent.len());
    reference(AGENT_STATE, &engine::hex(&Sha256::digest(named)))
}

/// Current version of an agent's value; `None` if there is none.
pub(super) fn current<'s>(
    snapshot: &'s Snapshot,
    agent: &str,
    key: &str,
) -> Result<Option<Record<'s>>, ServiceError> {
    let place = snapshot.find_ref(&ref_of(agent, key))?;
    place.map(|place| Record::of(snapshot, place)).transpose()
}

/// Version number, from 1; 0 if missing.
pub(super) fn version_of(record: &Record<'_>) -> u64 {
    record.attributes.get("version").and_then(serde_json::Value::as_u64).unwrap_or_default()
}

/// Returns true if the value's time to live is over.
pub(super) fn is_expired(record: &Record<'_>, now: Micros) -> bool {
    record.time("expires_at").is_some_and(|end| end <= now)
}
