//! The record of a value (format-spec/records.md).

use engine::{Micros, Snapshot};
use sha2::{Digest, Sha256};

use recalld_common::own_kinds::AGENT_STATE;
use recalld_tool_framework::ServiceError;
use recalld_tool_framework::args::Text;
use recalld_tool_framework::records::{Record, reference};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of a value as JSON.
    pub(super) const VALUE_BYTES_MAX: usize = 64 << 10;
}

/// The gate of every value.
pub(super) const GATE: &str = "agent_state";

/// The name of an agent.
pub(super) type AgentId = Text<1, 128>;
/// The name of one of its values.
pub(super) type StateKey = Text<1, 256>;
/// What a value is wanted for.
pub(super) type Purpose = Text<1, 500>;

/// The ref of an agent's value.
pub(super) fn ref_of(agent: &str, key: &str) -> String {
    // Its length keeps the agent apart from the key.
    let named = format!("{}:{agent}{key}", agent.len());
    reference(AGENT_STATE, &engine::hex(&Sha256::digest(named)))
}

/// The current version of an agent's value.
pub(super) fn current<'s>(
    snapshot: &'s Snapshot,
    agent: &str,
    key: &str,
) -> Result<Option<Record<'s>>, ServiceError> {
    let place = snapshot.find_ref(&ref_of(agent, key))?;
    place.map(|place| Record::of(snapshot, place)).transpose()
}

/// The number of a version, from 1.
pub(super) fn version_of(record: &Record<'_>) -> u64 {
    record.attributes.get("version").and_then(serde_json::Value::as_u64).unwrap_or_default()
}

/// Whether its time is over.
pub(super) fn is_expired(record: &Record<'_>, now: Micros) -> bool {
    record.time("expires_at").is_some_and(|end| end <= now)
}
