//! Caps and timeouts of this crate, each with the reason for its size.

use std::time::Duration;

use recalld_config::limits::PEER_CONNECTIONS_DEFAULT;
use recalld_http_server::limits::CONNECTIONS_MAX;
use recalld_http_server::limits::WAITING_BYTES_MAX;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Of the bytes that answers may wait in, what one peer of the hosted listener may hold: an
    /// eighth, so that some slow readers do not make it full for the others. Two of the largest answers.
    pub const WAITING_BYTES_PEER_MAX: usize = 32 * 1024 * 1024;

    /// Of the same, what is kept for the local listener: two of the largest answers.
    pub const WAITING_BYTES_LOCAL_RESERVED: usize = 32 * 1024 * 1024;

    /// Places for connections that only the local listener takes, so that its operator gets in while the
    /// hosted one is full: some clients, their streams, and whoever scrapes.
    pub const CONNECTIONS_LOCAL_RESERVED: usize = 256;

    /// Descriptors beside those of connections: segments, logs, backups, the encoder's files.
    pub const DESCRIPTORS_BESIDE: usize = 1_024;

    /// How often the log is synced where writes do not wait for it.
    pub const SYNC_INTERVAL: Duration = Duration::from_millis(50);

    /// How often a server looks whether a backup that still has to lose something can be reached again.
    pub const BACKUP_ERASURES_EVERY: Duration = Duration::from_secs(60);
}

const _: () = assert!(PEER_CONNECTIONS_DEFAULT + CONNECTIONS_LOCAL_RESERVED < CONNECTIONS_MAX);

const _: () = assert!(WAITING_BYTES_PEER_MAX + WAITING_BYTES_LOCAL_RESERVED < WAITING_BYTES_MAX);
