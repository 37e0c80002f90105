//! `agent_state`: values that agents keep between their runs, each version of which stays.
//!
//! Owns the family's rows and what a record of a value says (format-spec/records.md). Who may read one is policy's:
//! each has a gate that the scope `agent:state` opens.

mod admit;
mod lineage;
mod write;

use engine::{Micros, Snapshot};
use sha2::{Digest, Sha256};

use recalld_common::own_kinds::AGENT_STATE;
use recalld_tool_framework::args::Text;
use recalld_tool_framework::records::{Record, reference};
use recalld_tool_framework::{Family, ServiceError};

/// The gate of every value.
pub(super) const GATE: &str = "agent_state";

limit_table::limits! {
    pub(crate) const LIMITS = [write];

    /// Bytes of a value as JSON.
    const VALUE_BYTES_MAX: usize = 64 << 10;
}

/// The name of an agent.
type AgentId = Text<1, 128>;
/// The name of one of its values.
type StateKey = Text<1, 256>;
/// What a value is wanted for.
type Purpose = Text<1, 500>;

pub(super) static FAMILY: Family = Family {
    name: "agent_state",
    about: "What agents keep between their runs.",
    tools: &[write::WRITE, admit::ADMIT, admit::SIMULATE, lineage::LINEAGE],
};

/// The ref of an agent's value.
fn ref_of(agent: &str, key: &str) -> String {
    // Its length keeps the agent apart from the key.
    let named = format!("{}:{agent}{key}", agent.len());
    reference(AGENT_STATE, &engine::hex(&Sha256::digest(named)))
}

/// The current version of an agent's value.
fn current<'s>(
    snapshot: &'s Snapshot,
    agent: &str,
    key: &str,
) -> Result<Option<Record<'s>>, ServiceError> {
    let place = snapshot.find_ref(&ref_of(agent, key))?;
    place.map(|place| Record::of(snapshot, place)).transpose()
}

/// The number of a version, from 1.
fn version_of(record: &Record<'_>) -> u64 {
    record.attributes.get("version").and_then(serde_json::Value::as_u64).unwrap_or_default()
}

/// Whether its time is over.
fn is_expired(record: &Record<'_>, now: Micros) -> bool {
    record.time("expires_at").is_some_and(|end| end <= now)
}
