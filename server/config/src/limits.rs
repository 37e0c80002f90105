//! Caps and timeouts of this crate, each with the reason for its size.

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Connections of one peer address on the hosted listener, where no setting says otherwise: a sixteenth
    /// of all, so that one peer does not take the places of the others. A gateway in front is one peer.
    pub const PEER_CONNECTIONS_DEFAULT: usize = 1_024;

    /// Origins that an operator may list; more is a mistake, and each is compared with on every call.
    pub const ORIGINS_MAX: usize = 64;
}
