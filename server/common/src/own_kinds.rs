//! Reserved kinds: items that the service writes for itself. They describe the service's state and no facts.
//!
//! Defines the names (REC-01). Attributes of these items are defined by the tools that write them.

/// A file, or a text from a client.
pub(crate) const DOCUMENT: &str = "document";
/// A part of a document.
pub const CHUNK: &str = "chunk";
/// An ingest job.
pub(crate) const JOB: &str = "job";
/// The answer to a call with an idempotency key, for repetitions of the call.
pub const ANSWER: &str = "idempotency";
/// A reminder with a due time.
pub const FOLLOWUP: &str = "followup";
/// An attempt at a task.
pub const TASK_ATTEMPT: &str = "task_attempt";
/// An object with an id assigned by the service.
pub const ARTIFACT: &str = "artifact";
/// A value stored by an agent.
pub const AGENT_STATE: &str = "agent_state";
/// Results of a benchmark.
pub const BENCH: &str = "bench";

/// All reserved kinds.
pub const OWN_KINDS: [&str; 9] =
    [DOCUMENT, CHUNK, JOB, ANSWER, FOLLOWUP, TASK_ATTEMPT, ARTIFACT, AGENT_STATE, BENCH];

/// Returns true if items of this kind contain user content, which can be true or false.
pub fn says_something(kind: &str) -> bool {
    kind == CHUNK || !OWN_KINDS.contains(&kind)
}

/// Kinds of items that are part of another item, or internal to the service.
const PARTS: [&str; 4] = [CHUNK, JOB, ANSWER, BENCH];

/// Returns true if items of this kind are listed on their own.
pub fn is_own(kind: &str) -> bool {
    !PARTS.contains(&kind)
}
