//! Caps and timeouts of this crate, each with the reason for its value.

use std::time::Duration;

use recalld_mcp_protocol::limits::STREAM_COMMENT_EVERY;
use recalld_policy::limits::CALL_TIME_MAX;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Calls forwarded at a time. Each has a thread, its body and up to `RELAY_BYTES_MAX` of its response; a stream
    /// occupies its thread until the stream ends.
    pub const RELAYS_MAX: usize = 64;

    /// Bytes of a response that is buffered whole, if its length is known. A longer one is streamed. Responses of this
    /// program are shorter (`ANSWER_BYTES_MAX`).
    pub const RELAY_BYTES_MAX: u64 = 16 * 1024 * 1024;

    /// Timeout of the name lookup, and of the connection to another node.
    pub const RELAY_CONNECT_MAX: Duration = Duration::from_secs(5);

    /// Timeout of a silent node: longer than a call may take there, and than the interval of stream comments.
    pub const RELAY_SILENCE_MAX: Duration = Duration::from_secs(130);

    /// Timeout of a request between nodes: well below the wait of a call for a quota block.
    pub const NODE_ANSWER_MAX: Duration = Duration::from_secs(4);

    /// Maximum wait of a call for its workspace to be opened, or for a place among the open workspaces.
    pub const OPEN_WAIT_MAX: Duration = Duration::from_secs(10);

    /// Calls that may wait that long until this node has acquired a workspace without a leader.
    pub const TAKERS_MAX: usize = 3;
}

const _: () = assert!(RELAY_SILENCE_MAX.as_secs() > CALL_TIME_MAX.as_secs());

const _: () = assert!(RELAY_SILENCE_MAX.as_secs() > STREAM_COMMENT_EVERY.as_secs());
