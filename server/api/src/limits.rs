//! Caps and timeouts of this crate, each with the reason for its size.

use std::time::Duration;

use recalld_http_server::limits::BODY_BYTES_MAX;
use recalld_tools::limits::TEXT_BYTES_MAX;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// The body of a call whose caller is not known yet, in bytes: the longest text of letters of two bytes,
    /// each escaped as six, as writers of ASCII do. A tenant's credential is looked up once its body is there.
    pub const TENANT_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

    /// Body of one call of the HTTP API, in bytes: its questions are short, and checking a hostile body
    /// takes many times its size.
    pub const API_BODY_BYTES_MAX: usize = 1024 * 1024;

    /// How long a browser may remember what a preflight said; a shorter list takes that long to be noticed.
    pub const PREFLIGHT_AGE: Duration = Duration::from_secs(600);
}

const _: () = assert!(3 * TEXT_BYTES_MAX < TENANT_BODY_BYTES_MAX);

const _: () = assert!(TENANT_BODY_BYTES_MAX <= BODY_BYTES_MAX);

const _: () = assert!(API_BODY_BYTES_MAX <= BODY_BYTES_MAX);
