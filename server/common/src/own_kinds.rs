//! Kinds of items that the service keeps for itself: they say how things stand with it, and not what is so.
//!
//! Owns their names (REC-01). What their attributes mean is for the tools that write them.

/// A file, or a text that a client gave.
pub(crate) const DOCUMENT: &str = "document";
/// A piece of one.
pub const CHUNK: &str = "chunk";
/// A job of ingest.
pub(crate) const JOB: &str = "job";
/// What a call was answered, for its repetition.
pub const ANSWER: &str = "idempotency";
/// Something to be done at a time.
pub const FOLLOWUP: &str = "followup";
/// A try at a task.
pub const TASK_ATTEMPT: &str = "task_attempt";
/// A thing with an id of ours.
pub const ARTIFACT: &str = "artifact";
/// A value that an agent keeps.
pub const AGENT_STATE: &str = "agent_state";
/// Figures of a benchmark.
pub const BENCH: &str = "bench";

/// All of them.
pub const OWN_KINDS: [&str; 9] =
    [DOCUMENT, CHUNK, JOB, ANSWER, FOLLOWUP, TASK_ATTEMPT, ARTIFACT, AGENT_STATE, BENCH];

/// Whether an item of this kind says something that can be so or not.
pub fn says_something(kind: &str) -> bool {
    kind == CHUNK || !OWN_KINDS.contains(&kind)
}

/// Kinds of records that are parts of others, or the service's own.
const PARTS: [&str; 4] = [CHUNK, JOB, ANSWER, BENCH];

/// Whether items of this kind stand for themselves.
pub fn is_own(kind: &str) -> bool {
    !PARTS.contains(&kind)
}
