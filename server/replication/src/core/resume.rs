//! Adoption of uploads: decides if an epoch may reference objects that an earlier epoch uploaded and no record
//! references.
//!
//! A collector removes unreferenced objects of every epoch up to its own (REM-32). So the uploads of an epoch are
//! certain to exist only if no process but the epoch's own has collected since. The epoch's own process is over and
//! never abandoned the uploads.

/// Returns true if epoch `mine` may reference objects that the process of epoch `left` uploaded and still needed at its
/// end. Epoch `left` must come right before, so that nobody held the workspace in between (REM-35).
#[must_use]
pub fn may_resume(left: u64, mine: u64) -> bool {
    left + 1 == mine
}
