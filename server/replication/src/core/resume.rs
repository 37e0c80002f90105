//! Which objects that an earlier epoch put there, and no record names, may still be named.
//!
//! A collector removes what no record names of any epoch up to its own (REM-32). So what an epoch left lies there for
//! sure only if nobody has collected since but its own process, which is over and never gave it up.

/// Whether the epoch `mine` may name what the process that wrote the epoch `left` put there and still needed when it
/// ended: the one right before it, so that nobody held the workspace in between (REM-35).
#[must_use]
pub fn may_resume(left: u64, mine: u64) -> bool {
    left + 1 == mine
}
