//! Limits and timeouts of this crate, each with its reason.

use std::time::Duration;

use recalld_mcp_protocol::limits::ASK_TIME_MAX;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Timeout of a tool call.
    pub const CALL_TIME_MAX: Duration = Duration::from_secs(120);
}

const _: () = assert!(ASK_TIME_MAX.as_secs() < CALL_TIME_MAX.as_secs());
