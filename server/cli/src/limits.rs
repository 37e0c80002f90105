//! Limits and timeouts of this crate, with the reason for each value.

use std::time::Duration;

use recalld_config::limits::PEER_CONNECTIONS_DEFAULT;
use recalld_http_server::limits::CONNECTIONS_MAX;
use recalld_http_server::limits::WAITING_BYTES_MAX;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Waiting response bytes of one peer of the hosted listener: an eighth of the total, so that a few slow readers
    /// cannot use up the budget of others. Room for two of the largest answers.
    pub const WAITING_BYTES_PEER_MAX: usize = 32 * 1024 * 1024;

    /// Waiting response bytes reserved for the local listener: two of the largest answers.
    pub const WAITING_BYTES_LOCAL_RESERVED: usize = 32 * 1024 * 1024;

    /// Connections reserved for the local listener, so that the operator can connect while the hosted listener is full:
    /// some clients, their streams, and metrics scrapers.
    pub const CONNECTIONS_LOCAL_RESERVED: usize = 256;

    /// Descriptors in addition to connections: segments, WALs, backups, the encoder's files.
    pub const DESCRIPTORS_BESIDE: usize = 1_024;

    /// Sync interval of the WAL, if writes do not wait for the sync.
    pub const SYNC_INTERVAL: Duration = Duration::from_millis(50);

    /// Interval at which a server retries erasures in backups that were unreachable.
    pub const BACKUP_ERASURES_EVERY: Duration = Duration::from_secs(60);
}

const _: () = assert!(PEER_CONNECTIONS_DEFAULT + CONNECTIONS_LOCAL_RESERVED < CONNECTIONS_MAX);

const _: () = assert!(WAITING_BYTES_PEER_MAX + WAITING_BYTES_LOCAL_RESERVED < WAITING_BYTES_MAX);
