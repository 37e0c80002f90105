//! Limits and timeouts of this crate, with the reason for each value.

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Default number of connections from one peer address on the hosted listener: a sixteenth of all, so that one peer
    /// does not exhaust the limit. A gateway in front is one peer.
    pub const PEER_CONNECTIONS_DEFAULT: usize = 1_024;

    /// Maximum number of allowed origins. A longer list is a mistake, and every call is compared with each origin.
    pub const ORIGINS_MAX: usize = 64;
}
