//! Limits and timeouts of this crate, with the reason for each value.

use std::time::Duration;

use recalld_http_server::limits::BODY_BYTES_MAX;
use recalld_tools::limits::TEXT_BYTES_MAX;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum body size of a call from a caller not yet authenticated, in bytes. Sized for the longest text of letters
    /// of two bytes, each escaped as six bytes, as ASCII-only JSON writers do. A tenant's credential is looked up only
    /// after the body has arrived.
    pub const TENANT_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

    /// Maximum body size of an HTTP API call, in bytes. Questions are short, and validating a hostile body takes many
    /// times its size.
    pub const API_BODY_BYTES_MAX: usize = 1024 * 1024;

    /// Maximum time that a browser may cache a preflight response. A shortened list of origins takes effect only after
    /// this time.
    pub const PREFLIGHT_AGE: Duration = Duration::from_secs(600);
}

const _: () = assert!(3 * TEXT_BYTES_MAX < TENANT_BODY_BYTES_MAX);

const _: () = assert!(TENANT_BODY_BYTES_MAX <= BODY_BYTES_MAX);

const _: () = assert!(API_BODY_BYTES_MAX <= BODY_BYTES_MAX);
