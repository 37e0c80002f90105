//! Maxima of the clients of object stores and coordinators.

use std::time::Duration;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of any object: a part, or a record.
    pub const OBJECT_BYTES_MAX: u64 = 16 << 20;
    /// Bytes of the prefix in the address of a remote or a coordinator.
    pub const PREFIX_BYTES_MAX: usize = 256;
    /// Hosts of a coordinator.
    pub const ENDPOINTS_MAX: usize = 16;

    /// Time for a connection to be established, and time for a name to be resolved.
    pub const CONNECT_WAIT: Duration = Duration::from_secs(5);
    /// Shortest share of `CONNECT_WAIT` for each address of a host.
    pub const CONNECT_WAIT_MIN: Duration = Duration::from_millis(10);
    /// Time in which no byte is transferred, and time for a request without bytes.
    pub const ANSWER_WAIT: Duration = Duration::from_secs(15);
    /// Transfer rate by which a request with bytes has additional time.
    pub const SLOWEST_BYTES_PER_SECOND: u64 = 256 << 10;
    /// Idle connections that are retained for the next request.
    pub const IDLE_CONNECTIONS_MAX: usize = 32;
    /// Time for which an idle connection is retained.
    pub const IDLE_MAX: Duration = Duration::from_secs(10);
    /// Bytes of an error response that are read; the rest is ignored.
    pub const ERROR_BYTES_MAX: u64 = 64 << 10;
    /// Characters of a message from a store or a coordinator that are passed on.
    pub const MESSAGE_CHARS_MAX: usize = 200;
    /// Bytes of a response with names.
    pub const LIST_BYTES_MAX: u64 = 4 << 20;
    /// Names that one request lists.
    pub const LISTED_AT_ONCE: usize = 1000;
    /// List requests in one call; only names outside of the layout make more of them necessary.
    pub const LIST_PAGES_MAX: usize = 10_000;
    /// Objects that are removed in one request.
    pub const REMOVED_AT_ONCE: usize = 1000;

    /// Attempts of an idempotent request.
    pub const TRIES_MAX: u32 = 4;
    /// Time after which an idempotent request is not repeated any more.
    pub const REPEAT_FOR: Duration = Duration::from_secs(30);
    /// First pause before a request is repeated; each pause is twice as long as the one before.
    pub const REPEAT_PAUSE_MIN: Duration = Duration::from_millis(50);
    /// Validity of a signature: as much as stores allow clocks to differ.
    pub const SIGNED_FOR: Duration = Duration::from_secs(900);
    /// Seconds by which clocks may differ before a refusal is attributed to the difference.
    pub const SKEW_SECONDS_MAX: u64 = 240;
    /// Time before the expiry of credentials at which new credentials are fetched.
    pub const KEYS_FETCHED_BEFORE: Duration = Duration::from_secs(300);

    /// Bytes of a profile file.
    pub const PROFILE_BYTES_MAX: u64 = 1 << 20;
    /// Bytes of a file with the token of a web identity or a container.
    pub const TOKEN_BYTES_MAX: u64 = 64 << 10;
    /// Bytes of a file of certificates.
    pub const CERTIFICATES_BYTES_MAX: u64 = 4 << 20;
    /// Entries of a certificate file, certificates and others.
    pub const CERTIFICATES_MAX: usize = 1024;

    /// Age after which an unfinished file in a directory of objects has no owner any more.
    pub const UNFINISHED_MAX: Duration = Duration::from_secs(24 * 60 * 60);
    /// Unfinished files that are examined when a directory of objects is opened.
    pub const UNFINISHED_FILES_MAX: usize = 10_000;

    /// Bytes of a record that is stored as an etcd value; a longer record is an object, which the value names.
    pub const ETCD_INLINE_MAX: usize = 16 << 10;
    /// Keys that are removed in one transaction; etcd allows 128 operations.
    pub const ETCD_REMOVED_AT_ONCE: usize = 100;
    /// Bytes of an etcd response: as much as one transaction can write, in base64, and a margin.
    pub const ETCD_ANSWER_BYTES_MAX: u64 = 4 << 20;
}

const _: () = assert!(SIGNED_FOR.as_secs() > REPEAT_FOR.as_secs());
