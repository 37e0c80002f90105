//! Limits and timeouts of this crate, each with the reason for its size.

use std::time::Duration;

use recalld_cluster::limits::TAKERS_MAX;
use recalld_http_server::limits::WORKERS_MIN;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum open tenant stores, besides `local`. Each may need about 20 MiB: its unsealed tail
    /// (`TENANT_TAIL_BYTES_SEAL`, about twice that during a merge), cached results, and the threads of its ledger.
    pub const OPEN_STORES_MAX: usize = 64;

    /// Maximum calls of one workspace that wait the full time for it. Each occupies a worker; further calls wait only
    /// `OPEN_CROWD_WAIT_MAX`.
    pub const OPEN_WAITERS_MAX: usize = 4;

    /// Wait time of further calls; most stores open within this time.
    pub const OPEN_CROWD_WAIT_MAX: Duration = Duration::from_millis(250);

    /// Minimum number of concurrent calls that open or close tenant workspaces on a remote, or wait the full time for
    /// one: half of the workers. If the remote does not respond, the other workers stay free, except for up to
    /// `TAKERS_MAX`.
    pub const OPENINGS_MIN: usize = WORKERS_MIN / 2;

    /// Time after which an unused tenant store is closed.
    pub const STORE_IDLE_MAX: Duration = Duration::from_secs(300);

    /// Heap bytes of the tail at which a tenant store seals it; small, because many stores are open.
    pub const TENANT_TAIL_BYTES_SEAL: usize = 4 * 1024 * 1024;

    /// Maximum cached encoders for models that tenant stores use and `local` does not.
    pub const TENANT_MODELS_MAX: usize = 2;
}

const _: () = assert!(OPENINGS_MIN + TAKERS_MAX < WORKERS_MIN);
