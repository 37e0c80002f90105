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

    /// How long a connection may take to come about, and a name to be looked up.
    pub const CONNECT_WAIT: Duration = Duration::from_secs(5);
    /// The least that each address of a host gets of it.
    pub const CONNECT_WAIT_MIN: Duration = Duration::from_millis(10);
    /// How long nothing may come or go, and how long a request without bytes may take.
    pub const ANSWER_WAIT: Duration = Duration::from_secs(15);
    /// A request with bytes may take as much longer as these would at this rate.
    pub const SLOWEST_BYTES_PER_SECOND: u64 = 256 << 10;
    /// Connections that are kept for the next request.
    pub const IDLE_CONNECTIONS_MAX: usize = 32;
    /// How long a connection is kept for the next request.
    pub const IDLE_MAX: Duration = Duration::from_secs(10);
    /// Bytes of an answer that says what went wrong, of which the rest is not read.
    pub const ERROR_BYTES_MAX: u64 = 64 << 10;
    /// Characters of what a store or a coordinator says that are passed on.
    pub const MESSAGE_CHARS_MAX: usize = 200;
    /// Bytes of an answer with names.
    pub const LIST_BYTES_MAX: u64 = 4 << 20;
    /// Names that are asked for in one request.
    pub const LISTED_AT_ONCE: usize = 1000;
    /// Requests for names in one call: only names that are nobody's make them so many.
    pub const LIST_PAGES_MAX: usize = 10_000;
    /// Objects that are removed in one request.
    pub const REMOVED_AT_ONCE: usize = 1000;

    /// How often a request is sent that may be done twice.
    pub const TRIES_MAX: u32 = 4;
    /// After this a request that may be done twice is sent no more.
    pub const REPEAT_FOR: Duration = Duration::from_secs(30);
    /// The first pause before a request is sent again; each is twice as long as the one before.
    pub const REPEAT_PAUSE_MIN: Duration = Duration::from_millis(50);
    /// How long a signature is good: as much as stores allow clocks to differ.
    pub const SIGNED_FOR: Duration = Duration::from_secs(900);
    /// By how many seconds clocks may differ before a refusal is put down to it.
    pub const SKEW_SECONDS_MAX: u64 = 240;
    /// How long before their end credentials are fetched anew.
    pub const KEYS_FETCHED_BEFORE: Duration = Duration::from_secs(300);

    /// Bytes of a file of profiles.
    pub const PROFILE_BYTES_MAX: u64 = 1 << 20;
    /// Bytes of a file with the token of a web identity or a container.
    pub const TOKEN_BYTES_MAX: u64 = 64 << 10;
    /// Bytes of a file of certificates.
    pub const CERTIFICATES_BYTES_MAX: u64 = 4 << 20;
    /// Certificates in a file, and whatever else is there.
    pub const CERTIFICATES_MAX: usize = 1024;

    /// After this a file that was not finished in a folder of objects is nobody's.
    pub const UNFINISHED_MAX: Duration = Duration::from_secs(24 * 60 * 60);
    /// Files that were not finished and are looked at when a folder is opened.
    pub const UNFINISHED_FILES_MAX: usize = 10_000;

    /// Bytes of a record that is a value of etcd; a longer one is an object, and the value names it.
    pub const ETCD_INLINE_MAX: usize = 16 << 10;
    /// Keys that are removed in one transaction; etcd allows 128 operations.
    pub const ETCD_REMOVED_AT_ONCE: usize = 100;
    /// Bytes of an answer of etcd: as much as one transaction can have put there, in base64, and some more.
    pub const ETCD_ANSWER_BYTES_MAX: u64 = 4 << 20;
}

const _: () = assert!(SIGNED_FOR.as_secs() > REPEAT_FOR.as_secs());
