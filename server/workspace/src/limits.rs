//! Caps and timeouts of this crate, each with the reason for its size.

use std::time::Duration;

use recalld_cluster::limits::TAKERS_MAX;
use recalld_http_server::limits::WORKERS_MIN;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Stores of tenants that are open at a time, `local` beside them. Each may take some 20 MiB: its unsealed
    /// tail (`TENANT_TAIL_BYTES_SEAL`, about twice that while it is merged), answers that are kept, and threads of
    /// its ledger.
    pub const OPEN_STORES_MAX: usize = 64;

    /// Calls of one workspace that wait so long for it. Each holds a worker: those that come when so many wait already
    /// wait for `OPEN_CROWD_WAIT_MAX`.
    pub const OPEN_WAITERS_MAX: usize = 4;

    /// How long these wait: most stores open within it.
    pub const OPEN_CROWD_WAIT_MAX: Duration = Duration::from_millis(250);

    /// Calls that open or close workspaces of tenants which are on a remote, or wait so long for that, at a time, at
    /// the least: half of the workers. A remote that does not answer leaves the others, but for those below.
    pub const OPENINGS_MIN: usize = WORKERS_MIN / 2;

    /// How long a tenant's store stays open when nobody uses it.
    pub const STORE_IDLE_MAX: Duration = Duration::from_secs(300);

    /// Heap bytes of the tail at which a tenant's store seals it: small, because many are open.
    pub const TENANT_TAIL_BYTES_SEAL: usize = 4 * 1024 * 1024;

    /// Encoders of models that tenants' stores have and `local` has not, which are kept.
    pub const TENANT_MODELS_MAX: usize = 2;
}

const _: () = assert!(OPENINGS_MIN + TAKERS_MAX < WORKERS_MIN);
