//! Caps and timeouts of this crate, each with the reason for its size.

use std::time::Duration;

use recalld_mcp_protocol::limits::STREAM_COMMENT_EVERY;
use recalld_policy::limits::CALL_TIME_MAX;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Calls that are being passed on to other nodes, each on a thread of its own with its body and up to
    /// `RELAY_BYTES_MAX` of its answer; a stream holds its thread until it ends.
    pub const RELAYS_MAX: usize = 64;

    /// Bytes of an answer of another node that is kept until it is whole, if it says its length; a longer one is passed
    /// on as it comes. Our own have less (`ANSWER_BYTES_MAX`).
    pub const RELAY_BYTES_MAX: u64 = 16 * 1024 * 1024;

    /// How long the name of another node may be looked up, and how long it may be connected to.
    pub const RELAY_CONNECT_MAX: Duration = Duration::from_secs(5);

    /// How long another node may be silent: longer than a call may take there, and than between the comments of a
    /// stream.
    pub const RELAY_SILENCE_MAX: Duration = Duration::from_secs(130);

    /// How long a node waits for what another one answers it itself: well below what a call may wait for a block.
    pub const NODE_ANSWER_MAX: Duration = Duration::from_secs(4);

    /// How long a call waits for its workspace to be opened, or for a place among those that are.
    pub const OPEN_WAIT_MAX: Duration = Duration::from_secs(10);

    /// Calls that wait so long until this node may write what nobody writes.
    pub const TAKERS_MAX: usize = 3;
}

const _: () = assert!(RELAY_SILENCE_MAX.as_secs() > CALL_TIME_MAX.as_secs());

const _: () = assert!(RELAY_SILENCE_MAX.as_secs() > STREAM_COMMENT_EVERY.as_secs());
