//! Caps and timeouts of this crate, each with the reason for its size.

use std::time::Duration;

use recalld_mcp_protocol::limits::ASK_TIME_MAX;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Longest that a tool call may take.
    pub const CALL_TIME_MAX: Duration = Duration::from_secs(120);
}

const _: () = assert!(ASK_TIME_MAX.as_secs() < CALL_TIME_MAX.as_secs());
